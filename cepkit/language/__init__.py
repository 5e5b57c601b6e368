"""Pattern and predicate text, their trees, and queries as values."""
