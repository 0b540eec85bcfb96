"""Jobs that were started without us."""
