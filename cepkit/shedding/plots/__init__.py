"""Pictures of load shedding, from tidy data."""
