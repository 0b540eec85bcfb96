"""The agent inside a rank."""
