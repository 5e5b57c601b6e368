"""Random windows and joins. Rows of other keys share a window, so each call has one stream, or two."""

from __future__ import annotations

import cepkit as cep
from tests.campaigns.streams import Answer, same
from tests.support.window_cases import (
    found_by_join,
    join_result,
    joined,
    plain,
    random_join_case,
    random_window_case,
    rows_of,
)


def answer(seed: int, n_streams: int) -> Answer:
    """Compare some windows."""
    return _sum([_window(n_streams * seed + i) for i in range(n_streams)])


def answer_joins(seed: int, n_streams: int) -> Answer:
    """Compare some joins."""
    return _sum([_join(n_streams * seed + i) for i in range(n_streams)])


def _window(number: int) -> bool:
    case = random_window_case(number)
    found = cep.window(case.frame, case.window)
    names = [name for name in found.columns if name != "emitted"]
    same(plain(rows_of(found), names), plain(case.expected, names), f"window {number}")
    return len(found) > 0


def _join(number: int) -> bool:
    case = random_join_case(number)
    found = found_by_join(joined(case), case.join)
    same(found, join_result(case), f"join {number}")
    return len(found) > 0


def _sum(matched: list[bool]) -> Answer:
    return Answer(len(matched), sum(matched))
