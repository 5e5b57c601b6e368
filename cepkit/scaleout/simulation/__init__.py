"""Nodes in virtual time."""
