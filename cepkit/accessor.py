"""The accessor ``df.cep`` on pandas and Spark DataFrames; it imports no pyspark and nothing that matches."""

from __future__ import annotations

import html
import inspect
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Unpack

import pandas as pd

from cepkit.planning.arguments import QueryKeywords, takes_query_keywords

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from cepkit.events import Frame
    from cepkit.insight.funnel import FunnelResult
    from cepkit.insight.moments import Moment
    from cepkit.insight.why_not import WhyNot
    from cepkit.parallel.agents.crew import Costs
    from cepkit.parallel.agents.outcome import ParallelRun
    from cepkit.planning.planner import EngineValue
    from cepkit.planning.queries import Query
    from cepkit.results.explanation import Explanation
    from cepkit.results.matches import Matches
    from cepkit.results.spark.matches import SparkMatches

_EXAMPLES = {
    "match": 'df.cep.match("a b+ c", define={"a": "x > 1", …}, partition_by="key", order_by="ts")',
    "tag": 'df.cep.tag("a b+ c", …).groupby("match").size()',
    "explain": 'print(df.cep.explain("a b+ c", …))',
    "funnel": 'df.cep.funnel("PATTERN SEQ(A a, B b, C c) WITHIN 1 hour", event_type="kind", order_by="ts")',
    "why_not": "df.cep.why_not(query, rows=[3, 7], …)",
    "step": "for moment in df.cep.step(query, …): print(moment)",
    "simulate": "df.cep.simulate(query, engine=cep.Hybrid(threads=8), …).makespan",
    "explore": 'df.cep.explore("a b+ c", …)',
}


