"""Runs of the explorer in the background, and what is shown of their results."""
