"""Slurm starts the ranks: which commands it starts, how deputies come to the nodes, how jobs end, and who says so."""
