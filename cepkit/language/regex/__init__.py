"""Regex queries: patterns over named predicates."""

from cepkit.language.regex import construction as _printing  # noqa: F401 — it registers the spelling of the trees
