"""Partial matches as bars on the timeline, each up to the event where it ended, and their fates in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cepkit.insight.moments import names_of_mask
from cepkit.insight.why_not_regex import Fate

MOST_BARS = 3
MOST_ROWS_NAMED = 3
FAILED, MATCHED, REPLACED, OPEN = "failed", "matched", "replaced", "open"


@dataclass(frozen=True)
class PartialBar:
    """A partial match on the timeline."""

    # Positions of its known events in the stream, rising, each with a label that may be empty.
    events: tuple[tuple[int, str], ...]
    end: int  # position of the event where it ended
    outcome: str  # ``failed``, ``matched``, ``replaced`` by a match, or ``open``
    text: tuple[str, ...] = ()  # the failed conditions with their values, or the outcome in words


@dataclass(frozen=True)
class FateGroup:
    """Partial matches of a regex that end in the same way."""

    fate: Fate  # the fate of the one that began first
    starts: tuple[int, ...]  # the events where they begin, rising

    @property
    def outcome(self) -> str:
        """How they end."""
        if self.fate.is_match:
            return MATCHED
        if self.fate.wanted is not None:
            return FAILED
        return OPEN if self.fate.rival is None else REPLACED


def group_fates(fates: Sequence[Fate]) -> list[FateGroup]:
    """Return the fates with those together that differ only in their first event, in the given order."""
    groups: dict[tuple, list[Fate]] = {}
    for fate in fates:
        key = fate.end, fate.taken, fate.wanted, fate.rival, fate.is_match
        groups.setdefault(key, []).append(fate)
    return [
        FateGroup(min(own, key=lambda fate: fate.start), tuple(sorted(fate.start for fate in own)))
        for own in groups.values()
    ]


def describe_group(
    names: tuple[str, ...],
    group: FateGroup,
    k: int,
    row: Callable[[int], str],
    at: Callable[[int], str],
    late: str = "",
) -> str:
    """Return what happened to partial matches, in one or two sentences."""
    fate, n = group.fate, len(group.starts)
    is_one = n == 1
    if is_one:
        who = f"The {'match' if fate.is_match else 'partial match'} from {at(fate.start)}"
    else:
        shown = [row(start).removeprefix("row ") for start in group.starts[:MOST_ROWS_NAMED]]
        shown += [f"{n - len(shown):,} more"] if n > len(shown) else []
        who = f"{n:,} partial matches (from rows {', '.join(shown[:-1])} and {shown[-1]})"

    def verb(one: str, many: str) -> str:
        return one if is_one else many

    takes = f"{verb('takes', 'take')} this row as {names_of_mask(names, fate.taken)}" if fate.taken else ""
    if group.outcome == OPEN:
        return f"{who} {takes or verb('passes', 'pass') + ' this row'} and {verb('stays', 'stay')} open."
    there = "here" if fate.end == k else f"at {at(fate.end)}"
    if group.outcome == MATCHED:
        return f"{who} {takes + ' and ' if takes else ''}is completed {there}."
    subject = who if not takes else f"{who} {takes}. {verb('It', 'They')}"
    if group.outcome == REPLACED:
        rival = f"the match from {row(fate.rival)} is complete"
        return f"{subject} {verb('ends', 'end')} {there}, because {rival}."
    if late:
        return f"{subject} {verb('ends', 'end')} {there}: the window of {late} is over."
    needed = names_of_mask(names, fate.wanted)
    where = "this row" if fate.end == k else "that row"
    return f"{subject} {verb('ends', 'end')} {there}: {where} is not {needed}."


def as_traits(bars: Sequence[PartialBar], places: Callable[[Sequence[int]], Any]) -> list[dict[str, Any]]:
    """Return bars for the timeline widget; ``places`` returns times and values of events."""
    made = []
    for bar in bars:
        at = places([*(position for position, _ in bar.events), bar.end])[:, 0].tolist()
        events = [{"x": x, "label": label} for x, (_, label) in zip(at, bar.events, strict=False)]
        made.append({"events": events, "end": at[-1], "outcome": bar.outcome, "text": list(bar.text)})
    return made
