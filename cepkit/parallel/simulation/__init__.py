"""Simulate parallel engines in virtual time, and measure the costs of steps on this machine."""
