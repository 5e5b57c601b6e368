"""Kernels of the wings: agents of the hybrid protocol, load shedding, and LinkedCEP."""
