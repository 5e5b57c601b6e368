"""A real stream with a latency bound, in wall-clock time."""
