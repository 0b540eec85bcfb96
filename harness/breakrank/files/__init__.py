"""Files of a run: private, read within bounds, and written while the disk has room."""
