"""The engine that searches single events in the cheapest order."""
