"""A query as a network of agents, and the arrays that its kernel works on."""
