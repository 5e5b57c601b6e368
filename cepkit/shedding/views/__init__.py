"""Interactive views of replays and of utilities."""
