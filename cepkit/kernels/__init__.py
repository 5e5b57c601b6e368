"""Hand-written numba kernels; numpy and numba only."""
