"""Expressions: trees, text to trees, trees to text, functions and operands."""

from cepkit.language.expressions import printing as _printing  # noqa: F401 — it registers the spelling of the trees
