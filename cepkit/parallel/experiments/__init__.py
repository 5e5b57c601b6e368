"""The experiments of the HYPERSONIC paper."""
