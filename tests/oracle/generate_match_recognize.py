"""Random queries of MATCH_RECOGNIZE, as trees of the language, and random rows for them."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.query import RowPatternQuery, SortKey, WindowedRows

VARIABLES = ("A", "B", "C", "D")
COLUMNS = ("x", "y")


def random_query(random: Random, *, depth: int = 3, row_local: bool | None = None) -> RowPatternQuery:
    """Return a random query over columns ``k`` (key), ``t`` (time, without ties), ``x`` and ``y``.

    ``row_local`` says whether conditions look only at the row, and at rows a fixed distance away.
    """
    pattern = random_pattern(random, depth)
    primary = [*dict.fromkeys(variable.name for variable in pt.variables(pattern))]
    subset = {}
    if len(primary) > 1 and random.random() < 0.4:
        subset["U"] = tuple(random.sample(primary, random.randint(1, len(primary))))
    if not primary:
        return random_query(random, depth=depth, row_local=row_local)
    names = [*primary, *subset]
    if row_local is None:
        row_local = random.random() < 0.4
    define = [
        (name, random_condition(random, name, names, row_local)) for name in primary if random.random() < 0.85
    ]
    define = define or [(primary[0], ex.Literal(True))]  # the text has one definition at least
    measures = [(f"m{i}", random_measure(random, names)) for i in range(random.randint(1, 4))]
    rows = random.choice(["one", "all", "all_omit_empty", "all_with_unmatched"])
    if rows == "all_with_unmatched" and has_exclusion(pattern):
        rows = "all"
    skip = random.choice(["past_last_row"] * 3 + ["to_next_row", "to_first", "to_last"])
    order_by = random_order(random)
    is_clock = order_by == (SortKey("t"),)
    within = f"{random.randint(1, 5)} s" if is_clock and random.random() < 0.3 else None
    timed_out = within is not None and rows == "one" and random.random() < 0.6
    if timed_out:
        measures.append(("late", rp.TimedOut()))
    if random.random() < 0.1:
        measures.append(("until", rp.MatchRowtime(ex.Attribute(order_by[0].column))))
    return RowPatternQuery(
        pattern=pattern,
        define=tuple(define),
        measures=tuple(measures),
        subset=tuple(subset.items()),
        partition_by=random.choice([(), ("k",)]),
        order_by=order_by,
        within=within,
        timed_out=timed_out,
        rows_per_match=rows,
        after_match=skip,
        after_match_variable=random.choice(names) if skip in ("to_first", "to_last") else None,
    )


def random_window(random: Random, *, depth: int = 2) -> WindowedRows:
    """Return a random SELECT with a WINDOW over the columns of `random_query`."""
    while True:
        query = random_query(random, depth=depth)
        trees = [tree for _, tree in (*query.define, *query.measures)]
        numbers = any(
            isinstance(node, rp.MatchNumber | rp.TimedOut) for tree in trees for node in tree.walk()
        )
        if not numbers and not has_anchor(query.pattern):
            break
    over = [rp.OverWindow(ex.Attribute(name), "W") for name, _ in query.measures]
    for function in random.sample(["sum", "count", "max", "array_agg"], random.randint(0, 2)):
        over.append(rp.OverWindow(rp.RowAggregate(function, (ex.Attribute("x"),)), "W"))
    columns = [(name, ex.Attribute(name)) for name in ("k", "t")]
    columns += [(f"o{i}", tree) for i, tree in enumerate(over)]
    return WindowedRows(
        "rows_",
        replace(query, rows_per_match="one", timed_out=False),
        tuple(columns),
        name="W",
        frame_end=random.choice([None, None, 0, 1, 2, 4]),
        seek=random.random() < 0.4,
    )


def random_late_query(random: Random) -> RowPatternQuery:
    """Return a query whose last variable looks back at what the rows before were mapped to.

    Many ways lead to the last variable, and only some of them satisfy it.
    """
    a, b, c = map(pt.Variable, "ABC")
    either = pt.Alternative(random.choice([(a, b), (b, a)]))
    low, high = random.choice([(0, None), (1, None), (2, 4)])
    parts = [pt.Repeat(either, low, high, random.random() < 0.7)]
    if random.random() < 0.4:
        parts.append(pt.Repeat(random.choice([a, b]), 0, random.choice([1, None])))
    names = ["A", "B", "C"]
    define = [("C", random_condition(random, "C", names, False))]
    if random.random() < 0.4:
        define.append(("A", random_condition(random, "A", names, random.random() < 0.5)))
    labels = rp.RowAggregate("array_agg", (rp.Classifier(),))
    return RowPatternQuery(
        pattern=pt.Sequence((*parts, c)),
        define=tuple(define),
        measures=(("labels", labels), ("first", rp.Navigation("first", ex.Attribute("t")))),
        order_by=(SortKey("t"),),
        after_match=random.choice(["past_last_row", "to_next_row"]),
    )


def random_order(random: Random) -> tuple[SortKey, ...]:
    """Return an order without ties."""
    clock = SortKey("t", random.random() < 0.2)
    if random.random() < 0.8:
        return (clock,)
    return SortKey(random.choice(COLUMNS), random.random() < 0.5, random.random() < 0.5), clock


def random_rows(random: Random, n: int) -> list[dict[str, Any]]:
    """Return rows of two keys; a tenth of the values is null."""

    def value(highest: int) -> int | None:
        return None if random.random() < 0.1 else random.randint(0, highest)

    return [{"k": random.choice("pq"), "t": t, "x": value(3), "y": value(6)} for t in range(n)]


def random_pattern(random: Random, depth: int) -> pt.Pattern:
    """Return a random pattern, in the form that the parser gives: nested lists are flat."""
    kind = random.random()
    if depth == 0 or kind < 0.2:
        return pt.Variable(random.choice(VARIABLES))

    def part() -> pt.Pattern:
        return random_pattern(random, depth - 1)

    if kind < 0.48:
        parts = [part() for _ in range(random.randint(2, 3))]
        flat: list[pt.Pattern] = []
        for one in parts:
            flat += one.parts if isinstance(one, pt.Sequence) else [one]
        return pt.Sequence(tuple(flat))
    if kind < 0.62:
        options: list[pt.Pattern] = []
        for one in [part() for _ in range(random.randint(2, 3))]:
            options += one.options if isinstance(one, pt.Alternative) else [one]
        return pt.Alternative(tuple(options))
    if kind < 0.88:
        low, high = random.choice([(0, None), (1, None), (0, 1), (2, 2), (1, 2), (2, None), (0, 2)])
        return pt.Repeat(part(), low, high, random.random() < 0.7)
    if kind < 0.91:
        return pt.Empty()
    if kind < 0.93:
        return pt.Anchor(random.random() < 0.5)
    if kind < 0.96:
        return pt.Exclusion(part())
    return pt.Permutation((part(), part()))


def has_exclusion(pattern: pt.Pattern) -> bool:
    """Return whether a pattern excludes rows."""
    return isinstance(pattern, pt.Exclusion) or any(map(has_exclusion, pattern.children()))


def has_anchor(pattern: pt.Pattern) -> bool:
    """Return whether a pattern looks for the start or the end of the partition."""
    return isinstance(pattern, pt.Anchor) or any(map(has_anchor, pattern.children()))


def random_condition(random: Random, name: str, names: list[str], row_local: bool) -> ex.Expression:
    """Return a condition of the variable ``name``."""
    kind = random.random()
    if kind < 0.12:
        return ex.Not(random_condition(random, name, names, row_local))
    if kind < 0.3:
        parts = (random_condition(random, name, names, row_local) for _ in range(2))
        flat: list[ex.Expression] = []
        made = random.choice([ex.And, ex.Or])
        for part in parts:
            flat += part.operands if isinstance(part, made) else [part]
        return made(tuple(flat))
    if kind < 0.38 and not row_local:
        label = rp.Classifier(random.choice([None, *names]))
        moved = rp.Navigation(random.choice(rp.NAVIGATIONS), label, random.choice([None, 1, 2]))
        sign = random.choice(["==", "!="])
        return ex.Comparison(sign, random.choice([label, moved]), ex.Literal(random.choice("ABC")))
    left = random_value(random, name, names, row_local)
    if kind < 0.42:
        return ex.IsNull(left)
    if kind < 0.48:
        return ex.In(left, tuple(ex.Literal(random.randint(0, 5)) for _ in range(2)))
    sign = random.choice(["<", "<=", ">", ">=", "==", "!="])
    if random.random() < 0.5:
        return ex.Comparison(sign, left, random_value(random, name, names, row_local))
    return ex.Comparison(sign, left, ex.Literal(random.randint(0, 5)))


def random_column(random: Random, variable: str | None) -> ex.Expression:
    """Return a column, of a variable or alone."""
    column = random.choice(COLUMNS)
    return ex.Attribute(column) if variable is None else ex.Reference(variable, column)


def random_value(random: Random, name: str, names: list[str], row_local: bool) -> ex.Expression:
    """Return a number: a column, a navigation or an aggregate."""
    own = random.choice([None, name])
    if random.random() < 0.15:
        sides = (random_value(random, name, names, row_local) for _ in range(2))
        return ex.Arithmetic(random.choice("+-*"), *sides)
    if row_local:
        column = random_column(random, own)
        offset = random.choice([None, 0, 1, 2])
        return random.choice([column, column, rp.Navigation(random.choice(["prev", "next"]), column, offset)])
    variable = random.choice([None, *names])
    column = random_column(random, variable)
    match random.randint(0, 6):
        case 0:
            return column
        case 1:
            function = random.choice(["first", "last"])
            return rp.Navigation(function, column, random.choice([None, 1, 2]))
        case 2:
            inner = rp.Navigation(random.choice(["first", "last"]), column, random.choice([None, 1]))
            outer = random.choice(["prev", "next"])
            return rp.Navigation(outer, random.choice([inner, column]), random.choice([None, 1, 2]))
        case 3:
            return rp.RowAggregate("count", variable=variable)
        case 4:
            if random.random() < 0.15:
                return rp.RowAggregate("count_if", (ex.Comparison(">", column, ex.Literal(2)),))
            function = random.choice(["count", "sum", "min", "max", "avg", "sum", *_MOMENTS])
            return rp.RowAggregate(function, (column,), distinct=random.random() < 0.3)
        case 5:
            return rp.MatchNumber()
    return random_column(random, own)


_MOMENTS = ("stddev", "stddev_pop", "variance", "var_pop", "median")


def random_measure(random: Random, names: list[str]) -> ex.Expression:
    """Return a measure."""
    variable = random.choice([None, *names])
    kind = random.random()
    if kind < 0.2:
        return rp.Classifier(variable)
    if kind < 0.3:
        return rp.RowAggregate(
            "array_agg", (rp.Classifier(variable),), final=random.choice([None, True, False])
        )
    if kind < 0.36:
        item = random_column(random, variable)
        return random.choice(
            [
                rp.RowAggregate("array_agg", (item,), distinct=True),
                rp.RowAggregate("map_agg", (item, rp.Classifier(variable))),
                rp.RowAggregate("max_by", (item, random_column(random, variable))),
                rp.RowAggregate("every", (ex.Comparison("<", item, ex.Literal(4)),)),
            ]
        )
    value = random_value(random, variable or names[0], names, row_local=False)
    if isinstance(value, rp.Navigation) and value.function in ("prev", "next"):
        return value
    if isinstance(value, rp.Navigation | rp.RowAggregate):
        return replace(value, final=random.choice([None, True, False]))
    return value
