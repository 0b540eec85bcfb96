"""Calls of the kernel, made directly."""
