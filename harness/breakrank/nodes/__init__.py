"""Nodes: the Conductor's end of other machines. A deputy of ours runs on each, and a wire leads to it."""
