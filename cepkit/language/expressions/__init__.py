"""Expressions: trees, text to trees, trees to text, functions and operands."""
