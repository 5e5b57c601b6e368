"""Run a SELECT with MATCH_RECOGNIZE on frames, each a table with a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cepkit.api.searching import spark_module
from cepkit.errors import CepError, PatternSyntaxError, PredicateError, nearest
from cepkit.events import Frame, Source
from cepkit.frames.arrow import repeated_column
from cepkit.frames.sources import source_of_frame, wishes_of_rows, with_types
from cepkit.language.expressions import trees as ex
from cepkit.limits import MemoryLimit, bound_memory, memory_limit_of, refuse_limit_on_spark

if TYPE_CHECKING:
    from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, WindowedRows
    from cepkit.results.matches import Matches, SparkMatches
    from cepkit.streaming.spark_results import SparkStream


def sql(
    query: str, /, *, params: Mapping[str, Any] | None = None, complete_until: Any = None,
    memory_limit: MemoryLimit = "auto", **tables: Frame,
) -> Matches | SparkMatches | SparkStream:  # fmt: skip
    """Return the result of a SELECT with a row pattern; each keyword names a table.

    Parameters
    ----------
    query : str
        ``SELECT … FROM t MATCH_RECOGNIZE ( … ) AS m WHERE … ORDER BY … LIMIT … OFFSET …``, or
        ``SELECT …, m OVER w FROM t WHERE … WINDOW w AS ( … PATTERN … ) ORDER BY … LIMIT …``. A semicolon may
        end it, and a schema may qualify the table. AS before a name is optional. A computed column without a
        name has its text as its name: ``SELECT m.a+b`` gives the column ``a + b``. ORDER BY takes columns,
        expressions, and places in the list such as ``ORDER BY 2``. FETCH FIRST n ROWS ONLY is LIMIT. What
        else may be around the clause runs in DuckDB, if it is installed, and in Spark SQL for Spark frames:
        WITH, a query in FROM, JOIN, GROUP BY, window functions, QUALIFY. The query in FROM comes first, then
        the clause, and its rows are a table for the rest. DuckDB and Spark then see no files.
    params : mapping, optional
        Values of the parameters, written ``:name``.
    complete_until : time, number or "end", optional
        The data have all rows up to this time, as in `cepkit.match`. ``WITH TIMED OUT MATCHES`` reports the
        partial matches whose WITHIN is over then; ``undecided()`` has the others. Default: the last time in
        the data, of all partitions.
    memory_limit : str, int or None
        The most memory that the matches and the rows of the result may take, as in `cepkit.match`. On Spark
        its settings bound the memory.
    **tables
        Frames by name: pandas, polars and Spark DataFrames, Arrow tables, DuckDB relations, and any object
        with the Arrow stream protocol. Names may differ in case. For a name that is not a Python name, write
        ``**{"my trades": frame}``.

    Returns
    -------
    Matches, SparkMatches or SparkStream
        A Spark frame gives `SparkMatches`. A streaming Spark frame gives `SparkStream`, which
        ``writeStream`` writes. ``to_frame()`` gives the rows as the kind of frame that came in, or an Arrow
        table for a DuckDB relation. Without ORDER BY the rows of MATCH_RECOGNIZE are sorted by partition, in
        the order of their first rows, and then by match. The rows of a WINDOW have the order of the frame. A
        row whose match is empty or absent, and a row that a match before it skips, has nulls, and COUNT is 0.
        On Spark the result is lazy, one task searches whole partitions, and ORDER BY in the clause or the
        WINDOW must sort all rows of a partition.

    Raises
    ------
    PatternSyntaxError
        For text that cannot be read, with its place. The error for a clause that does not run names it.
    CepError
        A subclass, for a table or column that does not exist (with the nearest name), and for what a stream
        or a Spark frame does not run (with the clause).

    Notes
    -----
    Time O(rows) where conditions depend on the row and on rows a fixed distance away; a work budget stops
    other queries. Memory O(rows + matched rows); matched rows beyond half of the free memory are refused.
    Ctrl-C ends a run between partitions.
    Source: ISO/IEC 9075-2:2016, features R010 and R020; ISO/IEC TR 19075-5.
    Differs: a division of integers gives a float. There is no type DATE: ``DATE '2024-01-31'`` is a time at
    midnight. An interval has days and seconds, but no months or years. An interval times a fraction, or
    divided by a number, is rounded to a microsecond, or to a nanosecond where the column has them. LOG with
    one argument is the natural logarithm. Functions mean what they mean in Trino: DATE_DIFF counts whole
    units, SUBSTRING counts from the end below 0, and the day of the week is 1 on Mondays. TIMESTAMPDIFF
    counts whole units as in Flink, and DATEDIFF the units that begin, as in Snowflake. CAST gives null where
    TRY_CAST does. A DECIMAL is a float, and a CHAR is not filled with blanks. In an expression of the ORDER
    BY of the SELECT, a column of its list comes before a column of the clause with the same name. FETCH …
    WITH TIES and PERCENT do not run. Around the clause, DuckDB's or Spark's rules hold; ``count()`` is then
    the number of rows.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"t": range(6), "price": [5, 3, 2, 4, 1, 6]})
    >>> cep.sql('''
    ...     SELECT m.bottom, m.price - m.bottom AS gain
    ...     FROM walk MATCH_RECOGNIZE (
    ...         ORDER BY t
    ...         MEASURES LAST(down.price) AS bottom, up.price AS price
    ...         PATTERN (down+ up)
    ...         DEFINE down AS price < PREV(price), up AS price > PREV(price)) AS m
    ...     WHERE m.price > 3;''', walk=walk).to_frame()
       bottom  gain
    0       2     2
    1       1     5
    """
    from cepkit.language.match_recognize.parsing import parse_match_recognize
    from cepkit.language.match_recognize.query import SelectedRows, WindowedRows

    try:
        parsed = parse_match_recognize(query)
    except (PatternSyntaxError, PredicateError) as error:
        return _run_around(query, tables, params or {}, memory_limit, complete_until, error)
    if not isinstance(parsed, SelectedRows | WindowedRows):
        raise PatternSyntaxError(
            "the text names no table; write SELECT * FROM t before MATCH_RECOGNIZE, or call "
            "df.cep.match(text)",
            query,
            0,
        )
    frame = _table(parsed.table, query, tables)
    memory_limit_of(memory_limit)  # raises for a value that is no limit
    if spark_module(frame):
        refuse_limit_on_spark(memory_limit)
        if frame.isStreaming:
            from cepkit.streaming.spark_binding import row_patterns_of_stream

            return row_patterns_of_stream(frame, query, params, complete_until)
    try:
        return match_rows(frame, parsed, params, memory_limit, complete_until)
    except PredicateError as error:  # a function of the SELECT that DuckDB may have
        if ": no function " not in str(error):
            raise
        return _run_around(query, tables, params or {}, memory_limit, complete_until, error)


def _run_around(
    query: str, tables: Mapping[str, Frame], params: Mapping[str, Any], memory_limit: MemoryLimit,
    complete_until: Any, error: PatternSyntaxError | PredicateError,
) -> Matches | SparkMatches:  # fmt: skip
    """Return the result of a query that DuckDB or Spark SQL runs around MATCH_RECOGNIZE."""
    from cepkit.language.match_recognize.parsing import parse_match_recognize
    from cepkit.results.matches import Matches, SparkMatches
    from cepkit.results.rows_around import run_around

    memory_limit_of(memory_limit)  # raises for a value that is no limit
    on_spark = [name for name, frame in tables.items() if spark_module(frame)]
    if on_spark and (len(on_spark) < len(tables) or any(frame.isStreaming for frame in tables.values())):
        raise CepError(
            "a query around MATCH_RECOGNIZE takes either finished Spark frames or frames in memory, not both"
        )

    def find_rows(frame: Frame, clause: str) -> Frame:
        parsed: Any = parse_match_recognize(clause)
        used = {name: value for name, value in params.items() if f":{name}" in clause}
        return match_rows(frame, parsed, used, memory_limit, complete_until).to_frame()

    found = run_around(query, tables, params, find_rows, error, bool(on_spark))
    return SparkMatches(found) if on_spark else Matches(found)


def match_rows(
    frame: Frame, query: RowPatternQuery | SelectedRows | WindowedRows, params: Mapping[str, Any] | None,
    memory_limit: MemoryLimit = "auto", complete_until: Any = None,
) -> Any:  # fmt: skip
    """Return the matches of a query of MATCH_RECOGNIZE in a frame, or its rows with a WINDOW."""
    from cepkit.language.match_recognize.query import RowPatternQuery, WindowedRows
    from cepkit.results.matches import Matches, SparkMatches

    if spark_module(frame):
        from cepkit.results.spark_row_patterns import RowsOnSpark, RowWindowOnSpark

        if isinstance(query, WindowedRows):
            return SparkMatches(RowWindowOnSpark(frame, query, params))
        return SparkMatches(RowsOnSpark(frame, query, params, complete_until))
    from cepkit.engines.match_recognize.bound import bind_row_query, bind_window
    from cepkit.results.rows_in_memory import RowsInMemory, RowWindowInMemory

    source, native = source_of_frame(frame)
    source = with_types(source, wishes_of_rows(query, params or {}))
    if isinstance(query, WindowedRows):
        with bound_memory(memory_limit, RowWindowInMemory.cure):
            window = bind_window(query, source.schema, params)
            return Matches(RowWindowInMemory(window, source, native, memory_limit))
    _refuse_repeated(source, query if isinstance(query, RowPatternQuery) else query.rows)
    with bound_memory(memory_limit, RowsInMemory.cure):
        bound = bind_row_query(query, source.schema, params, complete_until)
        return Matches(RowsInMemory(bound, source, native, memory_limit))


def _refuse_repeated(source: Source, rows: RowPatternQuery) -> None:
    """Raise if a condition or a measure names a column that the frame has several times."""
    trees = [tree for _, tree in (*rows.define, *rows.measures)] if source.duplicates else []
    nodes = (node for tree in trees for node in tree.walk(literals=False))
    for node in nodes:
        if isinstance(node, ex.Attribute | ex.Reference) and node.name in source.duplicates:
            raise repeated_column(node.name)


def _table(name: str, query: str, tables: Mapping[str, Frame]) -> Frame:
    """Return the frame with this name. A name that differs in case is found if it is the only one."""
    if name in tables:
        return tables[name]
    alike = [table for table in tables if table.lower() == name.lower()]
    if len(alike) == 1:
        return tables[alike[0]]
    if not tables:
        raise CepError(f"FROM {name}: no table is given; write cep.sql(text, {_keyword(name)})")
    hint = nearest(name, tables)
    raise CepError(
        f"FROM {name}: no such table.{hint} Tables: {list(tables)}; write {_keyword(name)} for one more"
    )


def _keyword(name: str) -> str:
    return f"{name}=frame" if name.isidentifier() else f"**{{{name!r}: frame}}"
