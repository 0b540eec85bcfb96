"""The deputy: the program that runs on each other node, with the standard library alone (Python 3.9 and newer)."""
