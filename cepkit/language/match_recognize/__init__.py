"""SQL's MATCH_RECOGNIZE: row patterns whose first match by preference counts."""

from cepkit.language.match_recognize import printing as _printing  # noqa: F401 — it registers the spelling of the trees
