"""The query languages: trees, parsing, printing, and queries. They use no columns and no numpy."""

from cepkit.language.expressions import printing as _expressions  # noqa: F401 — each module registers
from cepkit.language.match_recognize import printing as _match_recognize  # noqa: F401
from cepkit.language.regex import printing as _regex  # noqa: F401 — the spelling of its trees
from cepkit.language.sequences import printing as _sequences  # noqa: F401
from cepkit.language.siddhi import printing as _siddhi  # noqa: F401
