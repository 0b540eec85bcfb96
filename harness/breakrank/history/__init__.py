"""Histories of ranks: one bounded file each, written and read back."""
