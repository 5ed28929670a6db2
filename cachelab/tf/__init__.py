"""All that touches TensorFlow."""
