"""The experiments of the paper "Partition and Compose"."""
