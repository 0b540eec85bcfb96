"""The Conductor: the one loop that owns a run."""
