"""The query around MATCH_RECOGNIZE: DuckDB runs what cepkit does not, or Spark SQL on Spark frames."""

# The query of the clause's table comes first, then cepkit finds the matches, and the rest reads their rows.

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from itertools import chain, count
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from cepkit.errors import CepError, MissingDependencyError, PatternSyntaxError, PredicateError
from cepkit.events import Frame
from cepkit.frames.arrow import NOT_FOR_ARROW
from cepkit.frames.sources import collected, source_of_frame
from cepkit.language.expressions.durations import counted
from cepkit.language.expressions.parsing import check_depth
from cepkit.language.match_recognize.building import column_name
from cepkit.language.match_recognize.clauses import (
    TOO_LARGE,
    InnerClause,
    LexedText,
    check_brackets,
    first_clause,
    with_parameters,
)
from cepkit.limits import TEXT, refuse_beyond
from cepkit.results.found import FoundTable, Limit, check_exact
from cepkit.results.rows_in_memory import ROWS_ENGINE

FindRows = Callable[[Frame, str], Frame]  # the rows of a clause in a frame


def run_around(
    query: str, tables: Mapping[str, Frame], params: Mapping[str, Any], find_rows: FindRows,
    error: PatternSyntaxError | PredicateError, is_spark: bool,
) -> SelectedTable:  # fmt: skip
    """Return the result of a query whose MATCH_RECOGNIZE cepkit runs, and another engine all around it."""
    # ``error`` says why cepkit alone cannot. It is raised where the other engine cannot either.
    check_brackets(LexedText(query))
    check_depth(query)  # DuckDB would take gigabytes to read such a text
    try:
        query.encode()
    except UnicodeEncodeError as fault:  # DuckDB takes UTF-8
        message = "half of a surrogate pair is no character"
        raise PatternSyntaxError(message, query, fault.start) from None
    text, clause = query.rstrip().removesuffix(";"), first_clause(query)
    tables = {name: collected(frame) for name, frame in tables.items()}
    place = error.position if isinstance(error, PatternSyntaxError) else (error.span or (0, 0))[0]
    if clause is None or clause.has_in_brackets(place):  # these are cepkit's; no other engine can read them
        raise error
    if len(text) > TEXT:
        _refuse_long(text)
    engine = _OnSpark(tables, params) if is_spark else _InDuckDB(tables, params, error)
    with engine.opened():
        n_clauses, searched = 0, None
        while (clause := first_clause(text)) is not None:
            frame = _searched_frame(clause, tables)
            frame = engine.run(clause.query_of_table) if frame is None else frame
            searched = frame if searched is None else searched
            n_clauses += 1
            new_table = f"match_recognize_{n_clauses}"
            engine.add(new_table, find_rows(frame, clause.body.text))
            text = clause.replaced_by(new_table)
        rows = engine.run(text)
    return SelectedTable(query, next(iter(tables.values()), searched), rows, not is_spark)


def _searched_frame(clause: InnerClause, tables: Mapping[str, Frame]) -> Frame | None:
    """Return the given table that a clause names; None if it reads a query, or a name of WITH."""
    name = (clause.name or "").lower()
    if name in clause.entry_names:
        return None
    return next((frame for table, frame in tables.items() if table.lower() == name), None)


def _refuse_long(text: str) -> None:
    """Raise if the text around the clauses is long. DuckDB needs seconds for half a million characters."""
    while (clause := first_clause(text)) is not None:
        text = clause.replaced_by("t")
    cure = "Give long lists of constants as a table, and join it"
    refuse_beyond(TEXT, len(text), "characters around MATCH_RECOGNIZE", cure)


