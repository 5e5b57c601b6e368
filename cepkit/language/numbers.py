"""Number formatting for readers: short counts in full, long ones as three digits and a power of ten."""

from __future__ import annotations

import math

MOST_DIGITS = 21  # shown in full


def count_text(n: int, *, exact: bool = True) -> str:
    """Return a count as text that fits into a line."""
    sign = "" if exact else "≥ "
    if n < 10**MOST_DIGITS:
        return f"{sign}{n:,}"
    return f"{sign or 'about '}{_three_digits(n, is_bound=not exact)}"


def seconds_text(seconds: float) -> str:
    """Return how long something took, in milliseconds below a second."""
    milliseconds = max(1, round(1000 * seconds))
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{seconds:,.1f} s"


def rough_text(n: int) -> str:
    """Return an approximate number of at least 0 as text; from a million on as digits and a power of ten."""
    return f"{n:,}" if n < 1_000_000 else _three_digits(n)


def _three_digits(n: int, *, is_bound: bool = False) -> str:
    """Return a number of at least 100 as three digits and a power of ten; a bound is rounded down."""
    # Converting all digits is slow, and Python refuses beyond 4,300 digits; logarithms are not exact.
    exponent = int(math.log10(n))
    exponent += (n >= 10 ** (exponent + 1)) - (n < 10**exponent)
    unit = 10 ** (exponent - 2)
    digits = n // unit if is_bound else (n + unit // 2) // unit
    if digits == 1000:
        digits, exponent = 100, exponent + 1
    return f"{digits // 100}.{digits % 100:02d}e{exponent}"
