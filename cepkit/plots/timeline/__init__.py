"""Pictures of matches over time."""
