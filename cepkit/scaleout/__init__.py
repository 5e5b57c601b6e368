"""Scatter–gather: windows, patterns and joins over n nodes, with the result of a single node."""
