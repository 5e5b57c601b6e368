"""Number formatting for readers: short counts in full, long ones as three digits and a power of ten."""

from __future__ import annotations

import math

MOST_DIGITS = 21  # shown in full


def count_text(n: int, *, exact: bool = True) -> str:
    """Return a count as text that fits into a line.

    Parameters
    ----------
    n : int
        Any whole number of at least 0.
    exact : bool
        False if ``n`` is a lower bound; the text is then a lower bound, too.

    Examples
    --------
    >>> count_text(12345), count_text(7, exact=False)
    ('12,345', '≥ 7')
    >>> count_text(2**1100 - 1), count_text(2**1100 - 1, exact=False)
    ('about 1.36e331', '≥ 1.35e331')
    """
    sign = "" if exact else "≥ "
    if n < 10**MOST_DIGITS:
        return f"{sign}{n:,}"
    return f"{sign or 'about '}{_three_digits(n, is_bound=not exact)}"


def seconds_text(seconds: float) -> str:
    """Return how long something took, in milliseconds below a second.

    Examples
    --------
    >>> seconds_text(0.0046), seconds_text(0.0001), seconds_text(0.9996), seconds_text(83.25)
    ('5 ms', '1 ms', '1.0 s', '83.2 s')
    """
    milliseconds = max(1, round(1000 * seconds))
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{seconds:,.1f} s"


def rough_text(n: int) -> str:
    """Return an approximate number of at least 0 as text; from a million on as digits and a power of ten.

    Examples
    --------
    >>> rough_text(1_234_567_890), rough_text(999_999), rough_text(999_999_999)
    ('1.23e9', '999,999', '1.00e9')
    """
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
