"""The kept cases of an explorer: it adds and removes them, checks them after every run, and shows them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from cepkit.compile.shared.operations import in_zone
from cepkit.errors import CepError, short_text
from cepkit.explorer.board import Board
from cepkit.explorer.cases import (
    MATCH,
    RANGE,
    ROWS,
    Case,
    CaseQuery,
    Verdict,
    judge,
    positions_of_rows,
    rows_text,
    write_tests,
)
from cepkit.explorer.presented import CASES
from cepkit.explorer.presenter import Presenter
from cepkit.explorer.running.result import Result
from cepkit.explorer.running.worker import Turn
from cepkit.insight.why_not import cell
from cepkit.language.expressions.durations import counted
from cepkit.progress import checkpoint

MOST_CASES = 100
_AROUND = 0.6  # the timeline shows a case with this share of its time before and after it


class CaseKeeper:
    """Keeps the cases of an explorer."""

    def __init__(self, board: Board, present: Presenter, tested: Callable[[], CaseQuery]):
        self._board, self._present, self._tested = board, present, tested
        self._cases: tuple[Case, ...] = ()
        self._verdicts: dict[Case, Verdict] = {}  # by the last result
        self._places: tuple[Any, np.ndarray] = None, np.empty(0, np.int64)
        self._view = board.cases
        present.shown.when_counted.append(self.check)
        board.observe(self._view, "wanted", lambda wish: wish and self._fulfil(wish))
        board.timeline.observe(lambda _: self._offer(), ["selected", "window", "asked"])
        board.reasons.observe(lambda _: self._offer(), ["title", "lines"])
        self._offer()

    # --- state

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases, in the order of their keeping."""
        return self._cases

    @cases.setter
    def cases(self, cases: Iterable[Case]) -> None:
        is_many = isinstance(cases, Iterable) and getattr(cases, "ndim", 1)
        candidates = tuple(cases) if is_many else (cases,)
        wrong = [case for case in candidates if not isinstance(case, Case)]
        if wrong:
            raise CepError(
                f"cases: {short_text(repr(wrong[0]))} is no Case; make one with keep() or Case.from_dict()"
            )
        kept = tuple(dict.fromkeys(candidates))
        if len(kept) > MOST_CASES:
            raise CepError(f"cases: {len(kept)} are too many; an explorer keeps at most {MOST_CASES}")
        self._cases = kept
        self._show()
        result = self._present.shown.result
        if result is not None:
            self.check(result)

    @property
    def verdicts(self) -> tuple[bool | None, ...]:
        """Whether each case holds for the last result; None if it is not known."""
        return tuple(verdict.holds if (verdict := self._verdicts.get(case)) else None for case in self._cases)

    def said(self) -> list[tuple[str, bool | None]]:
        """Return the cases in words, each with whether it holds."""
        words = (f"must {'match' if case.must else 'not match'}: {case.label}" for case in self._cases)
        return list(zip(words, self.verdicts, strict=True))

    def doubt(self) -> None:
        """Show that the ticks belong to an earlier query."""
        self._board.set(self._view, {"stale": bool(self._cases)})

    # --- actions

    def keep(
        self, must: bool = True, *, match: int | None = None, rows: Sequence[int] | None = None,
        between: Sequence[Any] | None = None, key: str | None = None,
    ) -> Case:  # fmt: skip
        """Add a case; see `Explorer.keep`."""
        choices = [value for value in (match, rows, between) if value is not None]
        if len(choices) > 1:
            raise CepError("keep: give one of match, rows and between")
        if key is not None and between is None:
            raise CepError("keep: key belongs to between=(first time, last time)")
        result = self._present.shown.result_for("keep")
        if rows is not None:
            case = self._of_rows(result, [int(row) for row in rows], must)
        elif between is not None:
            case = self._of_range(result, *self._range(result, between, key), must)
        elif match is not None:
            case = self._of_match(result, int(match), must)
        else:
            case = self._of_what(self._offers()[0]["id"] if self._offers() else "", must)
        return self._add(case)

    def _add(self, case: Case) -> Case:
        """Keep a case in place of one that says the same or the opposite of its rows."""
        others = (old for old in self._cases if (old.kind, old.rows) != (case.kind, case.rows))
        self.cases = (*others, case)
        return case

    def drop(self, number: int) -> None:
        """Remove the case with this number, from 0."""
        self._case(number)
        self.cases = [case for i, case in enumerate(self._cases) if i != number]

    def show(self, number: int) -> None:
        """Zoom the timeline to a case."""
        case, result = self._case(number), self._present.shown.result_for("show_case")
        place = self._place(result)
        rows = [row for row in case.rows if row < len(place) and place[row] >= 0]
        if not rows:
            raise CepError("the frame does not have the rows of this case")
        positions = np.sort(place[rows])
        partition = int(result.events.partition_of_event[positions[0]])
        shown = partition if result.n_partitions > 1 else None
        series = result.series(shown)
        shown_positions = positions[result.events.partition_of_event[positions] == partition]
        first, last = series.x(series.index_of(shown_positions[[0, -1]])).tolist()
        low, high = series.extent
        more = _AROUND * (last - first) or (high - low) / 200
        window = [max(low, first - more), min(high, last + more)]
        if shown is None or shown == self._present.shown.partition:
            self._present.timeline.zoom(window)
        else:
            self._present.timeline.show_key(shown, window=window)

    def write_test(self, number: int | None = None) -> str:
        """Return a case as the text of a `pytest` module; all cases for None."""
        self._present.shown.result_for("write_test")
        chosen = self._cases if number is None else (self._case(number),)
        if not chosen:
            raise CepError("write_test: no case is kept; keep one first")
        tested = self._tested()
        place = self._place(tested.result)
        lost = next((case for case in chosen if case.rows[-1] >= len(place)), None)
        if lost is not None:
            raise CepError(f"write_test: the frame does not have all rows of the case {lost.label!r}")
        verdicts = ((case, judge(case, tested.result, place).holds) for case in chosen)
        return write_tests(list(verdicts), tested)

    def _case(self, number: int) -> Case:
        if not 0 <= number < len(self._cases):
            raise CepError(f"there is no case {number}; {len(self._cases)} are kept, numbered from 0")
        return self._cases[number]

    # --- checks

    def check(self, result: Result) -> None:
        """Check all cases against the counted matches of a result, in the thread of the explorer."""
        if self._cases:
            self._present.shown.worker.submit(CASES, lambda turn: self._check(turn, result))

    def _check(self, turn: Turn, result: Result) -> None:
        """Judge all cases by a result, and show the verdicts."""
        cases, place, verdicts = self._cases, self._place(result), {}
        for case in cases:
            verdicts[case] = judge(case, result, place)
            checkpoint()

        def show() -> None:
            is_shown = self._present.shown.result is result
            self._verdicts = verdicts if is_shown else self._verdicts | verdicts
            self._show()
            self._board.set(self._view, {"stale": False})

        turn.deliver(show)

    def _place(self, result: Result) -> np.ndarray:
        """Return the position in the stream of every row; it is kept for results on the same events."""
        events, place = self._places
        if events is not result.events:
            place = positions_of_rows(result)
            self._places = result.events, place
        return place

    # --- new cases

    def _offers(self) -> list[dict[str, str]]:
        """Return what the board can keep now, the most likely first."""
        timeline, shown, offers = self._board.timeline, self._present.shown, []
        if shown.chosen is not None:
            offers.append({"id": MATCH, "text": f"match {shown.chosen.number:,}"})
        if shown.asked and shown.result is not None:
            labels = [shown.result.row_of(position) for position in shown.asked]
            text = labels[0] if len(labels) == 1 else f"{len(labels)} clicked rows"
            offers.append({"id": ROWS, "text": text})
        if timeline.window:
            offers.append({"id": RANGE, "text": "the shown time"})
        return offers

    def _offer(self) -> None:
        offers = self._offers()
        if offers != self._view.offers:
            self._board.set(self._view, {"offers": offers})

    def _of_what(self, what: str, must: bool) -> Case:
        """Return the case that the board offers."""
        shown, result = self._present.shown, self._present.shown.result_for("keep")
        if what == MATCH and shown.chosen is not None:
            return self._of_match(result, shown.chosen.number, must)
        if what == ROWS and shown.asked:
            return self._of_rows(result, result.events.rows(np.array(shown.asked)).tolist(), must)
        if what == RANGE and self._board.timeline.window:
            return self._of_range(result, shown.partition, list(self._board.timeline.window), must)
        raise CepError("keep: select a match, click an event, or zoom in to a time range first")

    def _of_match(self, result: Result, number: int, must: bool) -> Case:
        positions = np.array(result.choose(number).positions, np.int64)
        rows = tuple(result.events.rows(positions).tolist())
        return Case(MATCH, must, rows, self._label(result, positions))

    def _of_rows(self, result: Result, rows: Sequence[int], must: bool) -> Case:
        """Return the case that these rows must match, or must not."""
        n = result.data.source.n_rows
        wrong = next((row for row in rows if not 0 <= row < n), None)
        if wrong is not None:
            raise CepError(f"keep: there is no row {wrong}; rows are numbered from 0 to {n - 1:,}")
        case = Case(ROWS, must, tuple(rows))
        positions = self._place(result)[list(case.rows)]
        if len(rows) == 1 and positions[0] >= 0:
            return Case(ROWS, must, case.rows, result.row_of(int(positions[0])))
        return Case(ROWS, must, case.rows, rows_text(case.rows))

    def _of_range(self, result: Result, partition: int | None, window: Sequence[float], must: bool) -> Case:
        """Return the case that a match must lie in a range of time, or must not."""
        series = result.series(partition)
        low, high = series.events_in(window)
        if high <= low:
            raise CepError("keep: no event is in this time; choose a longer one")
        index = np.arange(low, high)
        positions = index if series.positions is None else series.positions[index]
        rows = tuple(result.events.rows(positions).tolist())
        return Case(RANGE, must, rows, self._label(result, positions))

    def _range(
        self, result: Result, between: Sequence[Any], key: str | None
    ) -> tuple[int | None, list[float]]:
        """Return the key and the window, in times of the axis, for the arguments of `keep`."""
        partition = self._present.shown.partition
        if key is not None:
            keys = self._present.keys.of(result.program, result.events)
            partition = None if keys is None else keys.partition_of(key)
            if partition is None:
                raise CepError(f"keep: there is no key {key!r}")
            partition = partition if result.n_partitions > 1 else None
        try:
            first, last = between
        except (TypeError, ValueError):
            raise CepError(f"keep: between={between!r} is not (first time, last time)") from None
        series = result.series(partition)
        if series.clock.kind == "datetime":
            return partition, [_milliseconds(moment, series.clock.zone) for moment in (first, last)]
        return partition, [float(first), float(last)]

    def _label(self, result: Result, positions: np.ndarray) -> str:
        """Return the key, the first and the last time, and the number of rows in words."""
        query, source = result.program.query, result.data.source
        ends = result.events.rows(positions[[0, -1]])
        key = [cell(source.arrow(name, ends[:1]).to_pylist()[0]) or "null" for name in query.partition_by]
        if query.order_by:
            whole = result.events.rows(np.array([0, result.events.n_events - 1]))
            rows = np.concatenate([ends, whole])
            time = _times_text(*map(cell, source.arrow(query.order_by[0], rows).to_pylist()))
        else:
            time = f"rows {ends[0]} to {ends[-1]}"
        n = counted(len(positions), "row")
        return ", ".join([*key, time, n])

    # --- the widget

    def _show(self) -> None:
        """Show the cases with their verdicts."""
        traits = []
        for case in self._cases:
            verdict = self._verdicts.get(case, Verdict(None, "It is checked after the next run."))
            traits.append(
                {
                    "kind": case.kind, "must": case.must, "label": case.label or rows_text(case.rows),
                    "holds": verdict.holds, "text": verdict.text,
                }
            )  # fmt: skip
        self._board.set(self._view, {"cases": traits})

    def _fulfil(self, wish: dict[str, Any]) -> None:
        """Do what the user asked for in the view of the cases."""
        act, number = wish["act"], int(wish.get("number", -1))
        try:
            if act == "keep":
                self._add(self._of_what(wish["what"], wish["must"]))
            elif act == "drop":
                self.drop(number)
            elif act == "show":
                self.show(number)
            elif act == "test":
                self._case(number)
                threading.Thread(target=self._send_test, args=(wish, number), daemon=True).start()
        except CepError as error:
            self._answer(wish, error=str(error))

    def _send_test(self, wish: dict[str, Any], number: int) -> None:
        try:
            self._answer(wish, text=self.write_test(number))
        except Exception as error:  # the browser waits for an answer
            self._answer(wish, error=str(error).split("\n")[0])

    def _answer(self, wish: dict[str, Any], **answer: str) -> None:
        self._view.send({"by": wish.get("by"), "n": wish["n"], **answer})


