"""Ray starts the ranks: its commands, the places of its files meanwhile, and the way into its workers."""
