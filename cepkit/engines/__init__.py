"""Engines, which run a compiled query over events."""
