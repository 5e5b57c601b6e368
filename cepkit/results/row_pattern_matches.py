"""`RowPatternMatches`, the result of MATCH_RECOGNIZE on a frame in memory or on a Spark frame."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import pandas as pd

from cepkit.errors import CepError, whole_number
from cepkit.events import Frame
from cepkit.frames.pandas import as_pandas
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows
from cepkit.limits import MemoryLimit
from cepkit.progress import show_progress
from cepkit.results.doors import open_door
from cepkit.results.found import Match, bounded, check_key, check_rows, number_of
from cepkit.results.in_memory import SHOWN, html_of_table, paragraphs, text_of_table
from cepkit.results.matches import Matches

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import pyarrow as pa

    from cepkit.results.match_recognize.search import BoundRows


ROWS_CURE = "Narrow the pattern, or write AFTER MATCH SKIP PAST LAST ROW and ONE ROW PER MATCH"


class FoundRowPatterns(Protocol):
    """What `RowPatternMatches` asks of a kind of frame: query, matches, and rows of the result."""

    bound: BoundRows
    frame: Frame

    @property
    def query(self) -> RowPatternQuery | SelectedRows:
        """The query as a value."""
        ...

    def count(self) -> int:
        """Return the number of matches, with empty ones."""
        ...

    def to_frame(self) -> Frame:
        """Return the rows of the result."""
        ...

    def head(self, n: int) -> Frame:
        """Return the first rows of the result."""
        ...

    def sample(self, n: int, seed: int) -> Frame:
        """Return a uniform sample of the rows of the result."""
        ...

    def matched_rows(self) -> Frame:
        """Return the matched rows of the frame, after ``match`` and ``variable``."""
        ...

    def table(self, rows: str) -> pa.Table:
        """Return the rows of the result, or the matched rows, without an index."""
        ...

    def lineage(self, number: int | None) -> Frame:
        """Return one row for each matched row."""
        ...

    def tag(self) -> Frame:
        """Return the frame with ``match`` and ``variable`` as its last columns."""
        ...

    def matches(self) -> Iterator[Match]:
        """Yield the matches."""
        ...

    def match(self, number: int) -> Match:
        """Return a match by its number from 0."""
        ...

    def as_matches(self) -> Matches:
        """Return the matches that have rows as pictures read them."""
        ...

    def said(self) -> str:
        """Return what was found in one line."""
        ...

    def n_rows(self) -> int | None:
        """Return the number of rows of the result; None if it takes a job to know it."""
        ...


class RowPatternMatches:
    """The matches of MATCH_RECOGNIZE in a frame.

    `cepkit.sql` returns it. `cepkit.match` and ``df.cep.match`` return it for the text of MATCH_RECOGNIZE.

    Matches are sorted by partition, in the order of the first rows of the partitions, and in a partition as
    they are found. The number of a match is its position in this order, from 0. MATCH_NUMBER() counts from 1
    in each partition. WHERE, ORDER BY, OFFSET and LIMIT of a SELECT change the rows of `to_frame`, `head` and
    `sample`. All other methods are about the matches of the clause, and so is `len`. The text of the result
    says both: ``3 matches of 'A B+' in 8 rows; WHERE keeps 2 of 3 rows``.

    Notes
    -----
    On a Spark frame the result is lazy, and each call of a method runs the query again. Partitions are then
    sorted by their columns, null first.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"t": range(6), "price": [5, 3, 2, 4, 1, 6]})
    >>> cep.match(walk, '''MATCH_RECOGNIZE (
    ...     ORDER BY t MEASURES FIRST(down.price) AS top, LAST(down.price) AS bottom, up.price AS price
    ...     PATTERN (down{2,} up) DEFINE down AS price < PREV(price) OR PREV(price) IS NULL,
    ...     up AS price > PREV(price))''')
    1 match of 'DOWN{2,} UP' in 6 rows
       top  bottom  price
    0    5       2      4
    """

    _cure = ROWS_CURE

    def __init__(self, found: FoundRowPatterns, memory_limit: MemoryLimit = "auto"):
        self._found, self._memory_limit = found, memory_limit

    @property
    def query(self) -> RowPatternQuery | SelectedRows:
        """The query as a value.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": [1, 2, 1]})
        >>> print(cep.match(frame, "MATCH_RECOGNIZE (PATTERN (A B?) DEFINE A AS x = 1)").query.pattern)
        A B?
        """
        return self._found.query

    def __copy__(self) -> RowPatternMatches:
        """Return the same matches. They never change."""
        return RowPatternMatches(self._found, self._memory_limit)

    def __deepcopy__(self, memo: dict) -> RowPatternMatches:
        """Return the same matches. They never change."""
        return self.__copy__()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Raise `CepError`: the conditions of the query are functions, which cannot be pickled."""
        raise CepError(
            "the result of MATCH_RECOGNIZE cannot be pickled. Pickle the frame that to_frame() returns, or "
            "write the rows with write_parquet()"
        )

    # --- how many

    @show_progress("counting matches")
    @bounded
    def count(self) -> int:
        """Return the number of matches, with empty ones, before WHERE, OFFSET and LIMIT.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": [1, 2, 1]})
        >>> cep.match(frame, "MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS x = 1)").count()
        2
        """
        return self._found.count()

    def __len__(self) -> int:
        """Return the number of matches."""
        return self.count()

    def __bool__(self) -> bool:
        """Return whether a match exists."""
        return self.count() > 0

    # --- some of them

    @bounded
    def head(self, n: int = 5) -> Frame:
        """Return the first ``n`` rows of the result; of a Spark frame as a pandas DataFrame.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": [1, 2, 1]})
        >>> cep.sql("SELECT x FROM t MATCH_RECOGNIZE (ALL ROWS PER MATCH PATTERN (A) DEFINE A AS x > 0)",
        ...         t=frame).head(2)["x"].tolist()
        [1, 2]
        """
        return self._found.head(whole_number("n", n))

    @bounded
    def sample(self, n: int, seed: int = 0) -> Frame:
        """Return a uniform sample of ``n`` rows of the result without replacement, in their order.

        The sample has all rows when there are fewer than ``n``. The same seed draws the same rows. The
        sample of a Spark frame is a pandas DataFrame, and differs from the one in memory.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": range(100)})
        >>> found = cep.match(frame, "MATCH_RECOGNIZE (MEASURES A.x AS x PATTERN (A) DEFINE A AS x % 2 = 0)")
        >>> len(found.sample(3, seed=1))
        3
        """
        return self._found.sample(whole_number("n", n), whole_number("seed", seed))

    def __getitem__(self, number: int) -> Match:
        """Return a match by its number, with its measures at the last row."""
        check_key(number)
        return self._found.match(number_of(number, self.count()))

    def __iter__(self) -> Iterator[Match]:
        """Yield the matches in their order, each with its measures at the last row."""
        return self._found.matches()

    # --- frames

    @bounded
    def to_frame(self, rows: str = "one") -> Frame:
        """Return the rows of the result, as the same kind of frame as the input.

        Parameters
        ----------
        rows : str
            ``"one"``: the rows that the query asks for. One row per match has the partition columns and the
            measures. All rows per match have the partition columns, the order columns, the measures and the
            other columns of the input. ``"all"``: the matched rows of the frame. The first two columns are
            then ``match`` (its number) and ``variable``.

        Returns
        -------
        DataFrame or table
            The kind of the input. A DuckDB relation gives an Arrow table, which DuckDB reads again. A Spark
            frame gives a lazy Spark frame; without ORDER BY its rows have no order.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": [1, 2, 1]})
        >>> text = '''MATCH_RECOGNIZE (MEASURES CLASSIFIER() AS variable ALL ROWS PER MATCH
        ...     PATTERN (A B) DEFINE A AS x = 1)'''
        >>> cep.match(frame, text).to_frame()
          variable  x
        0        A  1
        1        B  2
        """
        check_rows(rows)
        return self._found.to_frame() if rows == "one" else self._found.matched_rows()

    @show_progress("writing rows")
    @bounded
    def write_parquet(self, path: str | os.PathLike, rows: str = "one", *, overwrite: bool = False) -> int:
        """Write the rows of the result into a Parquet file, and return their number.

        The file gets its name when it is complete. Nothing is left of an interrupted call.

        Parameters
        ----------
        path : str or path
            The file.
        rows : str
            ``"one"`` or ``"all"``, as for `to_frame`. The index of a pandas frame is not written.
        overwrite : bool
            Whether a file of this name is replaced.

        Raises
        ------
        CepError
            When the file exists and ``overwrite`` is False, or its folder does not exist.
        UnsupportedQueryError
            For a Spark frame, whose tasks write: ``to_frame().write.parquet(path)``.

        Notes
        -----
        Memory O(rows of the result).

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> found = cep.match(pd.DataFrame({"x": [1, 2]}), "MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS x = 1)")
        >>> found.write_parquet("rows.parquet")  # doctest: +SKIP
        1
        """
        from cepkit.frames.writing import check_target, write_blocks

        check_rows(rows)
        target = check_target(path, overwrite=overwrite)
        table = self._found.table(rows)
        return write_blocks(target, table.slice(0, 0), [table])

    @bounded
    def lineage(self, number: int | None = None) -> Frame:
        """Return one row per matched row, with its match and its variable.

        Parameters
        ----------
        number : int, optional
            Number of the only match wanted; None for all matches.

        Returns
        -------
        pandas.DataFrame
            ``match``, ``variable``, ``position`` (of the row in the frame) and ``index`` (its label), sorted
            by match. An empty match has no row. On Spark it is a lazy Spark frame. The columns of PARTITION
            BY and ORDER BY, which identify the row, then take the place of position and index.

        Raises
        ------
        IndexError
            When no match has this number.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": [1, 2, 1]}, index=["r", "s", "t"])
        >>> cep.match(frame, "MATCH_RECOGNIZE (PATTERN (A B) DEFINE A AS x = 1)").lineage()
           match variable  position index
        0      0        A         0     r
        1      0        B         1     s
        """
        return self._found.lineage(None if number is None else number_of(number, self.count()))

    @bounded
    def tag(self) -> Frame:
        """Return the searched frame with two extra columns, ``match`` and ``variable``; null if unmatched.

        Raises
        ------
        CepError
            When a row belongs to more than one match; use ``to_frame("all")`` then. On Spark the job fails.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": [1, 2, 5]})
        >>> cep.match(frame, "MATCH_RECOGNIZE (PATTERN (A B) DEFINE A AS x = 1)").tag()
           x  match variable
        0  1      0        A
        1  2      0        B
        2  5   <NA>     <NA>
        """
        return self._found.tag()

    # --- pictures

    def explore(self) -> Any:
        """Open the pattern explorer on the query and the frame that was searched; see `cepkit.explore`.

        Examples
        --------
        >>> matches.explore()  # doctest: +SKIP
        """
        return open_door("explore")(self._found.frame, self.query, params=self._found.bound.params)

    @show_progress("searching")
    @bounded
    def plot(self, value: str | None = None, *, partitions: int = 4, max_events: int = 5000) -> go.Figure:
        """Draw the first matches that have rows over the rows of their partitions.

        Parameters
        ----------
        value : str, optional
            Column to draw; None for the first numeric column in a condition.
        partitions : int
            The largest number of partitions shown; only partitions with matches are shown.
        max_events : int
            The largest number of rows drawn; the title says how many are left out.

        Returns
        -------
        plotly.graph_objects.Figure

        Raises
        ------
        UnsupportedQueryError
            For a Spark frame.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> found = cep.match(pd.DataFrame({"x": [1, 2]}), "MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS x = 1)")
        >>> found.plot().layout.title.text.startswith("A")
        True
        """
        return self._found.as_matches().plot(value, partitions=partitions, max_events=max_events)

    # --- reprs

    def _shown(self) -> tuple[pd.DataFrame, str]:
        """Return the first rows and what to say after them."""
        n_rows = self._found.n_rows() or 0
        more = n_rows - SHOWN
        return as_pandas(self._found.head(SHOWN)), f"… {more:,} more rows" if more > 0 else ""

    def __repr__(self) -> str:
        head = self._found.said()
        if not self._found.n_rows():
            return head
        return text_of_table(head, *self._shown())

    def _repr_html_(self) -> str:
        head = paragraphs(self._found.said())
        if not self._found.n_rows():
            return head
        table, more = self._shown()
        return html_of_table(head, table, f"{more}; <code>to_frame()</code> has them all" if more else "")
