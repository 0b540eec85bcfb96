"""Hooks of Python itself."""
