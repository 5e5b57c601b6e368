"""Regex queries: patterns over named predicates."""

from cepkit.language.regex import printing as _printing  # noqa: F401 — it registers the spelling of the trees
