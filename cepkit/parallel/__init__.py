"""Work spread over threads, and its results in one order."""
