"""Pure reasoning: keys, verdicts, causes and advice. Imports neither TensorFlow nor IPython."""
