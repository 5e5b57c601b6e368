"""What strategies learn from a warm-up: utilities, chances, classes, and the parents of partial matches."""
