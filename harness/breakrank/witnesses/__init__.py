"""Witnesses: each observes from outside that a strike landed."""
