"""Short texts for the ticks of an axis of large or small numbers: a common offset and a power of ten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cepkit.plots.timeline.heights import nice_ticks

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LARGE, _SMALL = 1e9, 1e-4  # numbers outside get a power of ten


@dataclass(frozen=True)
class Scale:
    """How the ticks of an axis are written: ``(tick - origin) / 10**power``."""

    origin: float = 0.0
    power: int = 0

    def text(self, tick: float) -> str:
        """Return the text of a tick."""
        return f"{(tick - self.origin) / 10.0**self.power:,.12g}"

    @property
    def note(self) -> str:
        """What to add to the title of the axis; empty for plain numbers."""
        return (f" − {self.origin:,.0f}" if self.origin else "") + self.power_note

    @property
    def power_note(self) -> str:
        """The part of `note` on the power of ten."""
        return f", in 10{str(self.power).translate(_SUPERSCRIPTS)}" if self.power else ""


def scale_of(low: float, high: float) -> Scale:
    """Return the scale for ticks from ``low`` to ``high``.

    Large numbers that differ little get an offset. Large and small differences get a power of ten.
    """
    span = (high - low) or abs(high) or 1.0
    origin = 0.0
    if max(abs(low), abs(high)) >= _LARGE and max(abs(low), abs(high)) > 100 * span:
        size = max(1.0, 10.0 ** math.ceil(math.log10(span)))
        origin = math.floor(low / size) * size
    greatest = max(abs(low - origin), abs(high - origin))
    is_plain = _SMALL * 10 <= greatest < _LARGE / 1000 if origin else _SMALL <= greatest < _LARGE
    return Scale(float(origin), 0 if is_plain or not greatest else 3 * math.floor(math.log10(greatest) / 3))


def number_ticks(low: float, high: float, most: int, origin: int = 0) -> tuple[list[tuple[float, str]], str]:
    """Return up to ``most`` ticks with their texts, and what to add to the title of the axis.

    All numbers are after ``origin``, which the title then names.

    """
    scale = scale_of(low, high)
    note = f" − {origin + int(scale.origin):,}{scale.power_note}" if origin else scale.note
    return [(tick, scale.text(tick)) for tick in nice_ticks(low, high, most)], note


def clock_texts(times: Sequence[float]) -> list[str]:
    """Return times in milliseconds since 1970 as texts, without the date if all are on one day."""
    import numpy as np

    texts = [str(np.datetime64(round(time), "ms")).replace("T", " ").removesuffix(".000") for time in times]
    is_one_day = len({text[:10] for text in texts}) == 1
    return [text[11:] if k and is_one_day else text for k, text in enumerate(texts)]
