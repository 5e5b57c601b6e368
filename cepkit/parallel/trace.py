"""The trace of a run of agents: the actions of its threads, lengths of queues and buffers, and its files."""

from __future__ import annotations

import html
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.errors import CepError, short_text, whole_number
from cepkit.language.expressions.durations import counted
from cepkit.values import dataclass, field

if TYPE_CHECKING:
    import pandas as pd


# Write and read a trace as a folder of Parquet files. Reading runs no code from the files.

FILES = ("actions.parquet", "lengths.parquet")
VERSION = 1
_FORMAT = "cepkit trace"

Words = Mapping[str, Sequence[str]]  # names of the codes, by column


def write_tables(
    path: Path, about: Mapping[str, Any], tables: Sequence[Mapping[str, np.ndarray]], words: Words
) -> None:
    """Write the tables of a trace, one per name in ``FILES``, all or none."""
    import pyarrow.parquet as pq  # takes long to import, and most processes write no trace

    if path.exists() and not _is_trace(path):
        raise CepError(f"trace: {str(path)!r} exists and is not a trace. Give the path of a new folder")
    head = {_FORMAT: json.dumps({"version": VERSION, **about})}
    written = path.with_name(f"{path.name}.{os.getpid()}.part")
    written.mkdir(parents=True)
    try:
        for name, columns in zip(FILES, tables, strict=True):
            arrays = {
                column: _as_words(values, words[column]) if column in words else pa.array(values)
                for column, values in columns.items()
            }
            table = pa.table(arrays).replace_schema_metadata(head)
            pq.write_table(table, written / name, compression="zstd")
        if path.exists():
            shutil.rmtree(path)
        written.rename(path)
    finally:
        shutil.rmtree(written, ignore_errors=True)


def read_tables(path: Path) -> tuple[dict[str, Any], list[pa.Table]]:
    """Return ``about`` and the tables that `write_tables` wrote; `columns_of` converts a table."""
    import pyarrow.parquet as pq

    if not _is_trace(path):
        raise CepError(f"trace: {str(path)!r} is not a trace. Trace.save writes a folder of {list(FILES)}")
    try:
        tables = [pq.read_table(path / name) for name in FILES]
        about = json.loads((tables[0].schema.metadata or {}).get(_FORMAT.encode(), b"{}"))
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        reason = str(error).split("\n")[0]
        raise CepError(f"trace: {str(path)!r} is damaged: {short_text(reason)}") from None
    if about.get("version") != VERSION:
        raise CepError(
            f"trace: {str(path)!r} has version {about.get('version')}. This cepkit reads version {VERSION}"
        )
    return about, tables


def columns_of(table: pa.Table, words: Words) -> dict[str, np.ndarray]:
    """Return the columns of a table as arrays, and words as codes, with -1 for a missing word."""
    return {
        name: _as_codes(table.column(name), words[name]) if name in words else np.asarray(table.column(name))
        for name in table.column_names
    }


def _is_trace(path: Path) -> bool:
    """Return whether a folder has the files of a trace."""
    return path.is_dir() and all((path / name).is_file() for name in FILES)


def _as_words(codes: np.ndarray, words: Sequence[str]) -> pa.DictionaryArray:
    """Return codes as a column of words; codes below 0 are null."""
    codes = pa.array(codes, mask=codes < 0, type=pa.int32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(words, pa.string()))


def _as_codes(column: pa.ChunkedArray, words: Sequence[str]) -> np.ndarray:
    """Return a column of words as codes, with -1 for a word that is missing or not known."""
    texts, values = column.cast(pa.string()), pa.array(words, pa.string())
    codes = pc.index_in(texts, value_set=values)  # pyright: ignore[reportAttributeAccessIssue]
    return pc.fill_null(codes, -1).to_numpy().astype(np.int64)


# The trace of a run of agents: the actions of its threads, and the lengths of queues and buffers.

