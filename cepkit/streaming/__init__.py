"""Open streams: batches of events go in, matches come out; their state can be saved and loaded."""
