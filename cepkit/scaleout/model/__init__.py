"""Formulas of bandwidth, memory and work per node, as printed and corrected."""
