"""Engines: what runs a compiled query over events."""
