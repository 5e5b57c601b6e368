"""Traces: every step of every thread of a run."""
