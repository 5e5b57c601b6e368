"""Interactive views."""
