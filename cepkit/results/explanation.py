"""The result of ``explain``: how a query is read and how it will run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepkit.compile.regex_program import Program
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.row_automaton import States, states
from cepkit.engines.match_recognize.bound import BoundRowQuery
from cepkit.language.cheat_sheet import say_query
from cepkit.language.match_recognize.printing import print_sql
from cepkit.language.match_recognize.query import RowsQuery
from cepkit.planning.evaluation_order import BranchOrder
from cepkit.planning.planner import Engine
from cepkit.results.explained_queries import MeasuredRows, regex_lines, row_pattern_lines, sequence_lines
from cepkit.values import dataclass

if TYPE_CHECKING:
    from cepkit.plots.graphs import Graph

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
