"""Interactive views of runs."""
