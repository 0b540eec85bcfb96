"""The start of the agent in a process."""
