"""Sequence queries: patterns of typed events, in SASE text or in Python."""
