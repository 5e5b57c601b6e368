"""Why clicked rows are not a match of MATCH_RECOGNIZE, as traits of a board."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cepkit.explorer.partial_bars import FAILED, MATCHED, REPLACED, PartialBar
from cepkit.insight.match_recognize.reading import RowReader
from cepkit.insight.match_recognize.why_not import RowExplainer
from cepkit.insight.why_not import MOST_ROWS, WhyNot
from cepkit.language.match_recognize.printing import print_sql, sql_variable

if TYPE_CHECKING:
    from cepkit.engines.match_recognize.row_match_set import RowPartition
    from cepkit.explorer.running.result import Result

_RIVALS = ("preference", "after_match")


def reasons_of_rows(
    result: Result, source: Any, positions: Sequence[int]
) -> tuple[dict[str, Any], list[PartialBar]]:
    """Return the traits for clicked rows, and their bar on the timeline.

    Several rows mean the match from the first to the last of them. One row is read as the first row of the
    longest partial match that begins there.

    """
    searched = result.data.searched(result.program)
    ordered = np.array(sorted(set(positions)), np.int64)
    own = searched.events.partition_of_event[ordered]
    part = searched.partition(int(own[-1]))
    places = np.searchsorted(part.positions, ordered[own == own[-1]]).tolist()
    if len(places) == 1:
        return _of_row(result, source, part, places[0])
    low, high = places[0], min(places[-1], places[0] + MOST_ROWS - 1)
    answer = _explain(result, source, part, low, high)
    texts = list(dict.fromkeys(answer.reasons))
    lines = [{"text": text, "is_met": False} for text in texts]
    if answer.matches:
        lines = [{"text": "all conditions hold", "is_met": True}]
    traits = {"title": answer.headline, "lines": lines, "note": "; ".join(answer.more)}
    return traits, [_bar(answer, part, low, high)]


def _explain(result: Result, source: Any, part: RowPartition, low: int, high: int) -> WhyNot:
    searched = result.data.searched(result.program)
    return RowExplainer(
        searched, source, {int(position): None for position in part.positions[low : high + 1]}
    ).explain()


def _of_row(
    result: Result, source: Any, part: RowPartition, k: int
) -> tuple[dict[str, Any], list[PartialBar]]:
    """Return the traits of a row: the variables that it can be, and the match that would begin there."""
    bound = result.program
    reader = RowReader(bound, part, k)
    fitting = set(reader.could_be(k))
    lines: list[dict[str, Any]] = []
    for name, tree in bound.query.define:
        text = f"{sql_variable(name)}: {print_sql(tree)}"
        if name in bound.program.needs.variables:
            lines.append({"text": f"{text}, which needs the rows before in the match", "is_met": None})
        else:
            is_met = name in fitting
            said = f"{sql_variable(name)} {'holds' if is_met else 'does not hold'}: {print_sql(tree)}"
            lines.append({"text": said, "is_met": is_met})
    high = _longest(reader, k)
    answer = _explain(result, source, part, k, high)
    row = result.row_of(int(part.positions[k]))
    if answer.matches:
        lines.append({"text": f"{answer.headline.removeprefix('they match: ')}.", "is_met": True})
    else:
        lines.append({"text": f"Read from {row} on: {answer.headline}.", "is_met": None})
        lines += [{"text": text, "is_met": False} for text in dict.fromkeys(answer.reasons)]
    unique = {(line["text"], line["is_met"]): line for line in lines}
    traits = {"title": f"{_place(result, part, k)}: {row}", "lines": list(unique.values()), "note": ""}
    return traits, [_bar(answer, part, k, high)]


def _longest(reader: RowReader, k: int) -> int:
    """Return the row where the longest partial match from row ``k`` ends or fails.

    A match that the search would find ends it earlier.

    """
    ways, row = reader.beginning(), k
    whole = None
    while row < reader.part.n_rows and row < k + MOST_ROWS:
        made = reader.advance(ways, row)
        if not made.ways:
            break
        ways = made.ways
        row += 1
        if reader.ending(ways, row) is not None:
            whole = row - 1
    return whole if whole is not None else min(row, reader.part.n_rows - 1, k + MOST_ROWS - 1)


def _place(result: Result, part: RowPartition, k: int) -> str:
    """Return in words which match contains a row."""
    position = int(part.positions[k])
    found = result.matches._found.whole
    own = np.flatnonzero((found.first <= position) & (found.last >= position))
    own = own[found.partition[own] == part.code]
    if not len(own):
        return "in no match"
    chosen = result.choose(int(own[0]))
    variable = dict(zip(chosen.positions, chosen.variables, strict=True))[position]
    return f"in match {int(own[0]):,}, as {sql_variable(variable)}"


def _bar(answer: WhyNot, part: RowPartition, low: int, high: int) -> PartialBar:
    """Return the bar of the longest partial match among rows; ``answer.table`` has a row for each."""
    table = answer.table
    names = ["" if name is None or name is pd.NA else str(name) for name in table["variable"]]
    positions = part.positions[low : high + 1].tolist()
    own = [
        (position, name)
        for position, name, is_reached in zip(positions, names, table["reached"], strict=True)
        if is_reached
    ]
    if answer.matches:
        return PartialBar(tuple(own), positions[-1], MATCHED, ("a match",))
    end = positions[min(len(own), len(positions) - 1)]
    outcome = REPLACED if answer.kinds and answer.kinds[0] in _RIVALS else FAILED
    return PartialBar(tuple(own) or ((end, ""),), end, outcome, tuple(dict.fromkeys(answer.reasons))[:3])
