"""One file a view; each takes a record of the model, none knows TensorFlow."""
