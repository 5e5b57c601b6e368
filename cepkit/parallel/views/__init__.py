"""Interactive views of parallel runs."""
