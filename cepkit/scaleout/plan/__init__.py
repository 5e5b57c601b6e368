"""Routing plans: which node gets which events."""
