"""Kernels of the wing with the operators and experiments of the MatchRegex paper."""
