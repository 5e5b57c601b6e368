"""The result of a run of the explorer, its events, and the worker that runs jobs."""
