"""SiddhiQL: trees, grammar, parsing and printing. No module here knows columns or runs anything."""

from cepkit.language.siddhi import printing as _printing  # noqa: F401 — it registers the spelling of the trees
