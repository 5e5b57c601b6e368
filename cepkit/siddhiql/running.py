"""`siddhi`: run SiddhiQL on frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cepkit.errors import CepError
from cepkit.events import Frame
from cepkit.language.siddhi.parsing import parse_siddhi
from cepkit.limits import MemoryLimit, bound_memory, memory_limit_of, refuse_limit_on_spark
from cepkit.siddhiql.binding import OrderBy, bind_app
from cepkit.siddhiql.inputs import is_on_spark, source_of_stream
from cepkit.siddhiql.on_spark import SparkSiddhiResult
from cepkit.siddhiql.results import SiddhiResult


def siddhi(
    text: str,
    frames: Mapping[str, Frame] | None = None,
    /,
    *,
    order_by: OrderBy = None,
    start: Any = None,
    end: Any = None,
    memory_limit: MemoryLimit = "auto",
    **streams: Frame,
) -> SiddhiResult | SparkSiddhiResult:
    """Run SiddhiQL on frames, with the answer that Siddhi gives.

    Each keyword names a stream and gives its events. Patterns (``->``), sequences (``,``), ``every``,
    ``and``, ``or``, counts, absent events, windows, joins, partitions and chains of queries run. Without
    ``every`` a pattern has one match at most.

    The functions are those of Siddhi without a namespace, ``str:…`` and ``math:…``. A function that you
    register, as in ``@cep.pure(name="str:initials")``, wins over one of Siddhi with the same name.

    Parameters
    ----------
    text : str
        SiddhiQL: definitions of streams, queries and partitions. ``define stream`` is optional.
    frames : mapping of str to DataFrame, optional
        Streams whose names are no keywords of Python, or equal a parameter.
    order_by : str, list of str, or mapping of stream to them, optional
        The columns that order the events; the first is the clock. It has times, or milliseconds. Without it,
        a DatetimeIndex is the clock, and otherwise the rows are in order and no clause may need time.
    start : time or number, optional
        When the app starts: the waits of ``not … for`` at the start of a pattern begin then. Default: the
        time of the first event.
    end : time or number, optional
        When the app stops. Timers fire when a later event arrives, before it, and up to ``end`` after the
        last event. Default: the time of the last event.
    memory_limit : str, int or None
        The most memory that the rows of all results may take, as in `cepkit.match`. On Spark its settings
        bound the memory.
    **streams : DataFrame or table
        pandas, Arrow, polars or Spark; the name of the keyword is the name of the stream.

    Returns
    -------
    SiddhiResult or SparkSiddhiResult
        The rows of each stream that a query writes: ``to_frame(stream)``, ``count(stream)``, ``streams``.
        Those of Spark frames are lazy frames.

    Raises
    ------
    PatternSyntaxError
        If the text is not SiddhiQL, or has a clause that does not run, such as tables and rates of output.
    ColumnNotFoundError
        For an attribute, a reference or a column that does not exist.
    OrderError
        If events of two streams that meet in one query are equal in ``order_by``: Siddhi's own answer then
        depends on the order of its threads.
    PredicateError
        For unknown functions, for arguments whose types Siddhi refuses, such as ``default(price, 0)`` of a
        double, and for parameters of windows that are of another kind.
    UnsupportedQueryError
        For queries that feed themselves.
    ResultTooLargeError
        When the rows of the results take more than ``memory_limit``.
    CepError
        For a stream without a frame, and a clause of time without a clock.

    Warns
    -----
    CepWarning
        For Spark frames, if one task must run all events. The tasks share the work if all queries are in
        partitions by attributes.

    Notes
    -----
    A timer fires at its exact time, and before an event of the same time, as in Siddhi's playback mode. An
    event takes time in the number of partial matches that wait for its stream. Memory O(events + partial
    matches + rows of all results). Sums are exact and rounded once.
    Differs: int and long are one type in the arguments of a function, and so are float and double.
    Differs: a function gives null where Siddhi stops with an exception at a value, as ``str:charAt('a', 5)``.
    Source: Suhothayan et al., "Siddhi: a second look at complex event processing architectures", GCE 2011;
    the behaviour of siddhi-core 5.1.7.
    Differs: attributes of type float have 64 bits. Rows of ``all events`` are in one stream.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> trades = pd.DataFrame({"ts": [0, 400, 900, 1500], "symbol": ["A", "A", "A", "A"],
    ...     "price": [10.0, 14.0, 12.0, 20.0]})
    >>> text = '''from every e1=Trades[price >= 10] -> e2=Trades[price > e1.price * 1.3] within 1 sec
    ...     select e1.price as low, e2.price as high insert into Jumps'''
    >>> cep.siddhi(text, Trades=trades, order_by="ts").to_frame()
        low  high
    0  10.0  14.0
    1  12.0  20.0
    """
    app = parse_siddhi(text)
    given = _named_frames(frames, streams)
    memory_limit_of(memory_limit)  # raises for a value that is no limit
    on_spark = {name: is_on_spark(frame) for name, frame in given.items()}
    if any(on_spark.values()):
        if not all(on_spark.values()):
            name = next(name for name in given if not on_spark[name])
            raise CepError(f"{name} is no Spark frame, and others are; convert them all to one kind")
        refuse_limit_on_spark(memory_limit)
        return SparkSiddhiResult(text, app, given, order_by, start, end)
    read = {name: source_of_stream(name, frame) for name, frame in given.items()}
    bound = bind_app(app, {name: source for name, (source, _) in read.items()}, order_by)
    source, native = next(iter(read.values()))
    with bound_memory(memory_limit, "Narrow the conditions, or add 'within'"):
        rows = bound.run(start, end)
    return SiddhiResult(rows, bound.plan.schemas, source, native, bound.clock)


def _named_frames(frames: Mapping[str, Frame] | None, streams: Mapping[str, Frame]) -> dict[str, Frame]:
    given = {**(frames or {}), **streams}
    if not given:
        raise CepError("name the streams and give their frames, as in cep.siddhi(text, Trades=trades)")
    return given
