"""The counting engine: which branches it runs, and the source of its kernels."""
