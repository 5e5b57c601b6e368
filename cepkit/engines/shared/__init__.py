"""What several engines use: results as arrays, positions of events, loaded kernels."""