# Deliver events, process an agent's events or its partial matches, remove items from its buffers.
ACTIONS = ("source", "events", "partials", "removal")
SOURCE, EVENTS, PARTIALS, REMOVAL = range(len(ACTIONS))
IDLE = "idle"  # in place of an action
NO_AGENT = -1  # for actions of the source
SOURCE_THREAD = -1  # for the source, if it is not one of the threads
LENGTHS = ("event_queue", "partial_queue", "event_buffer", "partial_buffer")

_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_ROUNDING = 1e-9  # rounding error of clock readings, as a share of the run


class Actions(NamedTuple):
    """A row per action, in any order. Actions of one thread do not overlap."""

    thread: np.ndarray  # int64, (n_actions,): below ``n_threads``, or SOURCE_THREAD
    agent: np.ndarray  # int64, (n_actions,): index into ``agents``, or NO_AGENT
    action: np.ndarray  # int64, (n_actions,): index into ACTIONS
    start: np.ndarray  # float64, (n_actions,): ns since the start of the run
    end: np.ndarray  # float64, (n_actions,)
    n_items: np.ndarray  # int64, (n_actions,): events or partial matches taken, or delivered by the source
    compared: np.ndarray  # int64, (n_actions,): pairs with tested or remembered conditions
    tested: np.ndarray  # int64, (n_actions,): pairs with tested conditions
    sent: np.ndarray  # int64, (n_actions,): partial matches for the next agent
    looped: np.ndarray  # int64, (n_actions,): partial matches for the same agent
    n_matches: np.ndarray  # int64, (n_actions,)
    removed_events: np.ndarray  # int64, (n_actions,)
    removed_partials: np.ndarray  # int64, (n_actions,)


class Lengths(NamedTuple):
    """Lengths of queues and buffers: a row per reading of one agent, in any order."""

    # A length is valid until the agent's next reading or the end of the run. Before the first reading it is
    # 0.

    time: np.ndarray  # float64, (n_readings,): ns since the start of the run
    agent: np.ndarray  # int64, (n_readings,)
    event_queue: np.ndarray  # int64, (n_readings,)
    partial_queue: np.ndarray  # int64, (n_readings,)
    event_buffer: np.ndarray  # int64, (n_readings,)
    partial_buffer: np.ndarray  # int64, (n_readings,)


