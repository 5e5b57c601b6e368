"""Translate a query into joins between agents, and the joins into kernel source."""