class CepAccessor:
    """Temporal patterns in the rows of a frame: ``df.cep.match(...)`` and what belongs to it.

    Type checkers do not know accessors of pandas. ``cepkit.match(df, ...)`` is the same call with types that
    they check; an editor that asks the running Python, such as Jupyter's, completes ``df.cep.`` as well.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11, 14, 12, 9]})
    >>> print(str(walk.cep).splitlines()[1])
      match     Find the matches of a query.
    """

    def __init__(self, frame: Frame):
        self._frame = frame

    @takes_query_keywords
    def match(
        self,
        query: Query,
        *,
        engine: str | EngineValue = "auto",
        trace: bool = False,
        **keywords: Unpack[QueryKeywords],
    ) -> Matches | SparkMatches:
        """Find the matches of a query.

        Parameters
        ----------
        query : str, pattern or query
            A regex over the names in ``define``, ``"a b+ c"``: contiguous rows of a partition match it. Or a
            sequence of typed events, ``"PATTERN SEQ(A a, B b) WITHIN 1 hour"``, which may skip rows.
        **keywords
        engine : str or engine
            ``"auto"`` takes the fastest engine; all engines find the same matches. See `explain`.
        trace : bool
            Whether a parallel engine records every step, in ``matches.run.trace``.

        Returns
        -------
        Matches or SparkMatches
            In the order of their last row. ``count()``, ``to_frame()``, ``sample(10)``, ``plot()`` and
            ``explore()`` look into them.

        Raises
        ------
        CepError
            Before any work starts: for text that cannot be read, unknown columns, and types that do not fit.

        See Also
        --------
        cepkit.match : The same for any kind of frame, with all details.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> walk = pd.DataFrame({"price": [10, 12, 13, 11, 14, 12, 9]})
        >>> walk.cep.match(
        ...     ". rise+ drop", define={"rise": "price > prev(price)", "drop": "price < prev(price)"},
        ...     measures={"low": "first(price)", "top": "max(price)", "rows": "count()"}).to_frame()
           low  top  rows
        0   10   13     4
        """
        from cepkit import api

        return api.match(self._frame, query, engine=engine, trace=trace, **keywords)

    @takes_query_keywords
    def tag(
        self,
        query: Query,
        *,
        engine: str | EngineValue = "auto",
        trace: bool = False,
        **keywords: Unpack[QueryKeywords],
    ) -> Frame:
        """Return the frame with two extra columns, ``match`` and ``variable``.

        Parameters
        ----------
        query, engine, trace
            As for `match`.
        **keywords

        Returns
        -------
        DataFrame or table
            The rows and the index of the frame. ``match`` is the number of the match that a row belongs to;
            ``variable`` is the name that the row stands for. Both are null for rows without a match.

        Raises
        ------
        CepError
            As `match`, and when a row belongs to several matches.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> walk = pd.DataFrame({"price": [10, 12, 13, 11]})
        >>> tagged = walk.cep.tag("up+ down", define={"up": "price > 11", "down": "price <= 11"})
        >>> tagged["variable"].tolist()
        [<NA>, 'up', 'up', 'down']
        """
        from cepkit import api

        return api.tag(self._frame, query, engine=engine, trace=trace, **keywords)

    @takes_query_keywords
    def explain(
        self, query: Query, *, engine: str | EngineValue = "auto", **keywords: Unpack[QueryKeywords]
    ) -> Explanation:
        """Say how a query is read and how it will run, without running it.

        Parameters
        ----------
        query, engine
            As for `match`.
        **keywords

        Returns
        -------
        Explanation
            Prints as text; a notebook also draws the automaton.

        Raises
        ------
        CepError
            As `match`.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("AABC"), "x": range(4)})
        >>> print(str(frame.cep.explain("PATTERN SEQ(A a, B b)", event_type="kind")).splitlines()[0])
        pattern      SEQ(A a, B b)
        """
        from cepkit import api

        return api.explain(self._frame, query, engine=engine, **keywords)

    @takes_query_keywords
    def funnel(
        self, query: Query, *, engine: str | EngineValue = "auto", **keywords: Unpack[QueryKeywords]
    ) -> FunnelResult:
        """Count how many events and partial matches reach each step of a query.

        Parameters
        ----------
        query, engine
            As for `match`.
        **keywords

        Returns
        -------
        FunnelResult
            Prints as a table; ``to_frame()`` has its numbers and ``plot()`` draws them.

        Raises
        ------
        UnsupportedQueryError
            For Spark frames, and for patterns of very many alternatives.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> events = pd.DataFrame({"kind": list("AABB"), "ts": range(4)})
        >>> funnel = events.cep.funnel("PATTERN SEQ(A a, B b) WITHIN 1", event_type="kind", order_by="ts")
        >>> funnel.to_frame()[["step", "partial"]].head(2)
          step  partial
        0    a        2
        1    b        1
        """
        from cepkit import api

        return api.funnel(self._frame, query, engine=engine, **keywords)

    @takes_query_keywords
    def why_not(
        self,
        query: Query,
        *,
        rows: Any = None,
        engine: str | EngineValue = "auto",
        **keywords: Unpack[QueryKeywords],
    ) -> WhyNot:
        """Say why rows that you expected to match do not.

        Parameters
        ----------
        query, engine
            As for `match`.
        **keywords
        rows : labels, or mapping of str to label or labels, optional
            Index labels of the rows that you expected in one match, or labels by variable. None: say where
            most partial matches are lost.

        Returns
        -------
        WhyNot
            Prints as text: how far the rows get, and what stops them.

        Raises
        ------
        CepError
            For labels that no row or several rows have, and for unknown variables.
        UnsupportedQueryError
            For Spark frames.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> scans = pd.DataFrame({"kind": ["Order", "Scan", "Ready"], "ts": [1, 2, 9], "weight": [5, 6, 3]})
        >>> query = "PATTERN SEQ(Order o, Ready r) WITHIN 5"
        >>> scans.cep.why_not(query, rows=[0, 2], event_type="kind", order_by="ts")
        no match: o = row 0, r = row 2; row 2 cannot follow row 0
        - from row 0 to row 2 it lasts 8, more than 5
        """
        from cepkit import api

        return api.why_not(self._frame, query, rows=rows, engine=engine, **keywords)

    @takes_query_keywords
    def step(
        self,
        query: Query,
        *,
        most_live: int = 10_000,
        engine: str | EngineValue = "auto",
        **keywords: Unpack[QueryKeywords],
    ) -> Iterator[Moment]:
        """Go through the events one by one and see what each does to the partial matches of a query.

        Parameters
        ----------
        query, engine
            As for `match`.
        **keywords
        most_live : int
            The largest number of partial matches of a sequence that are followed at once.

        Returns
        -------
        iterator of Moment
            One for every event, in stream order: the event, the partial matches that begin, advance and end
            with it, those that are live after it, and the matches that it completes. A moment prints as text.

        Raises
        ------
        UnsupportedQueryError
            For Spark frames.
        ResultTooLargeError
            While iterating, when more than ``most_live`` partial matches of a sequence are live at once.
        CepError
            As `match`.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> walk = pd.DataFrame({"price": [10, 12, 13, 11]})
        >>> for moment in walk.cep.step("up+ down", define={"up": "price > 12", "down": "price <= 12"}):
        ...     print(moment)
        row 0: no partial match changes; 0 are live
        row 1: no partial match changes; 0 are live
        row 2: 1 partial match begins; 1 is live (1 at up)
        row 3: 1 partial match advances; 0 are live; match: rows 2 to 3
        """
        from cepkit import api

        return api.step(self._frame, query, most_live=most_live, engine=engine, **keywords)

    @takes_query_keywords
    def simulate(
        self,
        query: Query,
        *,
        engine: EngineValue | None = None,
        costs: Costs | str | None = None,
        arrival: ArrayLike | None = None,
        keep: bool = False,
        trace: bool = False,
        **keywords: Unpack[QueryKeywords],
    ) -> ParallelRun:
        """Run a parallel engine in virtual time, on any number of threads.

        Parameters
        ----------
        query
            As for `match`; a sequence query.
        **keywords
        engine : parallel engine, optional
            `cepkit.Hybrid`, `cepkit.RIP`, `cepkit.DataParallel`, `cepkit.StateParallel` or
            `cepkit.Sequential`; default: ``Hybrid()``.
        costs : Costs or "measured", optional
            Costs of a thread's steps; default: those of `cepkit.Costs`.
        arrival : array of float, shape (n_rows,), optional
            When each row reaches the engine, in ns, not falling in stream order. None: all at once.
        keep : bool
            Whether the run keeps the matches; otherwise it counts them.
        trace : bool
            Whether the run records every step.

        Returns
        -------
        ParallelRun
            Number of matches, makespan, busy time of every thread, latencies, bytes and comparisons.

        Raises
        ------
        CepError
            As `match`; when there are too few threads, or when the arrivals do not fit the rows.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> events = pd.DataFrame({"kind": list("abcabcab") * 4, "ts": range(32)})
        >>> query = "PATTERN SEQ(a x, b y, c z) WITHIN 6 events"
        >>> events.cep.simulate(query, event_type="kind", engine=cep.Hybrid(threads=8)).n_threads
        8
        """
        from cepkit import api

        return api.simulate(
            self._frame,
            query,
            engine=engine,
            costs=costs,
            arrival=arrival,
            keep=keep,
            trace=trace,
            **keywords,
        )

    @takes_query_keywords
    def explore(
        self,
        query: Query | None = None,
        *,
        value: str | None = None,
        engine: str | EngineValue = "auto",
        **keywords: Unpack[QueryKeywords],
    ) -> Any:
        """Open the pattern explorer: an editor for a query, with its matches beside it, in a notebook.

        Parameters
        ----------
        query
            As for `match`; it may be typed later.
        **keywords
        value : str, optional
            Column of numbers that the timeline draws; default: the first one that the query looks at.
        engine : str or engine
            As for `match`.

        Returns
        -------
        Explorer
            ``query`` and ``matches`` are those of the last result; ``wait()`` waits for it. Of a Spark frame
            it shows a sample of at most 100,000 rows; ``run_on_all()`` runs the query on all of it.

        Raises
        ------
        CepError
            For unknown columns. The editor shows what is wrong with the query.
        TypeError
            For unknown keywords.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> walk = pd.DataFrame({"price": [10, 12, 13, 11, 14, 12, 9]})
        >>> explorer = walk.cep.explore("up+ down", define={"up": "price > 11", "down": "price <= 11"})
        >>> explorer.wait()
        Explorer(7 rows, done, 2 matches)
        """
        from cepkit import api

        return api.explore(self._frame, query, value=value, engine=engine, **keywords)

    def __repr__(self) -> str:
        return "\n".join(
            [_HEAD, *(f"  {name:9} {said}\n            {code}" for name, said, code in _methods())]
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td style='text-align:left'>{html.escape(said)}<br>"
            f"<code>{html.escape(code)}</code></td></tr>"
            for name, said, code in _methods()
        )
        return f"<p>{html.escape(_HEAD)}</p><table>{rows}</table>"