class _InDuckDB:
    """DuckDB in memory, with frames as tables: without files, extensions and Python's variables."""

    def __init__(self, tables: Mapping[str, Frame], params: Mapping[str, Any], error: CepError):
        text = str(error)
        self._refusal = None if TOO_LARGE in text and not text.startswith("expected") else error
        try:
            import duckdb
        except ImportError:
            raise self._refusal or MissingDependencyError(f"{error}\n{_WITHOUT_DUCKDB}") from None
        self._duckdb, self._params = duckdb, params
        self._tables, self._added = dict(tables), set[str]()
        types = (kind for frame in tables.values() for kind in source_of_frame(frame)[0].schema.values())
        zone = next((kind.timezone for kind in types if kind.timezone), "UTC")
        self._connection = duckdb.connect(config={"enable_external_access": "false"})
        for setting, value in (
            ("TimeZone", zone), ("python_enable_replacements", "false"), ("lock_configuration", "true"),
        ):  # fmt: skip
            try:
                self._connection.execute(f"SET {setting} = '{value}'")
            except duckdb.Error:  # no name of a zone, such as +01:00
                self._connection.execute(f"SET {setting} = 'UTC'")

    def opened(self) -> AbstractContextManager:
        return self._connection

    def add(self, name: str, frame: Frame) -> None:
        self._tables[name] = frame

    def run(self, text: str) -> pa.Table:
        """Return the rows of a SELECT."""
        for name in self._tables.keys() - self._added:
            if name.lower() in _names_in(text):
                self._connection.register(name, _as_table(name, self._tables[name]))
                self._added.add(name)
        text, values = with_parameters(text, self._params, "${}".format)
        try:
            statements = self._connection.extract_statements(text)
            if [statement.type.name for statement in statements] != ["SELECT"]:
                raise self._refusal or CepError("a text of cep.sql is one SELECT")
            rows = self._connection.sql(text, params=values) if values else self._connection.sql(text)
            return _plain_table(pa.table(rows.arrow()))
        except self._duckdb.Error as mistake:
            reason = "; ".join(line.strip() for line in str(mistake).splitlines()[:2] if line.strip())
            raise self._refusal or CepError(
                f"DuckDB cannot run the query around MATCH_RECOGNIZE: {reason}"
            ) from mistake


_WITHOUT_DUCKDB = (
    "DuckDB runs such queries around MATCH_RECOGNIZE: pip install 'cepkit[duckdb]'. Without it, the query in "
    "FROM or WITH comes first: compute it, give it to cep.sql as a table, and give the rows of cep.sql to "
    "the rest of the query"
)


def _names_in(text: str) -> set[str]:
    """Return the names in a text, in lower case."""
    names = [token[0] for token in LexedText(text).tokens if token.lastgroup in ("word", "quoted")]
    return {column_name(name).lower() for name in names}


def _as_table(name: str, frame: Frame) -> pa.Table:
    """Return a frame as an Arrow table, which DuckDB reads."""
    source, _ = source_of_frame(frame)
    rows = np.arange(source.n_rows)
    try:
        return pa.table({column: source.arrow(column, rows) for column in source.schema})
    except NOT_FOR_ARROW as error:
        raise CepError(f"table {name!r}: Arrow cannot hold a column: {error}") from error


def _plain_table(table: pa.Table) -> pa.Table:
    """Return a table with whole numbers and durations where DuckDB has 128 bits and intervals."""
    names: list[str] = []
    for name in table.column_names:
        names.append(next(n for n in chain([name], (f"{name}_{i}" for i in count(1))) if n not in names))
    table = table.rename_columns(names)
    for i, column in enumerate(table.columns):
        if column.type == pa.decimal128(38, 0):
            try:
                table = table.set_column(i, table.field(i).name, column.cast(pa.int64()))
            except pa.ArrowInvalid:
                continue
        elif pa.types.is_interval(column.type):
            parts = column.to_pylist()
            if not any(part is not None and part.months for part in parts):
                ticks = [
                    None if part is None else part.days * 86_400_000_000 + part.nanoseconds // 1000
                    for part in parts
                ]
                table = table.set_column(i, table.field(i).name, pa.array(ticks, pa.duration("us")))
    return table


