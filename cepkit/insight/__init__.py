"""Explanations of a query on some events: first matches, moments, funnels, and why events do not match.

Every module takes compiled programs, events and a source of column values; none knows a kind of frame.
"""