_TIME = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d)(:\d\d)(\.\d{1,3})?\d*(?:[+-]\d\d:\d\d)?")


def _times_text(first: str, last: str, *whole: str) -> str:
    """Return a range of time in few characters; ``whole`` are the first and the last time of the data."""
    if first == last:
        last = ""
    read = [_TIME.fullmatch(text) for text in (first, last or first, *whole)]
    if all(read):
        dates = [moment[1] for moment in read]
        is_dated = len(set(dates)) > 1
        is_long = last and read[0][0][:19] != read[1][0][:19]
        clock_times = [f"{moment[2]}{moment[3]}{'' if is_long else moment[4] or ''}" for moment in read[:2]]
        first = f"{dates[0]} {clock_times[0]}" if is_dated else clock_times[0]
        last = last and (f"{dates[1]} {clock_times[1]}" if dates[0] != dates[1] else clock_times[1])
    return f"{first} to {last}" if last else first


def _milliseconds(moment: Any, zone: str) -> float:
    """Return a time as milliseconds since 1970 in UTC; a time without a zone is in the zone of the clock."""
    try:
        timestamp = pd.Timestamp(moment)
        timestamp = in_zone(timestamp, zone) if zone and timestamp.tzinfo is None else timestamp
    except (TypeError, ValueError) as error:
        raise CepError(f"keep: cannot read the time {moment!r}: {error}") from error
    if timestamp.tzinfo is not None and not zone:
        raise CepError(f"keep: the clock has no time zone, but {moment!r} has one")
    return timestamp.as_unit("ns").value / 1e6
