"""Parallel engines in virtual time, and the costs of steps on this machine."""
