"""Runners: how ranks come to exist, and what can be done to them from outside. One per file."""
