"""The gather: partial results of nodes become the result of a single node."""