_HEAD = "df.cep finds temporal patterns in the rows of df; help(df.cep.match) explains every keyword."


def _methods() -> list[tuple[str, str, str]]:
    """Return name, first line of the docstring and an example of every method."""
    return [
        (name, (inspect.getdoc(getattr(CepAccessor, name)) or "").partition("\n")[0], code)
        for name, code in _EXAMPLES.items()
    ]


# --- registration on the classes of frames

_SPARK = "pyspark.sql"


def register_accessor() -> None:
    """Register the accessor on pandas' DataFrame now, and on Spark's when its module is there."""
    if "cep" in pd.DataFrame.__dict__:  # a notebook may reload the package
        pd.DataFrame.cep = property(CepAccessor)  # type: ignore[attr-defined]  # pandas' stubs know no accessors
    else:
        pd.api.extensions.register_dataframe_accessor("cep")(CepAccessor)
    if _SPARK in sys.modules and hasattr(sys.modules[_SPARK], "DataFrame"):
        _register_on_spark(sys.modules[_SPARK])
    elif not any(isinstance(finder, _SparkFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _SparkFinder())


def _register_on_spark(module: ModuleType) -> None:
    module.DataFrame.cep = property(CepAccessor)  # the parent of the classic and of the Connect class


class _SparkFinder(MetaPathFinder):
    """Finds pyspark.sql as Python does, and registers the accessor after it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of pyspark.sql with a loader that registers; None for other modules."""
        if fullname != _SPARK:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _RegisteringLoader(spec.loader)
        return spec


class _RegisteringLoader(Loader):
    """Loads a module with another loader, then registers the accessor."""

    def __init__(self, loader: Loader):
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then register the accessor on its DataFrame."""
        self._loader.exec_module(module)
        _register_on_spark(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
