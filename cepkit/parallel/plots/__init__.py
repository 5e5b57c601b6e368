"""Pictures of runs and of threads."""
