"""Experiments that belong to no single paper; their functions return tidy frames."""
