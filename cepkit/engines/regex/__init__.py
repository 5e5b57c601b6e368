"""The engine of regex queries."""
