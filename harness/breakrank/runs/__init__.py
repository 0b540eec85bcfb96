"""Run directories, and the bench that fills them."""
