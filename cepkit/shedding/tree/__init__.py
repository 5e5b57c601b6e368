"""The left-deep evaluation tree: a sequence query as a tree, its open state, and the engine."""
