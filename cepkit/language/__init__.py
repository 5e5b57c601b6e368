"""The two query languages: trees, text to trees, trees to text, and queries; no columns, no numpy."""

from cepkit.language.expressions import printing as _expressions  # noqa: F401 — each registers how its trees
from cepkit.language.regex import printing as _regex  # noqa: F401 — say their text
from cepkit.language.sequences import printing as _sequences  # noqa: F401
