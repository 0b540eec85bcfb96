"""Pure functions of a history."""
