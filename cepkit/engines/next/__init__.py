"""Sequences whose partial matches advance at the next event that fits."""
