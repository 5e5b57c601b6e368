"""Texts as times, for every language. A text may have a zone or none."""

from __future__ import annotations

from typing import Any

import numpy as np

from cepkit.language.expressions.durations import NANOSECONDS


def moment_of(text: str, zone: str | None, spelling: str) -> Any:
    """Return the pandas Timestamp of a text. A text without a zone is in ``zone``."""
    import pandas as pd

    try:
        moment = pd.Timestamp(text)
    except ValueError:
        moment = pd.NaT
    if moment is pd.NaT:
        raise ValueError(f"{text!r} is compared with a time but is not one; write it as {spelling}")
    if moment.tzinfo is not None or zone is None:
        return moment
    return in_zone(moment, zone)


def in_zone(moment: Any, zone: str) -> Any:
    """Return the moment when the clocks of a zone show a time; raise ValueError for none, and for two."""
    local = moment.tz_localize(zone, ambiguous="NaT", nonexistent="NaT")  # pandas 2 raises errors of pytz
    if local == local:
        return local
    raise ValueError(
        f"'{moment}' does not exist in {zone}, or exists twice; write its offset, as in '{moment}+01:00'"
    )


def nanoseconds_of(moment: Any) -> int:
    """Return a pandas Timestamp in nanoseconds since 1970, in UTC if it has a zone."""
    if moment.tzinfo is not None:
        moment = moment.tz_convert("UTC").tz_localize(None)
    return int(moment.asm8.astype(np.int64)) * NANOSECONDS[moment.unit]


def zone_on_one_side(text: str) -> str:
    """Return the message for a time with a zone that is compared with times without one."""
    return f"{text!r} has a time zone, but the times it is compared with have none; leave out the zone"