class _OnSpark:
    """Spark SQL with frames as tables: without files, scripts and Java's functions."""

    def __init__(self, tables: Mapping[str, Frame], params: Mapping[str, Any]):
        self._tables, self._params = dict(tables), params
        self._session = next(iter(tables.values())).sparkSession

    def opened(self) -> AbstractContextManager:
        """Return a context in which Spark reads no files by name, and shows times in UTC."""
        from cepkit.pipelines.spark_session import setting

        opened = ExitStack()
        for name, value in (("spark.sql.runSQLOnFiles", "false"), ("spark.sql.session.timeZone", "UTC")):
            opened.enter_context(setting(self._session, name, value))
        return opened

    def add(self, name: str, frame: Frame) -> None:
        self._tables[name] = frame

    def run(self, text: str) -> Frame:
        """Return the rows of a SELECT as a lazy frame."""
        from pyspark.errors import PySparkException

        _check_spark_text(text)
        names = [name for name in self._tables if name.lower() in _names_in(text)]
        entries = ", ".join(
            f"`{name.replace('`', '``')}` AS (SELECT * FROM {{t{i}}})" for i, name in enumerate(names)
        )
        inner = text.replace("{", "{{").replace("}", "}}")
        text = f"WITH {entries} SELECT * FROM ({inner})" if names else inner
        frames = {f"t{i}": self._tables[name] for i, name in enumerate(names)}
        try:
            return self._session.sql(text, args=dict(self._params) or None, **frames)
        except PySparkException as mistake:
            reason = str(mistake).strip().splitlines()[0]
            raise CepError(f"Spark cannot run the query around MATCH_RECOGNIZE: {reason}") from mistake


def _check_spark_text(text: str) -> None:
    """Raise for what is no SELECT, and for what starts programs."""
    words = [token[0].upper() for token in LexedText(text).tokens]
    refused = re.search(r"[\\$]", text)  # in them, the quotes of Spark are others than here
    refused = refused and refused[0]
    if words[:1] not in (["SELECT"], ["WITH"], ["("]):
        refused = words[0] if words else "an empty text"
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "INSERT" or (word == "USING" and following != "("):  # USING 'script'
            refused = word
        if word.strip("`") in ("REFLECT", "JAVA_METHOD", "TRY_REFLECT") and following == "(":
            refused = word
    if refused:
        raise CepError(f"{refused} does not run around MATCH_RECOGNIZE on Spark; write a SELECT of tables")


class SelectedTable(FoundTable):
    """The rows of a query around MATCH_RECOGNIZE."""

    engine = ROWS_ENGINE
    refusals: ClassVar = {
        "": "the result is that of a whole query, and has rows only; use to_frame() or head()"
    }

    def __init__(self, text: str, frame: Frame, rows: Frame, is_in_memory: bool):
        self.query, self.frame, self._rows, self.is_in_memory = text, frame, rows, is_in_memory

    def count(self, method: str = "exact", samples: int = 10_000, seed: int = 0) -> int:
        check_exact(method, "the rows of a query are counted exactly")
        return len(self._rows) if self.is_in_memory else self._rows.count()

    def to_frame(self, rows: str = "one", limit: Limit = "auto", *, in_order: bool = True) -> Frame:
        self.refuse_matched(rows)
        return self._native(self._rows) if self.is_in_memory else self._rows

    def head(self, n: int) -> Frame:
        return self._native(self._rows.slice(0, n)) if self.is_in_memory else self._rows.limit(n)

    def _native(self, table: pa.Table) -> Frame:
        """Return rows as the kind of frame that came in."""
        source, native = source_of_frame(self.frame)
        return native(source.result(dict(zip(table.column_names, table.columns, strict=True))))

    def text(self) -> str:
        if not self.is_in_memory:
            return f"the rows of a query around MATCH_RECOGNIZE: {self._rows}\nnothing has run yet"
        n = self.count()
        return f"{counted(n, 'row')} of a query around MATCH_RECOGNIZE\n{self.head(10)}"
