"""What a notebook shows of queries and results: `Explanation`, `view`, and `compare` for several queries."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cepkit.compile.regex_program import Program
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.row_automaton import States, build_row_automaton, positions, states
from cepkit.doors import open_door
from cepkit.engines.match_recognize.bound import BoundRowQuery
from cepkit.errors import CepError, ResultTooLargeError, nearest, whole_number
from cepkit.language.cheat_sheet import say_query
from cepkit.language.match_recognize.printing import print_sql
from cepkit.language.match_recognize.query import RowPatternQuery, RowsQuery, SelectedRows
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.branches import branches
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.evaluation_order import BranchOrder
from cepkit.planning.planner import Engine
from cepkit.plots.theme import variables_of
from cepkit.results.explained_queries import MeasuredRows, regex_lines, row_pattern_lines, sequence_lines
from cepkit.results.in_memory import FoundMatches
from cepkit.results.matches import Matches, SparkMatches
from cepkit.results.rows_in_memory import RowsInMemory
from cepkit.results.spark_tasks import MOST_ROWS, part_of
from cepkit.values import dataclass

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from cepkit.plots.graphs import Graph
    from cepkit.widgets.panels import NfaView
    from cepkit.widgets.scene_view import View


# The result of `explain`.

MOST_STATES_SHOWN = 30  # by a notebook below the text


@dataclass(frozen=True, repr=False)
class Explanation:
    """How a query is read and run; prints as text. A notebook also shows its automaton.

    Parameters
    ----------
    program : Program, SequenceProgram or BoundRowQuery
        The query, bound to the columns of a frame.
    engine : Engine
        The engine that will run it.
    orders : tuple of BranchOrder
        The measured evaluation orders, one per branch of a sequence query; empty without measurements.
    notes : tuple of (str, str)
        Labels and texts of extra lines.
    measured : MeasuredRows, optional
        What the search for MATCH_RECOGNIZE did on some rows; None for a frame without rows in memory.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> explanation = cep.explain(pd.DataFrame({"x": [1, 2]}), "up", define={"up": "x > 1"})
    >>> print(str(explanation).splitlines()[0])
    pattern      up
    """

    program: Program | SequenceProgram | BoundRowQuery
    engine: Engine
    orders: tuple[BranchOrder, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    measured: MeasuredRows | None = None

    @property
    def is_sequence(self) -> bool:
        """Whether the query is an event sequence.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> cep.explain(pd.DataFrame({"x": [1, 2]}), "PATTERN SEQ(_ a, _ b)").is_sequence
        True
        """
        return isinstance(self.program, SequenceProgram)

    @property
    def states(self) -> States:
        """The automaton of the query; a regex query has one transition per state and predicate.

        The transitions of MATCH_RECOGNIZE have the numbers of the choices; 1 is preferred.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> cep.explain(pd.DataFrame({"x": [1, 2]}), "PATTERN SEQ(_ a, _ b)").states.n_states
        3
        """
        if isinstance(self.program, Program):
            return states(self.program.automaton)
        if isinstance(self.program, BoundRowQuery):
            from cepkit.plots.automata import row_states

            return row_states(self.program.program.automaton)
        from cepkit.plots.automata import sequence_states

        return sequence_states([bound.branch for bound in self.program.branches])[0]

    def __str__(self) -> str:
        if isinstance(self.program, SequenceProgram):
            return "\n".join(sequence_lines(self.program, self.engine, self.orders, self.notes))
        if isinstance(self.program, BoundRowQuery):
            return "\n".join(row_pattern_lines(self.program, self.measured))
        return "\n".join(regex_lines(self.program, self.engine, self.notes))

    __repr__ = __str__

    def graph(self) -> Graph:
        """Return the automaton as a ``graphviz.Digraph``, which a notebook draws.

        Its ``source`` is DOT text. It is drawn with or without Graphviz; see `cepkit.plots.graphs.Graph`.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> graph = cep.explain(pd.DataFrame({"x": [1, 2]}), "PATTERN SEQ(_ a, _ b)").graph()
        >>> graph
        <graph automaton: 3 nodes, 2 edges>
        >>> graph.source.split()[0]
        'digraph'
        """
        from cepkit.plots.graphs import automaton_graph

        return automaton_graph(self.states, define=self._texts())

    def svg(self) -> str:
        """Return the automaton as SVG text.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> cep.explain(pd.DataFrame({"x": [1, 2]}), "up", define={"up": "x > 1"}).svg()[:4]
        '<svg'
        """
        from cepkit.plots.layered import automaton_svg

        return automaton_svg(self.states, define=self._texts())

    def _texts(self) -> dict[str, str]:
        """Return the conditions by the labels of transitions."""
        if isinstance(self.program, SequenceProgram):
            return {}
        if isinstance(self.program, BoundRowQuery):
            from cepkit.plots.automata import texts_of_choices

            texts = {name: print_sql(tree) for name, tree in self.program.query.define}
            return texts_of_choices(self.states, texts)
        return {name: str(expression) for name, expression in self.program.query.define}

    @property
    def sentence(self) -> str:
        """The query in one plain sentence.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> cep.explain(pd.DataFrame({"x": [1, 2]}), "PATTERN SEQ(_ a)").sentence
        'any event a'
        """
        query = self.program.query
        return say_query(query.whole if isinstance(query, RowsQuery) else query)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        from cepkit.plots.drawing import still_bundle

        display({"text/plain": str(self)}, raw=True)
        if self.states.n_states <= MOST_STATES_SHOWN:
            data, metadata = still_bundle(self.svg(), "")
            display({"image/png": data["image/png"]}, metadata=metadata, raw=True)


# `view`: interactive views of results; wings register their own views.

OF_RUNS = ("threads", "buffers")  # views of the run of a parallel engine


def view(of: Any, what: str | None = None, **settings: Any) -> View | NfaView:
    """Return an interactive view of a result, a query or a table; a static picture without a kernel.

    Parameters
    ----------
    of
        The object to view, with the names of its views:

        * matches: ``"lineage"``; with a parallel engine and ``trace=True`` also ``"threads"`` and
          ``"buffers"``, see `Matches.view`;
        * matches in a Spark frame: ``"lineage"`` for a part of the frame, see `SparkMatches.view`;
        * a run (``matches.run``, `simulate`) or its trace: ``"threads"``, ``"buffers"``;
        * a query or the result of ``explain``: ``"nfa"``, the automaton;
        * the result of ``replay``: ``"load"``, latency, backlog and drops over time; ``"utility"``, the
          utilities of its shedder;
        * a DataFrame of utilities: ``"utility"``; `cepkit.shedding.plots.utilities` has its columns.
    what : str, optional
        Name of the view; None for the first one.
    **settings
        Settings of the view: ``title``; ``threshold`` for utilities; ``size`` for lineage; ``live`` and
        ``lit`` for a query, see `NfaView`.

    Returns
    -------
    widget
        With ``selected``, ``figure()`` (plotly), ``svg()`` and ``to_frame()``.

    Raises
    ------
    CepError
        When the object has no view, or not this one; the message lists the available views.

    Examples
    --------
    >>> import cepkit as cep
    >>> events = pd.DataFrame({"kind": list("aabb"), "ts": range(4)})
    >>> matches = events.cep.match("PATTERN SEQ(a x, b y)", event_type="kind", order_by="ts")
    >>> cep.view(matches)
    LineageView(4 matches)
    >>> cep.view(matches.query)
    NfaView(3 states, 2 transitions)
    """
    open_door("wings")()
    return view_of(of, what, settings)


@singledispatch
def view_of(of: Any, what: str | None, settings: dict) -> View | NfaView:
    """Return the view ``what`` of a value; wings register views of their own types."""
    raise CepError(
        f"view: {type(of).__name__} has no view. Matches, runs, traces, replays, queries, "
        "explanations and DataFrames of utilities have views"
    )


@view_of.register(RegexQuery)
def _(of: RegexQuery, what: str | None, settings: dict) -> NfaView:
    one_of(what, ("nfa",), "a query")
    texts = {name: str(expression) for name, expression in of.define}
    return _nfa(states(positions(of.pattern, longest=of.keep == "longest")), texts, texts.items(), settings)


@view_of.register(SequenceQuery)
def _(of: SequenceQuery, what: str | None, settings: dict) -> NfaView:
    from cepkit.plots.automata import sequence_states

    one_of(what, ("nfa",), "a query")
    types = {
        component.variable: f"type {component.event_type}"
        for branch in branches(of)
        for component in branch.components
        if component.event_type is not None
    }
    conditions = [*types.items(), *(("where", str(condition)) for condition in of.where)]
    return _nfa(sequence_states(branches(of))[0], {}, conditions, settings)


@view_of.register(RowPatternQuery)
@view_of.register(SelectedRows)
@view_of.register(RowsQuery)
def _(of: RowPatternQuery | SelectedRows | RowsQuery, what: str | None, settings: dict) -> NfaView:
    from cepkit.plots.automata import row_states, texts_of_choices

    one_of(what, ("nfa",), "a query")
    rows = of if isinstance(of, RowPatternQuery) else of.rows
    automaton = row_states(build_row_automaton(rows.pattern))
    texts = {name: print_sql(tree) for name, tree in rows.define}
    return _nfa(automaton, texts_of_choices(automaton, texts), texts.items(), settings)


@view_of.register(Explanation)
def _(of: Explanation, what: str | None, settings: dict) -> View | NfaView:
    return view_of(of.program.query, what, settings)


@view_of.register(Matches)
def _(of: Matches, what: str | None, settings: dict) -> View | NfaView:
    if what in OF_RUNS:
        if view_of.dispatch(type(of.run)) is not view_of.dispatch(object):
            return view_of(of.run, what, settings)
        raise CepError(
            f"view: {what!r} needs the run of a parallel engine. Give engine=cep.Hybrid(…) and trace=True "
            "to match; these matches have the views ['lineage']"
        )
    one_of(what, ("lineage", *OF_RUNS), "matches")
    drawn = of._found.drawn("view")
    return _lineage(of if drawn is of._found else Matches(drawn), settings)


@view_of.register(SparkMatches)
def _(of: SparkMatches, what: str | None, settings: dict) -> View:
    one_of(what, ("lineage",), "matches in a Spark frame")
    return _lineage_of_part(of, **settings)


def _lineage_of_part(
    of: SparkMatches, *, rows: int = MOST_ROWS, size: int | None = None, title: str | None = None
) -> View:
    """Return the view of the matches in a part of a Spark frame."""
    rows = whole_number("view: rows", rows, 1)
    options = {"title": title, "size": None if size is None else whole_number("view: size", size, 1)}
    found = of._found.drawn("view")
    part, words = part_of(found.needed_columns(), of.query.partition_by, of.query.order_by, rows)
    engine = "auto" if of.engine.automatic else of.engine.name
    settings = {name: value for name, value in options.items() if value is not None}
    return _lineage(part.cep.match(of.query, engine=engine), {"part": words, **settings})


def one_of(what: str | None, there: tuple[str, ...], whose: str) -> str:
    """Return the name of a view, by default the first one; raise `CepError` for unknown names."""
    if what is not None and what not in there:
        near = nearest(str(what), there)
        raise CepError(f"view: unknown view {what!r} of {whose}.{near} Views: {list(there)}")
    return what or there[0]


def _nfa(
    automaton: States, texts: dict[str, str], conditions: Iterable[tuple[str, str]], settings: dict
) -> NfaView:
    """Return the view of an automaton with its conditions."""
    from cepkit.plots.layered import automaton_traits
    from cepkit.widgets.panels import NfaView

    traits = automaton_traits(automaton, texts)
    named_conditions = [{"name": name, "text": text} for name, text in conditions]
    return NfaView(**traits, conditions=named_conditions, is_alone=True, **settings)


def _lineage(matches: Matches, settings: dict) -> View:
    """Return the view of matches and their rows."""
    from cepkit.widgets.scene_view import LineageView

    found: Any = matches._found
    events = found.events
    clock = matches.query.order_by[:1]

    def rows(low: int, high: int) -> pd.DataFrame:
        lineage = matches[low:high].lineage()
        numbers = lineage["match"] if low < 2**62 else lineage["match"].astype(object)
        lineage = lineage.assign(match=numbers + low)
        for name in clock:
            at = events.rows(lineage["position"].to_numpy(np.int64))
            lineage["time"] = found.source.arrow(name, at).to_pandas().astype(str).to_numpy()
        return lineage

    chains = None
    run = matches.run
    if getattr(run, "engine", "") == "linked":
        with contextlib.suppress(ResultTooLargeError):
            chains = run.chains_frame()
    settings = {"title": str(matches.query.pattern), "variables": variables_of(matches.query), **settings}
    return LineageView(rows, n_matches=matches.count(), chains=chains, **settings)


# `compare`: the matches of several queries over the same events, in one picture.

MOST_EVENTS = 120  # more do not fit beside each other


def compare(found: Mapping[str, Matches], *, title: str | None = None) -> go.Figure:
    """Draw the matches of several queries over the same events, with a panel for each query."""
    # A line is a match, and a mark is one of its events. Use it on a small part of your data, to see what a
    # strategy, a window or an operator changes.
    from cepkit.plots.lineage import MOST_COMPARED, comparison_scene
    from cepkit.plots.scene import scene_figure

    _check(found)
    shown = {name: _first(matches, MOST_COMPARED) for name, matches in found.items()}
    first = min((int(rows["position"].to_numpy().min()) for rows in shown.values() if len(rows)), default=0)
    n_events = _size(next(iter(found.values())))
    stop = min(first + MOST_EVENTS, n_events)
    if n_events <= MOST_EVENTS:
        first, stop = 0, n_events
    scene = comparison_scene(
        _labels(next(iter(found.values())), first, stop),
        {name: _between(rows, first, stop) for name, rows in shown.items()},
        totals={name: matches.count() for name, matches in found.items()},
        variables=[name for matches in found.values() for name in variables_of(matches.query)],
        title=title or "",
    )
    return scene_figure(scene)


def _check(found: Any) -> None:
    if not isinstance(found, Mapping) or not found:
        raise CepError("compare: give a dict of results by name, as in {'next': matches, 'any': others}")
    for name, matches in found.items():
        if not isinstance(matches, Matches) or not isinstance(matches._found, FoundMatches | RowsInMemory):
            raise CepError(
                f"compare: {name!r} is a {type(matches).__name__}, not the result of match() on a frame "
                "in memory"
            )
    sizes = {name: _size(matches) for name, matches in found.items()}
    if len(set(sizes.values())) > 1:
        raise CepError(f"compare: the results are of different frames; their numbers of events are {sizes}")


def _size(matches: Any) -> int:
    """Return the number of rows that were searched."""
    return matches._found.source.n_rows


def _first(matches: Any, n: int) -> pd.DataFrame:
    """Return the lineage of the first matches."""
    if isinstance(matches._found, FoundMatches):
        return matches[:n].lineage()
    rows = matches.lineage()
    return rows[rows["match"] < n]


def _between(rows: pd.DataFrame, first: int, stop: int) -> pd.DataFrame:
    """Return the matches that end before ``stop``, with positions from ``first``."""
    last = rows.groupby("match")["position"].transform("max").to_numpy()
    inside = rows[last < stop]
    return inside.assign(position=inside["position"] - first)


def _labels(matches: Any, first: int, stop: int) -> list[str]:
    """Return a text for each event: its label in the frame, with its type unless the label is a text."""
    rows = np.arange(first, stop)
    source = matches._found.source
    if isinstance(matches._found, RowsInMemory):
        return list(map(str, source.index_labels(rows)))
    rows = matches._found.events.rows(rows)
    labels = list(source.index_labels(rows))
    kind = getattr(matches.query, "event_type", None)
    if kind is None or any(isinstance(label, str) for label in labels):
        return [str(label) for label in labels]
    types = source.arrow(kind, rows).to_pylist()
    return [f"{event_type} {label}" for event_type, label in zip(types, labels, strict=True)]
