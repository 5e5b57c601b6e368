"""What comes of a case of another engine's test suite."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

EQUAL, DIFFERS, REFUSED, OPEN = "equal", "differs by a rule", "refused", "open"


class Verdict(NamedTuple):
    """The outcome of a case, and the reason if it is not equal."""

    outcome: str
    reason: str = ""


def verdict_of(check: Callable[[], None]) -> Verdict:
    """Return that a case is equal, or open with the error of its check."""
    try:
        check()
    except Exception as error:
        return Verdict(OPEN, f"{type(error).__name__}: {str(error)[:200]}")
    return Verdict(EQUAL)
