"""The same query in another language, where the meaning is equal."""
