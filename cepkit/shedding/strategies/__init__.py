"""Strategies that decide what a run under overload does not process: one module per strategy."""
