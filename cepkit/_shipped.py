"""The location of the files that cepkit reads at run time; this module knows nothing of their content."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def shipped(folder: str, name: str) -> Path:
    """Return the path of ``<folder>/<name>``: in ``cepkit/_data`` of a wheel, at the root of a checkout."""
    # `_data` first: next to an installed package, the second place is someone else's `site-packages/widgets`.
    candidates = [_PACKAGE / "_data" / folder / name, _PACKAGE.parent / folder / name]
    for path in candidates:
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"cepkit file {folder}/{name} is missing; looked at " + " and ".join(str(path) for path in candidates)
    )
