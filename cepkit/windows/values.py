"""`Window` and `Join`: operators on events as values, checked as far as possible without columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from cepkit.errors import CepError, PredicateError, nearest, whole_number
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import positive_duration
from cepkit.language.expressions.parsing import check_built, parse_expression
from cepkit.language.expressions.printing import print_expression
from cepkit.language.expressions.vocabulary import OF_TRUTHS, SUMMARIES
from cepkit.language.query_parts import Duration, Query, as_columns, as_mapping, refuse_parameters
from cepkit.limits import ENTRIES, LENGTH, refuse_beyond
from cepkit.values import dataclass, field

ARRIVAL, ALL = "arrival", "all"
STATUS, EMITTED = "status", "emitted"  # columns that emit="all" adds
SIDES = ("left", "right")
HOW = ("inner", "left", "right", "outer")
TRIGGERS = ("both", *SIDES)
_REFUSED = ("collect",)


class _Operator(Query):
    """What windows and joins share: expressions with their texts."""

    __slots__ = ()

    measures = None
    partition_by = ()
    where: Any
    params: Any
    functions: Any

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _parse(self, role: str, given: object, sources: dict[str, str], *, references: bool) -> ex.Expression:
        """Return the tree of an expression given as text or as a tree, and put its text into `sources`."""
        if not isinstance(given, str | ex.Expression):
            raise PredicateError(f"{role}: expected text or an expression, got {type(given).__name__}")
        if isinstance(given, ex.Expression):
            check_built(given, ex.Expression.children, role)
        text = given if isinstance(given, str) else print_expression(given)
        sources[role] = text
        return parse_expression(text, role=role, references=references)

    def _condition(self, sources: dict[str, str], *, references: bool) -> ex.Expression | None:
        where = self.where
        return None if where is None else self._parse("where", where, sources, references=references)

    def _parse_all(
        self, argument: str, noun: str, given: Any, sources: dict[str, str], *, references: bool
    ) -> tuple[tuple[str, ex.Expression], ...]:
        pairs = tuple(given.items()) if isinstance(given, Mapping) else given
        if not isinstance(given, Mapping | tuple) or not all(
            isinstance(pair, tuple) and len(pair) == 2 for pair in pairs
        ):
            raise CepError(
                f"{argument}: expected a mapping of names to expressions, as {{'total': 'sum(price)'}}, got "
                f"{given!r}"
            )
        refuse_beyond(ENTRIES, len(given), argument, "Compute them in several calls")
        trees: dict[str, ex.Expression] = {}
        spelling_of: dict[str, str] = {}
        for name, text in pairs:
            if not isinstance(name, str) or not name:
                raise CepError(f"{argument}: the name of a column must be text, got {name!r}")
            twin = spelling_of.setdefault(name.lower(), name)
            if twin != name:
                raise CepError(f"{argument}: {twin!r} and {name!r} differ only in case; rename one")
            role = f"{noun} {name!r}"
            trees[name] = self._parse(role, text, sources, references=references)
        return tuple(trees.items())

    def _fault(self, role: str, node: ex.Expression, message: str) -> PredicateError:
        return PredicateError(f"{role}: {message}\n{self.underlined(role, node)}")

    def _refuse_unknown(self) -> None:
        """Raise for aggregates that no window has, and for rows that a window does not keep in order."""
        for role, tree in self.trees():
            nodes = [*tree.walk(literals=False)]
            below = (child for node in nodes if isinstance(node, ex.Aggregate) for child in node.children())
            inside = {id(part) for child in below for part in child.walk(literals=False)}
            for node in nodes:
                reason = _why_refused(role, node, is_inside=id(node) in inside)
                if reason is not None:
                    raise self._fault(role, node, reason)

    def _complete(self, sources: dict[str, str], **values: Any) -> None:
        """Set the values that were read, and what both operators have."""
        if isinstance(self.params, tuple):  # those of a value that is made again
            self._set("params", dict(self.params))
        params = tuple(as_mapping("params", self.params).items())
        for name, value in (values | {"params": params, "sources": tuple(sources.items())}).items():
            self._set(name, value)
        self._set("functions", self.functions or self.functions_called())

    def functions_called(self) -> tuple[tuple[str, fn.RegisteredFunction], ...]:
        """Return the user functions that the expressions call and that are registered now."""
        called = {
            node.function: fn.registered_function(node.function)
            for _, tree in self.trees()
            for node in tree.walk(literals=False)
            if isinstance(node, ex.Call) and fn.is_registered(node.function)
        }
        return tuple(called.items())


@dataclass(frozen=True, repr=False)
class Window(_Operator):
    """A window over events with its running aggregates, as a value.

    Parameters
    ----------
    aggregates : mapping of str to str
        Columns by name: ``{"total": "sum(price)", "above": "price - avg(price)"}``. A column outside of an
        aggregate is the value of the row itself.
    time : str, timedelta or int, optional
        A row stays for this time, by the first column of ``order_by``: the window holds the rows with
        ``ts > now - time``.
    length : int, optional
        The window holds the last ``length`` rows, of all groups together.
    tumbling : str, timedelta, int or bool
        Batches instead of a sliding window: a duration, or a number of rows. ``tumbling=True`` makes
        batches of ``time`` or ``length``. Batches of time begin at multiples of their duration.
    group_by : str or list of str, optional
        Columns; the aggregates of a row range over the rows of its group in the window.
    where : str, optional
        Only rows for which this is true enter the window and the result.
    order_by : str or list of str, optional
        Columns; the first is the clock.
    emit : str
        ``"arrival"``: a row for each row that arrives. ``"all"``: also a row for each row that leaves.
    params : mapping of str to value, optional
        Values of ``:name`` in the expressions.

    Raises
    ------
    CepError
        For both ``time`` and ``length``, neither of them, or a window of 0.

    Examples
    --------
    >>> import cepkit as cep
    >>> cep.Window({"total": "sum(price)"}, time="15 s", group_by="symbol")
    Window({'total': 'sum(price)'}, time='15 s', group_by='symbol')
    """

    aggregates: Any = ()
    time: Duration | None = field(default=None, kw_only=True)
    length: int | None = field(default=None, kw_only=True)
    tumbling: Any = field(default=False, kw_only=True)
    group_by: Any = field(default=(), kw_only=True)
    where: Any = field(default=None, kw_only=True)
    order_by: Any = field(default=(), kw_only=True)
    emit: str = field(default=ARRIVAL, kw_only=True)
    params: Any = field(default=(), kw_only=True)
    functions: Any = field(default=(), kw_only=True, compare=False)
    sources: Any = field(default=(), kw_only=True, compare=False)

    def __post_init__(self) -> None:
        self._read_size()
        sources: dict[str, str] = {}  # by the role of a text; reading the texts fills it
        texts = self.aggregates if self.aggregates is not None else ()
        aggregates = self._parse_all("aggregates", "aggregate", texts, sources, references=False)
        where = self._condition(sources, references=False)
        self._complete(
            sources, aggregates=aggregates, where=where, group_by=as_columns("group_by", self.group_by),
            order_by=as_columns("order_by", self.order_by),
        )  # fmt: skip
        if not isinstance(self.emit, str) or self.emit not in (ARRIVAL, ALL):
            raise CepError(
                f"emit={self.emit!r}: write 'arrival' (a row for each row that arrives) or 'all' (also for "
                "each row that leaves)"
            )
        self._refuse_unknown()
        refuse_parameters(self)

    def _read_size(self) -> None:
        """Read the size of the window, so that either ``time`` or ``length`` has it."""
        size_names = [name for name in ("time", "length") if getattr(self, name) is not None]
        tumbling = self.tumbling
        if tumbling is None:
            tumbling = False
        if not isinstance(tumbling, bool):
            if size_names:
                raise CepError(
                    f"{size_names[0]} and tumbling: a window has one size; write tumbling={tumbling!r} "
                    f"alone, or {size_names[0]}={getattr(self, size_names[0])!r} with tumbling=True"
                )
            size_names = ["time" if isinstance(tumbling, str | timedelta) else "length"]
            self._set(size_names[0], _positive("tumbling", tumbling))
            tumbling = True
        if len(size_names) > 1:
            raise CepError(
                f"time={self.time!r} and length={self.length!r}: a window has one size; leave one out, or "
                "use two windows one after the other"
            )
        if not size_names:
            raise CepError(
                "a window needs a size: time='15 s', length=10, or tumbling='1 min' for batches; it has none"
            )
        self._set(size_names[0], _positive(size_names[0], getattr(self, size_names[0])))
        self._set("tumbling", tumbling)

    def trees(self) -> Iterator[tuple[str, ex.Expression]]:
        if self.where is not None:
            yield "where", self.where
        yield from ((f"aggregate {name!r}", tree) for name, tree in self.aggregates)

    def added_columns(self, *, is_timed: bool) -> tuple[str, ...]:
        """Return the names of the columns that the window adds to those of its input."""
        names = tuple(name for name, _ in self.aggregates)
        if self.emit == ARRIVAL:
            return names
        return (*names, STATUS, EMITTED) if is_timed else (*names, STATUS)

    def __repr__(self) -> str:
        size = "time" if self.time is not None else "length"
        arguments = [repr(_texts(self.aggregates))] if self.aggregates else []
        arguments.append(f"{size}={getattr(self, size)!r}")
        arguments += _set_arguments(
            tumbling=self.tumbling, group_by=_names_or_name(self.group_by),
            order_by=_names_or_name(self.order_by), where=None if self.where is None else str(self.where),
            emit=None if self.emit == ARRIVAL else self.emit, params=dict(self.params),
        )  # fmt: skip
        return f"Window({', '.join(arguments)})"


@dataclass(frozen=True, repr=False)
class Join(_Operator):
    """A join of two streams through a window on each side, as a value.

    Parameters
    ----------
    left, right : Window or None
        Their size says how long a row of this side waits for partners, and their ``where`` which rows take
        part. None: rows do not wait, they only meet rows that wait on the other side.
    on : str, list of str or mapping of str to str, optional
        Columns that are equal on both sides; a mapping has names of the left and of the right side.
    where : str, optional
        A condition on a pair, as in ``"left.price < right.price"``.
    how : str
        ``"inner"``, ``"left"``, ``"right"`` or ``"outer"``: the sides whose rows are in the result when they
        find no partner on arrival.
    trigger : str
        ``"both"``, ``"left"`` or ``"right"``: the sides whose arrivals create pairs.
    measures : mapping of str to str, optional
        Running aggregates over the pairs that are alive, as ``{"n": "count()", "x": "sum(left.price)"}``. A
        pair is alive while both of its rows are in their windows.
    order_by : str or list of two str, optional
        The clock of both sides, or of the left and of the right side.
    params : mapping of str to value, optional
        Values of ``:name`` in the expressions.

    Examples
    --------
    >>> import cepkit as cep
    >>> cep.Join(cep.Window(length=20), cep.Window(time="1 min"), on="symbol", order_by="ts")
    Join(left=Window(length=20), right=Window(time='1 min'), on='symbol', order_by='ts')
    """

    left: Window | None = None
    right: Window | None = None
    on: Any = field(default=(), kw_only=True)
    where: Any = field(default=None, kw_only=True)
    how: str = field(default="inner", kw_only=True)
    trigger: str = field(default="both", kw_only=True)
    measures: Any = field(default=(), kw_only=True)
    order_by: Any = field(default=(), kw_only=True)
    params: Any = field(default=(), kw_only=True)
    functions: Any = field(default=(), kw_only=True, compare=False)
    sources: Any = field(default=(), kw_only=True, compare=False)

    def __post_init__(self) -> None:
        for name in SIDES:
            side = getattr(self, name)
            if side is not None and not isinstance(side, Window):
                raise CepError(f"{name}={side!r}: expected a window, as in {name}=cep.Window(length=20)")
            if side is not None and (side.aggregates or side.emit != ARRIVAL or side.group_by):
                raise CepError(
                    f"{name}: the window of a join only keeps rows, so it takes no aggregates, group_by or "
                    "emit; give running aggregates of pairs as measures of the join"
                )
        if self.left is None and self.right is None:
            raise CepError("a join needs a window on one side at least, as in left=cep.Window(length=20)")
        sources: dict[str, str] = {}
        measures = self.measures if self.measures is not None else ()
        self._complete(
            sources, measures=self._parse_all("measures", "measure", measures, sources, references=True),
            where=self._condition(sources, references=True), on=_pairs_of_columns(self.on),
            order_by=_clocks(self.order_by),
        )  # fmt: skip
        for name, choices in (("how", HOW), ("trigger", TRIGGERS)):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in choices:
                raise CepError(
                    f"{name}={value!r}: expected one of {list(choices)}.{nearest(str(value), choices)}"
                )
        self._refuse_unknown()
        self._check_sides()
        refuse_parameters(self)

    def _check_sides(self) -> None:
        running = ("sum", "count", "avg", *OF_TRUTHS)
        for role, tree in self.trees():
            for node in tree.walk(literals=False):
                if isinstance(node, ex.Reference) and node.variable not in SIDES:
                    message = f"{node.variable!r} is no side of the join"
                    raise self._fault(role, node, f"{message}; write left.{node.name} or right.{node.name}")
                if isinstance(node, ex.Reference) and (node.index is not None or node.name is None):
                    message = f"a side of a join has one row; write {node.variable}.column"
                    raise self._fault(role, node, message)
                if isinstance(node, ex.Aggregate) and node.function not in running:
                    raise self._fault(
                        role, node,
                        "pairs leave in any order, so their running aggregates are sum, count, avg, "
                        f"{' and '.join(OF_TRUTHS)}, not {node.function}; a window after the join has all",
                    )  # fmt: skip

    def trees(self) -> Iterator[tuple[str, ex.Expression]]:
        if self.where is not None:
            yield "where", self.where
        yield from ((f"measure {name!r}", tree) for name, tree in self.measures)

    def __repr__(self) -> str:
        arguments = [f"{name}={getattr(self, name)!r}" for name in SIDES]
        has_shared_names = all(left == right for left, right in self.on)
        arguments += _set_arguments(
            on=_names_or_name([left for left, _ in self.on]) if has_shared_names else dict(self.on),
            where=None if self.where is None else str(self.where),
            how=None if self.how == "inner" else self.how,
            trigger=None if self.trigger == "both" else self.trigger, measures=_texts(self.measures),
            order_by=_names_or_name([*dict.fromkeys(self.order_by)]), params=dict(self.params),
        )  # fmt: skip
        return f"Join({', '.join(arguments)})"


Operator = Window | Join


def _no_aggregate(name: str) -> str:
    others = ", ".join(["sum", "count", "avg", "min", "max", *SUMMARIES, "first", "last"])
    return f"a window has no {name}(); it has {others} and delta"


def _positive(name: str, size: Any) -> Any:
    if name == "length" or (name == "tumbling" and not isinstance(size, str | timedelta)):
        return whole_number(name, size, 1, LENGTH)
    return positive_duration(name, size, "; a window of 0 holds no row")


def _pairs_of_columns(given: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(given, Mapping):
        names = [as_columns("on", side) for side in (given.keys(), given.values())]
        return tuple(zip(*names, strict=True))
    if isinstance(given, tuple) and given and all(isinstance(pair, tuple) for pair in given):
        return given
    return tuple((name, name) for name in as_columns("on", given))


def _why_refused(role: str, node: ex.Expression, *, is_inside: bool) -> str | None:
    """Return why a node cannot be in this clause, or None; ``is_inside`` says: inside an aggregate."""
    if isinstance(node, ex.Previous):
        return "prev() belongs to patterns; a window has first(x) and last(x)"
    if not isinstance(node, ex.Aggregate):
        return None
    if role == "where":
        return (
            f"{node} ranges over a window, and where decides before a row enters it; use the result of the "
            "window instead"
        )
    if node.function in _REFUSED:
        return _no_aggregate(node.function)
    if is_inside:
        return f"{node} is inside another aggregate; compute it first, in a window before this one"
    return None


def _clocks(given: Any) -> tuple[str, ...]:
    """Return the clocks of the left and the right side; none for None."""
    if given is None:
        return ()
    if isinstance(given, str):
        return (given, given)
    names = tuple(given) if isinstance(given, list | tuple) else (given,)
    for name in names:
        if not isinstance(name, str):
            raise CepError(f"order_by: expected names of columns as text, got {name!r}")
    if len(names) == 1:
        return (names[0], names[0])
    if len(names) not in (0, 2):
        raise CepError(
            f"order_by={list(names)}: a join has one clock for both sides, or one for the left and one for "
            "the right side"
        )
    return names


def _texts(trees: Iterable[tuple[str, ex.Expression]]) -> dict[str, str]:
    return {name: str(tree) for name, tree in trees}


def _names_or_name(names: Sequence[str]) -> list[str] | str:
    """Return names as a user writes them: a single one without a list."""
    return names[0] if len(names) == 1 else [*names]


def _set_arguments(**values: Any) -> list[str]:
    """Return the text of each argument that is not empty or false."""
    return [f"{name}={value!r}" for name, value in values.items() if value]


def window_of(given: Any, **settings: Any) -> Window:
    """Return the window of a call: a `Window`, or aggregates with their settings."""
    if not isinstance(given, Window):
        return Window(given, **settings)
    defaults = Window(length=1)
    if used := [
        name for name, value in settings.items() if value is not None and value != getattr(defaults, name)
    ]:
        raise CepError(
            f"{used[0]}={settings[used[0]]!r}: the window {given} has its own settings; change it there"
        )
    return given
