"""Texts for a terminal: a character that would move the cursor or hide text is shown by its number."""

from __future__ import annotations

import re
import sys

# Control characters but for line ends and tabs, marks that turn the direction of texts, and half characters.
_UNSAFE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: object) -> str:
    r"""Return a text as a terminal may show it.

    Examples
    --------
    >>> print(printable("\x1b[31mred\u202e"))
    \x1b[31mred\u202e
    """
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], str(text))


def tell(text: object, *, error: bool = False) -> None:
    """Print a text on stdout, or on stderr with ``error``."""
    print(printable(text), file=sys.stderr if error else sys.stdout, flush=True)
