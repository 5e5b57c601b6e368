"""An interpreter of the SiddhiQL that `translate` prints, by Siddhi's rules for patterns and sequences.

``from every a=A[…] -> b=B[…]``: each event that can be the first begins a partial match. A partial match
waits in a state for one event. An arrow lets other events pass. A comma does not: the next event of the
streams must fit, or the partial match ends. An event moves each partial match by one state at most. A window
includes its end.
"""

from __future__ import annotations

import re
from typing import Any

_EVENT = re.compile(r"(\w+)=(\w+)(?:\[(.*?)\](?= -> |, \w+=|$))?")


def run_siddhi(text: str, rows: list[dict]) -> list[tuple[int, ...]]:
    """Return the rows of each match, as row numbers, sorted; ``t`` is in seconds, ``kind`` is the stream."""
    key = re.match(r"partition with \((\w+) of ", text)
    pattern, within = re.search(r"from every (.*?)(?: within (\d+ \w+))?\n", text).groups()
    is_sequence = ", " in re.sub(r"\[.*?\]", "", pattern)
    states = [found.groups() for found in _EVENT.finditer(pattern)]
    streams = {stream for _, stream, _ in states}
    found = []
    waiting: dict[Any, list[tuple[int, ...]]] = {}
    limit = None
    if within is not None:
        amount, unit = within.split()
        limit = int(amount) * {"sec": 1000, "milliseconds": 1}[unit]
    for i, row in enumerate(rows):
        if streams != {"Events"} and row["kind"] not in streams:
            continue
        own = row[key[1]] if key else None
        grown = []
        for run in waiting.get(own, []):
            if limit is not None and (row["t"] - rows[run[0]]["t"]) * 1000 > limit:
                continue
            fits = _fits(states, run, i, rows)
            if fits and len(run) + 1 == len(states):
                found.append((*run, i))
            elif fits:
                grown.append((*run, i))
            elif not is_sequence:
                grown.append(run)
        if _fits(states, (), i, rows):
            if len(states) == 1:
                found.append((i,))
            else:
                grown.append((i,))
        waiting[own] = grown
    return sorted(found)


class _Event:
    def __init__(self, row: dict):
        self.__dict__.update(row)


def _fits(states: list, run: tuple[int, ...], i: int, rows: list[dict]) -> bool:
    _, stream, condition = states[len(run)]
    if stream not in ("Events", rows[i]["kind"]):
        return False
    if condition is None:
        return True
    names: dict[str, Any] = dict(rows[i])
    names |= {name: _Event(rows[r]) for (name, _, _), r in zip(states, run, strict=False)}
    return bool(eval(condition.replace("true", "True").replace("false", "False"), {}, names))
