"""Open streams: they take batches of events and return matches; their state can be saved and loaded."""
