"""Plans: the scenarios, the catalogue of them, and the user's script."""
