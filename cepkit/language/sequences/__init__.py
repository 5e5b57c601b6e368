"""Sequence queries: patterns of typed events, in SASE text or in Python."""

from cepkit.language.sequences import printing as _printing  # noqa: F401 — it registers the spelling of the trees
