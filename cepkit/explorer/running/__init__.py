"""Background runs of the explorer, and the presentation of their results."""
