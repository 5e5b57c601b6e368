"""The runs of a SiddhiQL app: states of patterns, windows, queries, and the clock in virtual time."""
