"""Slurm starts the ranks: which commands it starts, which jobs are ours, how they end, and what it says of them."""
