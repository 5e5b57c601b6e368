"""Search a regex from start to start: a match begins as early as it can, and says where the next may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from cepkit.compile.interpreted.instructions import regex_code_of
from cepkit.compile.regex.plan import tables_of
from cepkit.compile.regex.program import Program
from cepkit.compile.shared.bound_query import Inputs
from cepkit.compile.shared.loading import (
    are_kernels_ready,
    load_kernels,
    reason_not_to_interpret,
    reason_to_compile,
)
from cepkit.engines.interpreted.walk import REGEX_KERNELS, Interpreter
from cepkit.engines.shared.match_set import MatchSet
from cepkit.errors import CepError
from cepkit.events import Events
from cepkit.kernels.records import PAST_LAST, TO_FIRST_OF, TO_LAST, TO_LAST_OF, TO_NEXT
from cepkit.progress import checkpoint

_CODES = {"past_last": PAST_LAST, "to_last": TO_LAST, "to_next": TO_NEXT}
_CODES_OF_NAMES = {"to_first": TO_FIRST_OF, "to_last": TO_LAST_OF}
_LOOKED_AT = 1 << 15  # events: some milliseconds
_ROOM, _WORK_PER_CALL, _WORK_AS_PYTHON = 1 << 16, 1 << 22, 1 << 12


@dataclass(frozen=True)
class PlacedRows:
    """The rows of a query in the order of their partitions, with the kernels that read them."""

    events: Events
    run: Callable  # ``search`` or ``reach``
    values: tuple  # what the kernels read of the rows
    is_interpreted: bool

    def positions(self, matches: MatchSet) -> np.ndarray:
        """Return the mask of positions that each row of each match reaches, int64, along the lineage."""
        first_item = matches.first_item_of_match.astype(np.int64)
        item_mask = np.zeros(first_item[-1], np.int64)
        begin = self.events.rank_by_partition[matches.first]
        with np.errstate(all="ignore"):
            self.run(begin, first_item, *self.values, item_mask)
        return item_mask


def place_rows(program: Program, events: Events, inputs: Inputs, name: str) -> PlacedRows:
    """Compute what depends on single rows. A query that has no interpretation gets kernels of its own."""
    order, partition = events.by_partition, events.partition_of_event
    text = program.source_on_rows(name, inputs).text
    code = None if reason_to_compile(text, REGEX_KERNELS) else regex_code_of(program)
    if code is not None and not isinstance(code, str):
        values = Interpreter(code).values_of(partition, max(1, events.n_partitions), inputs, order)
        return PlacedRows(events, getattr(load_kernels(REGEX_KERNELS), name), values, True)
    prepare, kernel = program.on_rows(name, inputs)
    if events.n_partitions > 1:
        inputs = inputs.with_columns({name: column[order] for name, column in inputs.columns.items()})
        partition = partition[order]
    arrays = [
        np.empty(1 if name.startswith("slot") else events.n_events, dtype)
        for name, dtype in prepare.source.kept
    ]
    rows = [array for array, (name, _) in zip(arrays, prepare.source.kept, strict=True) if name[:4] != "slot"]
    state = prepare.new_state(max(1, events.n_partitions)).arguments()
    with np.errstate(all="ignore"):
        prepare.run(partition, *inputs.arguments(), *state, *rows)
    values = (*tables_of(program.plan), *inputs.arguments(), *arrays)
    return PlacedRows(events, kernel.run, values, False)


def search_in_turn(
    program: Program, events: Events, progress: Callable[[int], None] | None = None
) -> tuple[MatchSet, bool]:
    """Return the matches as ``after_match`` and ``keep`` say, and whether the query was interpreted."""
    rows = place_rows(program, events, program.inputs(events.columns), "search")
    kind, name = program.query.after_match or ("past_last", None)
    code = _CODES_OF_NAMES[kind] if name else _CODES[kind]
    named = program.automaton.mask_of_name(name) if name else 0
    work = _WORK_PER_CALL if program.compiled else _WORK_AS_PYTHON
    rule = np.array([code, named, program.query.keep == "longest", work], np.int64)
    size = np.bincount(events.partition_of_event, minlength=max(1, events.n_partitions))
    bounds = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    at, reached = np.array([0, 0, -1, -1], np.int64), np.empty(events.n_events, np.int64)
    out = np.empty(_ROOM, np.int64), np.empty(_ROOM, np.int64)
    spans: list[tuple[np.ndarray, np.ndarray]] = []
    with np.errstate(all="ignore"):
        while at[0] < len(bounds) - 1:
            checkpoint()
            begin = int(at[1])
            n_found = rows.run(bounds, rule, *rows.values, reached, at, *out)
            spans.append((out[0][:n_found].copy(), out[1][:n_found].copy()))
            if progress is not None:
                progress(int(at[1]) - begin)
            if at[2] >= 0:
                raise _target_error(program, events, at)
    order = events.by_partition
    first, last = (order[np.concatenate(ends)] for ends in zip(*spans, strict=True))
    by_end = np.lexsort([first, last])
    return MatchSet(events, first[by_end], last[by_end], code != PAST_LAST), rows.is_interpreted


def n_left_out(program: Program, matches: MatchSet) -> tuple[int, int]:
    """Return how many matches begin on the last row of another one, and among how many events they are."""
    # They share no other row with it, and at most the first row of the next one. Only patterns count that
    # begin with any row, or with the name that ends them: in others, a row that ends a match and begins one
    # is a coincidence. A pattern of one name, such as ``fail{3}``, counts rows. O(_LOOKED_AT rows), and
    # nothing is compiled.
    events, automaton = matches.events, program.automaton
    tested = [conjunct.mask for conjunct in program.plan.event_conjuncts if conjunct.term.level]
    takes_any = automaton.first & ~reduce(or_, tested, 0)
    masks = [automaton.mask_of_name(name) for name in set(automaton.names)]
    is_closed = any(mask & automaton.first and mask & automaton.accepting for mask in masks)
    is_shared = len(masks) > 1 and (takes_any or is_closed)
    is_code = not isinstance(regex_code_of(program), str) and are_kernels_ready(REGEX_KERNELS)
    if not len(matches) or not is_shared or not is_code or reason_not_to_interpret():
        return 0, 0
    low = 0
    if events.n_events > _LOOKED_AT:
        low = max(0, int(matches.first[0]) - _LOOKED_AT // 16)
        events = events.between(low, low + _LOOKED_AT)
    chosen = slice(0, np.searchsorted(matches.last, low + events.n_events))
    first, last = (events.rank_by_partition[ends[chosen] - low] for ends in (matches.first, matches.last))
    order = np.argsort(last)
    begin = last[order]
    stop = np.minimum(np.append(first[order][1:] + 1, events.n_events), events.bounds_by_partition[1][begin])
    begin, stop = begin[stop - begin > 1], stop[stop - begin > 1]
    first_item = np.concatenate([[0], np.cumsum(stop - begin)])
    item_mask = np.zeros(first_item[-1], np.int64)
    rows = place_rows(program, events, program.inputs(events.columns), "reach")
    rows.run(begin, first_item, *rows.values, item_mask)
    is_end = item_mask & automaton.accepting != 0
    is_end[first_item[:-1]] = False
    n_found = np.count_nonzero(np.add.reduceat(is_end, first_item[:-1])) if len(begin) else 0
    return n_found, events.n_events


def _target_error(program: Program, events: Events, at: np.ndarray) -> CepError:
    """Return the error of a match after which the search cannot continue at a row of a name."""
    kind, name = program.query.after_match or ("", "")
    first, last = (int(events.rows(events.by_partition[[place]])[0]) for place in at[1:3])
    match = f"after_match='{kind}({name})': the match of rows {first} to {last}"
    if at[3] < 0:
        return CepError(f"{match} has no row of {name!r}, so the search cannot continue there")
    return CepError(
        f"{match} begins with the row of {name!r} where the search would continue, and would be found again; "
        "after_match='to_next_row' continues after the first row"
    )
