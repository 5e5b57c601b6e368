"""A query as joins between agents, and the source of their kernel."""
