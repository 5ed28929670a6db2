"""One file a mode, behind one protocol."""