_COUNTS = Actions._fields[5:]
_FLOATS = ("start", "end", "time")


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """The actions of threads, and the lengths of queues and buffers, in measured or virtual time.

    Parameters
    ----------
    measured : bool
        True: on the machine's clock; False: simulated, in virtual time.
    n_threads : int
        Number of threads, including those without an action.
    agents : tuple of str
        Distinct labels of the agents, such as ``"b"`` and ``"c+"``.
    done : Actions
        The actions.
    lengths_read : Lengths
        The lengths of queues and buffers.

    Raises
    ------
    CepError
        When arrays of a table differ in length, a code is unknown, times or counts are negative or not
        finite, or actions of a thread overlap.

    Notes
    -----
    The arrays become read-only. The makespan is the end of the last action.

    Examples
    --------
    >>> one, none = np.array([1]), np.array([0])
    >>> done = Actions(none, none, one, [0.0], [1500.0], one, [7], [7], one, none, none, none, none)
    >>> Trace(False, 2, ("b",), done)
    Trace of a simulated run: 1.5 µs, 2 threads busy 50 %, 1 agent
    1 action: 1 item, 7 comparisons, 0 matches

    >>> import cepkit as cep
    >>> import pandas as pd
    >>> events = pd.DataFrame({"kind": list("abcabcab") * 4})
    >>> run = cep.simulate(events, "PATTERN SEQ(a x, b y) WITHIN 6 events", event_type="kind", trace=True)
    >>> run.trace.makespan
    2611.0
    >>> len(run.trace.actions()), len(run.trace.threads())  # 2 threads and the source
    (5, 3)
    >>> int(run.trace.lengths()["partial_buffer"].min()), len(run.trace.agents_frame())
    (0, 1)
    >>> run.trace.totals()[["n_items", "compared", "n_matches"]]
       n_items  compared  n_matches
    0       24        23         23
    >>> from pathlib import Path
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run.trace.save(Path(folder) / "run")
    ...     Trace.load(Path(folder) / "run").makespan == run.trace.makespan
    True
    >>> round(float(run.trace.states(n_bins=1)["share"].sum()))  # 1 for each thread and for the source
    3
    """

    measured: bool
    n_threads: int
    agents: tuple[str, ...]
    done: Actions
    lengths_read: Lengths = field(default_factory=lambda: Lengths(*(np.zeros(0) for _ in Lengths._fields)))

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_threads", whole_number("trace: n_threads", self.n_threads))
        object.__setattr__(self, "agents", tuple(self.agents))
        if len(set(self.agents)) < len(self.agents) or not all(isinstance(name, str) for name in self.agents):
            raise CepError(f"trace: agents {list(self.agents)}. Give each agent a text of its own")
        object.__setattr__(self, "done", Actions(*_columns(self.done, Actions)))
        object.__setattr__(self, "lengths_read", Lengths(*_columns(self.lengths_read, Lengths)))
        _check(self)

    @property
    def makespan(self) -> float:
        """End of the last action, in ns since the start of the run."""
        return float(self.done.end.max(initial=0.0))

    def actions(self) -> pd.DataFrame:
        """Return the actions.

        Returns
        -------
        pandas.DataFrame
            A row per action, by ``start``, then by thread: ``thread`` (int64; -1: the source, if it is not
            one of the threads), ``agent`` (categorical; missing: the source), ``action`` (categorical),
            ``start`` and ``end`` (float64, ns), ``n_items, compared, tested, sent, looped, n_matches,
            removed_events, removed_partials`` (int64).
        """
        import pandas as pd

        frame = pd.DataFrame(self.done._asdict())
        frame["agent"] = self._with_labels(self.done.agent)
        frame["action"] = pd.Categorical.from_codes(self.done.action, list(ACTIONS))
        order = np.lexsort((self.done.end, self.done.thread, self.done.start))
        return frame.iloc[order].reset_index(drop=True)

    def threads(self) -> pd.DataFrame:
        """Return the work of each thread.

        Returns
        -------
        pandas.DataFrame
            A row per thread, by number: ``thread``; ``agent`` and ``role``: the agent and the action that
            took most of its time (missing: none); ``busy``, ``idle`` (float64, ns; the sum is the makespan);
            ``share`` (busy share of the makespan); ``items`` (int64: taken).
        """
        import pandas as pd

        threads, done = self._threads(), self.done
        row = done.thread - threads[0] if len(threads) else done.thread
        busy = np.bincount(row, done.end - done.start, minlength=len(threads))
        items = np.bincount(row, done.n_items, minlength=len(threads)).astype(np.int64)
        agent, action = np.full((2, len(threads)), -1)
        for r in range(len(threads)):
            of_thread = row == r
            if of_thread.any():
                spent = done.end[of_thread] - done.start[of_thread]
                agent[r] = np.argmax(np.bincount(done.agent[of_thread] + 1, spent)) - 1
                action[r] = np.argmax(np.bincount(done.action[of_thread], spent))
        makespan = self.makespan
        return pd.DataFrame(
            {
                "thread": threads, "agent": self._with_labels(agent),
                "role": pd.Categorical.from_codes(action, list(ACTIONS)), "busy": busy,
                "idle": np.maximum(makespan - busy, 0.0), "share": busy / makespan if makespan else busy,
                "items": items,
            }
        )  # fmt: skip

    def states(self, n_bins: int = 200) -> pd.DataFrame:
        """Return the share of time that each thread spent in each action, in bins of equal length.

        Parameters
        ----------
        n_bins : int
            Number of bins of the makespan, at least 1.

        Returns
        -------
        pandas.DataFrame
            A row per thread, bin, agent and action that took time, in this order: ``thread``, ``bin`` (int64,
            from 0), ``start``, ``end`` of the bin (float64, ns), ``agent``, ``action`` (categorical; also
            ``"idle"``, without an agent, last), ``share`` of the bin (float64). The shares of a thread in a
            bin add up to 1. The frame is empty if the makespan is 0.

        Notes
        -----
        O(n log n + threads x agents x n_bins) for n actions.
        """
        import pandas as pd

        whole_number("trace: n_bins", n_bins, 1)
        makespan, threads, names = self.makespan, self._threads(), (*ACTIONS, IDLE)
        edges = np.linspace(0.0, makespan, n_bins + 1)
        parts = []  # thread, agent, action and time in every bin
        for thread in threads if makespan else ():
            rows = np.flatnonzero(self.done.thread == thread)
            rows = rows[np.lexsort((self.done.end[rows], self.done.start[rows]))]
            kind = (self.done.agent[rows] + 1) * len(ACTIONS) + self.done.action[rows]
            idle = np.diff(edges)
            for code in np.unique(kind):
                of_kind = rows[kind == code]
                spent = np.diff(_time_until(edges, self.done.start[of_kind], self.done.end[of_kind]))
                idle = idle - spent
                parts.append((thread, code // len(ACTIONS) - 1, code % len(ACTIONS), spent))
            parts.append((thread, NO_AGENT, len(ACTIONS), idle))
        thread, agent, action = (np.array([row[c] for row in parts], np.int64) for c in range(3))
        share = np.array([row[3] for row in parts]).reshape(-1, n_bins) / max(makespan / n_bins, 1e-300)
        # Rounding leaves tiny shares in empty cells.
        group, number = np.nonzero(share > 1e-9)
        order = np.lexsort((group, number, thread[group]))
        group, number = group[order], number[order]
        return pd.DataFrame(
            {
                "thread": thread[group], "bin": number, "start": edges[number], "end": edges[number + 1],
                "agent": self._with_labels(agent[group]),
                "action": pd.Categorical.from_codes(action[group], list(names)),
                "share": np.minimum(share[group, number], 1.0),
            }
        )  # fmt: skip

    def lengths(self) -> pd.DataFrame:
        """Return the readings of queues and buffers.

        Returns
        -------
        pandas.DataFrame
            A row per reading, by ``time``, then by agent: ``time`` (float64, ns), ``agent`` (categorical),
            ``event_queue, partial_queue, event_buffer, partial_buffer`` (int64).
        """
        import pandas as pd

        read = self.lengths_read
        frame = pd.DataFrame(read._asdict())
        frame["agent"] = self._with_labels(read.agent)
        return frame.iloc[np.lexsort((read.agent, read.time))].reset_index(drop=True)

    def agents_frame(self) -> pd.DataFrame:
        """Return the work for each agent, and the lengths of its queues and buffers.

        Returns
        -------
        pandas.DataFrame
            A row per agent, in the order of ``agents``: ``agent`` (categorical); ``busy`` (float64, ns of all
            threads); ``taken_events, taken_partials, compared_by_events, compared_by_partials`` (int64, by
            workers of one kind); ``tested, sent, looped, n_matches, removed_events, removed_partials``
            (int64); for each of ``event_queue, partial_queue, event_buffer, partial_buffer`` the mean length
            ``mean_…`` over the makespan (float64) and the greatest length ``most_…`` (int64).
        """
        import pandas as pd

        done, n = self.done, len(self.agents)
        has_agent = done.agent >= 0

        def total(values: np.ndarray, action: int | None = None) -> np.ndarray:
            rows = has_agent if action is None else has_agent & (done.action == action)
            return np.bincount(done.agent[rows], values[rows], minlength=n)

        columns = {"agent": self._with_labels(np.arange(n)), "busy": total(done.end - done.start)}
        for name, values in (("taken", done.n_items), ("compared_by", done.compared)):
            columns[f"{name}_events"] = total(values, EVENTS).astype(np.int64)
            columns[f"{name}_partials"] = total(values, PARTIALS).astype(np.int64)
        for name in _COUNTS[2:]:
            columns[name] = total(getattr(done, name)).astype(np.int64)
        for name in LENGTHS:
            columns[f"mean_{name}"], columns[f"most_{name}"] = self._length_of_agent(name)
        return pd.DataFrame(columns)

    def totals(self) -> pd.DataFrame:
        """Return the totals of the run.

        Returns
        -------
        pandas.DataFrame
            One row: ``measured``, ``n_threads``, ``n_agents``, ``n_actions``, ``makespan``, ``busy`` (ns of
            all threads), ``share`` (busy share of threads x makespan), ``n_items`` (taken by agents), and
            ``compared, tested, sent, looped, n_matches, removed_events, removed_partials``.
        """
        import pandas as pd

        done = self.done
        busy = float((done.end - done.start)[done.thread >= 0].sum())
        room = self.makespan * self.n_threads
        row = {
            "measured": bool(self.measured), "n_threads": self.n_threads, "n_agents": len(self.agents),
            "n_actions": len(done.start), "makespan": self.makespan, "busy": busy,
            "share": busy / room if room else 0.0, "n_items": int(done.n_items[done.action != SOURCE].sum()),
            **{name: int(getattr(done, name).sum()) for name in _COUNTS[1:]},
        }  # fmt: skip
        return pd.DataFrame([row])

    def save(self, path: str | os.PathLike) -> None:
        """Write the trace as a folder of two Parquet files. An existing trace is replaced.

        Raises
        ------
        CepError
            When ``path`` exists and is not a trace.
        """
        about = {"measured": bool(self.measured), "n_threads": self.n_threads, "agents": list(self.agents)}
        tables = [self.done._asdict(), self.lengths_read._asdict()]
        write_tables(Path(path), about, tables, _words(self.agents))

    @classmethod
    def load(cls, path: str | os.PathLike) -> Trace:
        """Return the trace that `save` wrote.

        Raises
        ------
        CepError
            When ``path`` is not a trace, or has another version.
        """
        about, tables = read_tables(Path(path))
        agents = tuple(about["agents"])
        done, lengths = (columns_of(table, _words(agents)) for table in tables)
        return cls(about["measured"], about["n_threads"], agents, Actions(**done), Lengths(**lengths))

    def __repr__(self) -> str:
        return "\n".join(self._words())

    def _repr_html_(self) -> str:
        headline, counts = (html.escape(line) for line in self._words())
        return f"<p><b>{headline}</b><br>{counts}</p>"

    # --- parts

    def _words(self) -> tuple[str, str]:
        total = self.totals().iloc[0]
        unit, size = clock_unit(self.makespan)
        clock = "measured" if self.measured else "simulated"
        threads, agents = counted(self.n_threads, "thread"), counted(len(self.agents), "agent")
        counts = (("n_items", "item"), ("compared", "comparison"), ("n_matches", "match"))
        return (
            f"Trace of a {clock} run: {self.makespan / size:.4g} {unit}, {threads} busy "
            f"{100 * total['share']:.0f} %, {agents}",
            f"{counted(total['n_actions'], 'action')}: "
            + ", ".join(counted(total[name], noun) for name, noun in counts),
        )

    def _threads(self) -> np.ndarray:
        """Return the numbers of the threads, with -1 first for a source that is not a thread."""
        has_source = bool((self.done.thread == SOURCE_THREAD).any())
        return np.arange(SOURCE_THREAD if has_source else 0, self.n_threads)

    def _with_labels(self, codes: np.ndarray) -> pd.Categorical:
        import pandas as pd

        return pd.Categorical.from_codes(codes, pd.Index(self.agents, dtype=object))

    def _length_of_agent(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (over the makespan) and the greatest value of one length, by agent."""
        read, makespan = self.lengths_read, self.makespan
        mean, most = np.zeros(len(self.agents)), np.zeros(len(self.agents), np.int64)
        for agent in range(len(self.agents)):
            rows = np.flatnonzero(read.agent == agent)
            rows = rows[np.argsort(read.time[rows], kind="stable")]
            values = getattr(read, name)[rows]
            most[agent] = values.max(initial=0)
            if makespan:
                held = np.diff(np.minimum([*read.time[rows], makespan], makespan))
                mean[agent] = (values * held).sum() / makespan
        return mean, most


def clock_unit(ns: float) -> tuple[str, float]:
    """Return the unit for times of about ``ns``, and its nanoseconds."""
    return next((unit for unit in _UNITS if ns >= unit[1]), _UNITS[-1])


def _columns(rows: NamedTuple, of: type) -> list[np.ndarray]:
    """Return the checked arrays of a table, read-only and with their types."""
    arrays, n_rows = [], None
    for name, values in zip(of._fields, rows, strict=True):
        array = np.asarray(values)
        if array.ndim != 1 or (n_rows is not None and len(array) != n_rows):
            shapes = {field: np.shape(column) for field, column in zip(of._fields, rows, strict=True)}
            raise CepError(
                f"trace: {of.__name__} differ in shape, {shapes}. Give one-dimensional arrays of equal length"
            )
        n_rows = len(array)
        wanted = np.float64 if name in _FLOATS else np.int64
        if n_rows and array.dtype.kind not in ("iuf" if wanted is np.float64 else "iu"):
            raise CepError(f"trace: {name} of {of.__name__} is {array.dtype}. Give {wanted.__name__}")
        array = array.astype(wanted)
        array.flags.writeable = False
        arrays.append(array)
    return arrays


def _check(trace: Trace) -> None:
    """Raise CepError for impossible values in a trace."""
    done, read, n_agents = trace.done, trace.lengths_read, len(trace.agents)
    every_agent = f"There are {n_agents} agents"
    _within("action", done.action, 0, len(ACTIONS), f"There are {dict(enumerate(ACTIONS))}")
    _within("thread", done.thread, SOURCE_THREAD, trace.n_threads, f"There are {trace.n_threads} threads")
    _within("agent", done.agent, NO_AGENT, n_agents, every_agent)
    _within("agent of a length", read.agent, 0, n_agents, every_agent)
    alone = (done.agent == NO_AGENT) & (done.action != SOURCE)
    if alone.any():
        name = ACTIONS[done.action[alone.argmax()]]
        raise CepError(
            f"trace: action {alone.argmax()}, {name!r}, has no agent. Only actions of the source have none"
        )
    numbers = [(done, name) for name in ("start", *_COUNTS)] + [(read, name) for name in ("time", *LENGTHS)]
    for rows, name in numbers:
        values = getattr(rows, name)
        wrong = ~np.isfinite(values) | (values < 0)
        if wrong.any():
            raise CepError(
                f"trace: {name} {values[wrong.argmax()]} in row {wrong.argmax()}. Give numbers of 0 or more"
            )
    backwards = ~np.isfinite(done.end) | (done.end < done.start)
    if backwards.any():
        row = backwards.argmax()
        raise CepError(f"trace: action {row} ends at {done.end[row]}, before its start at {done.start[row]}")
    order = np.lexsort((done.end, done.start, done.thread))
    ends, starts = done.end[order][:-1], done.start[order][1:]
    same = done.thread[order][:-1] == done.thread[order][1:]
    overlaps = same & (starts < ends - _ROUNDING * trace.makespan)
    if overlaps.any():
        row, then = order[overlaps.argmax()], order[overlaps.argmax() + 1]
        raise CepError(
            f"trace: thread {done.thread[row]} does two things at once, actions {row} and {then}: "
            f"one ends at {done.end[row]}, the other starts at {done.start[then]}"
        )


def _within(what: str, codes: np.ndarray, least: int, stop: int, there: str) -> None:
    wrong = (codes < least) | (codes >= stop)
    if wrong.any():
        row = wrong.argmax()
        raise CepError(f"trace: {what} {codes[row]} in row {row} is not known. {there}")


def _time_until(moments: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the total time of the spans before each moment; the spans are sorted and do not overlap."""
    whole = np.concatenate([[0.0], np.cumsum(ends - starts)])
    begun = np.searchsorted(starts, moments, side="right")
    last = np.maximum(begun - 1, 0)
    rest = np.where(begun > 0, np.maximum(ends[last] - moments, 0.0), 0.0)
    return whole[begun] - rest


def _words(agents: Sequence[str]) -> dict[str, Sequence[str]]:
    return {"agent": agents, "action": ACTIONS}
