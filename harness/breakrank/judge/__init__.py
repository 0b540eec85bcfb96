"""The judge: from a saved history to a verdict."""
