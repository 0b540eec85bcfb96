"""Hooks of torch."""
