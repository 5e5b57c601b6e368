"""Random regex queries and streams from integer seeds; knows the trees of ``cepkit.language`` only.

A case has two seeds: ``shape_seed`` draws everything that shapes a kernel (the pattern, the predicates'
structure, which columns hold nulls), ``seed`` draws the rows, the constants and the parameters' values. All
floats are multiples of 1/4, so that sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex

if TYPE_CHECKING:
    import pandas as pd

DTYPE_OF_COLUMN = {
    "x": "int64",  # never null
    "y": "float64",  # NaN
    "t": "int64",  # the clock: nondecreasing, with ties
    "s": "string",
    "f": "boolean",
    "g": "Int64",
    "k": "string",  # the key
}
TEXTS = ("ab", "abc", "b", "Ba")
KEYS = ("ab", "p", "c", None)
LIKE_PATTERNS = ("a%", "%b", "_b%", "a_", "%", "b", "%a%")
MATH = (
    *("abs", "sign", "sqrt", "floor", "ceil", "round", "log", "log2", "log10", "exp", "power"),
    *("least", "greatest", "bit_and", "bit_or", "bit_xor"),
)
INTEGERS = range(6)  # of x, g and the constants they meet


@dataclass(frozen=True, slots=True)
class Case:
    """A query on a stream; the rows are in stream order."""

    pattern: pt.Pattern
    define: Mapping[str, ex.Expression]
    params: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    partition_by: tuple[str, ...]
    within: int | None
    within_closed: bool

    def keywords(self) -> dict[str, Any]:
        """Return what is neither pattern, define nor rows as keywords of ``match`` and ``naive.matches``."""
        return {
            "params": dict(self.params),
            "partition_by": list(self.partition_by) or None,
            "order_by": "t",
            "within": self.within,
            "within_closed": self.within_closed,
        }


def case(seed: int, shape_seed: int | None = None, n_events: int | None = None) -> Case:
    """Return the case of ``seed``; cases of one ``shape_seed`` differ in rows, constants and values only."""
    shape = Random(f"shape {seed if shape_seed is None else shape_seed}")
    values = Random(f"values {seed}")
    tree = _query_pattern(shape)
    unaggregated = first_names(tree)
    predicates = Predicates(shape, values)
    define = {
        name: predicates.predicate(aggregates=name not in unaggregated, loose=name in _looped_names(tree))
        for name in dict.fromkeys(variable.name for variable in pt.variables(tree))
    }
    nodes = [node for expression in define.values() for node in expression.walk()]
    used = {node.name for node in nodes if isinstance(node, ex.Parameter)}
    params = {name: value for name, value in predicates.params.items() if name in used}
    partition_by = shape.choice([(), ("k",), ("k",), ("k", "f")])
    with_window, within_closed, nulls = shape.random() < 0.25, shape.random() < 0.7, shape.random() < 0.75
    n_keys = values.randint(1, 3) if partition_by else 1
    if n_events is None:
        n_events = n_keys * values.choice(
            [values.randint(0, 3), values.randint(13, 20), *6 * [values.randint(4, 12)]]
        )
    rows = stream(values, n_events, n_keys=n_keys, nulls=nulls)
    within = values.randint(2, 12) if with_window else None
    return Case(tree, define, params, rows, partition_by, within, within_closed)


# --- patterns --------------------------------------------------------------------------------------------


def pattern(rng: Random, names: Sequence[str], depth: int = 3) -> pt.Pattern:
    """Return a pattern over ``names`` with at least one leaf; often a name stands at several places."""
    part = _pattern(rng, names, depth)
    return part if _has_leaf(part) else pt.Variable(rng.choice(names))


def _query_pattern(rng: Random) -> pt.Pattern:
    """Return a pattern that mostly needs two to four events: others match at once or never."""
    while True:
        tree = pattern(rng, names="abcd"[: rng.randint(2, 4)])
        # Only predicates that cannot stand first may use aggregates: often another one stands there.
        head = rng.choice([None, ".", "e", "e"])
        tree = tree if head is None else pt.seq(head, tree)
        if 2 <= shortest_word(tree) <= 4 or rng.random() < 0.1:
            return tree


def shortest_word(tree: pt.Pattern) -> int:
    """Return the least number of events that ``tree`` can match."""
    match tree:
        case pt.Sequence(parts=parts):
            return sum(map(shortest_word, parts))
        case pt.Alternative(options=options):
            return min(map(shortest_word, options))
        case pt.Repeat(body=body, low=low):
            return low * shortest_word(body)
    return 0 if isinstance(tree, pt.Empty) else 1


def _looped_names(tree: pt.Pattern) -> set[str]:
    """Return the names under a repetition without limit."""
    match tree:
        case pt.Sequence(parts=parts) | pt.Alternative(options=parts):
            return set().union(*map(_looped_names, parts))
        case pt.Repeat(body=body, high=None):
            return {variable.name for variable in pt.variables(body)}
        case pt.Repeat(body=body):
            return _looped_names(body)
    return set()


def _pattern(rng: Random, names: Sequence[str], depth: int) -> pt.Pattern:
    kinds = {
        0: ["leaf"],
        1: ["leaf", "leaf", "sequence", "repeat"],
        2: ["leaf", "alternative", "repeat", "sequence"],
    }
    kind = rng.choice(
        kinds.get(depth, ["alternative", "repeat", "sequence", "sequence", "sequence", "sequence"])
    )
    if kind in ("sequence", "alternative"):
        parts = [_pattern(rng, names, depth - 1) for _ in range(rng.choice([2, 2, 3]))]
        return pt.seq(*parts) if kind == "sequence" else pt.any_of_patterns(*parts)
    if kind == "repeat":
        low, high = rng.choice(
            [(0, None), (1, None), (1, None), (0, 1), (2, 2), (2, None), (1, 2), (0, 2), (2, 3)]
        )
        return pt.Repeat(_pattern(rng, names, depth - 1), low, high)
    return rng.choice([pt.AnyEvent(), pt.Empty(), *(14 * [pt.Variable(rng.choice(names))])])


def _has_leaf(tree: pt.Pattern) -> bool:
    match tree:
        case pt.Sequence(parts=parts) | pt.Alternative(options=parts):
            return any(map(_has_leaf, parts))
        case pt.Repeat(body=body):
            return _has_leaf(body)
    return not isinstance(tree, pt.Empty)


def first_names(tree: pt.Pattern) -> set[str]:
    """Return the names that can stand at the first event of a match: they may not use aggregates."""
    return _first_names(tree)[0]


def _first_names(tree: pt.Pattern) -> tuple[set[str], bool]:
    """Return the first names and whether the pattern can match no event."""
    match tree:
        case pt.Empty():
            return set(), True
        case pt.AnyEvent():
            return set(), False
        case pt.Variable(name=name):
            return {name}, False
        case pt.Alternative(options=options):
            firsts = [_first_names(option) for option in options]
            return set().union(*(names for names, _ in firsts)), any(nullable for _, nullable in firsts)
        case pt.Repeat(body=body, low=low):
            names, nullable = _first_names(body)
            return names, nullable or low == 0
        case pt.Sequence(parts=parts):
            found: set[str] = set()
            for part in parts:
                names, nullable = _first_names(part)
                found |= names
                if not nullable:
                    return found, False
            return found, True
    raise TypeError(f"no first names of {type(tree).__name__}")


# --- predicates ------------------------------------------------------------------------------------------


class Constants:
    """Draws structure from ``shape``, and literals and parameters from ``values``.

    ``params`` collects the values of the parameters drawn so far, also of those in trees thrown away.
    """

    def __init__(self, shape: Random, values: Random):
        self.shape, self.values = shape, values
        self.params: dict[str, Any] = {}
        self._kind_of_param: dict[str, str] = {}

    def drawn_constant(self, kind: str, texts: Sequence[str], param_share: float) -> ex.Expression:
        """Return a literal or a parameter of ``kind``: text, int or float."""
        drawn = {
            "text": self.values.choice(texts),
            "int": self.values.choice(INTEGERS),
            "float": self.values.randint(0, 20) / 4,
        }[kind]
        if self.shape.random() >= param_share:
            return ex.Literal(drawn)
        known = [name for name, of in self._kind_of_param.items() if of == kind]
        name = self.shape.choice([*known, f"p{len(self.params)}"])
        if name not in self.params:
            self.params[name], self._kind_of_param[name] = drawn, kind
        return ex.Parameter(name)


class Predicates(Constants):
    """Draws well-typed predicates."""

    _aggregates = False

    def predicate(self, *, aggregates: bool, loose: bool = False) -> ex.Expression:
        """Return a predicate; without ``aggregates`` it may stand first, ``loose`` is often true."""
        self._aggregates = aggregates
        if loose and self.shape.random() < 0.7:
            return ex.Or(_flat(ex.Or, [self._nest(depth=1), self._nest(depth=1)]))
        return self._nest(depth=2)

    def _nest(self, depth: int) -> ex.Expression:
        roll = self.shape.random() if depth else 1.0
        if roll < 0.15:
            return ex.Not(self._nest(depth - 1))
        if roll < 0.45:
            junction = self.shape.choice([ex.And, ex.Or, ex.Or])
            return junction(_flat(junction, [self._nest(depth - 1) for _ in range(self.shape.randint(2, 3))]))
        weight_of_test = {
            self._compare_numbers: 3,
            self._compare_texts: 1,
            self._flag: 1,
            self._member: 1,
            self._between: 1,
            self._is_null: 1,
            self._text_test: 1,
            self._clock_test: 1,
        }
        if self._aggregates:
            weight_of_test[self._compare_numbers] = 8
            weight_of_test |= {self._clock_test: 3, self._count_test: 3, self._total_test: 2}
        [test] = self.shape.choices(list(weight_of_test), list(weight_of_test.values()))
        return test()

    def _compare_numbers(self) -> ex.Expression:
        return ex.Comparison(
            self._sign(), self._number(), self.shape.choice([self._number(), self._constant()])
        )

    def _compare_texts(self) -> ex.Expression:
        constant = self._constant("text")
        return ex.Comparison(
            self._sign(), self._text(), self.shape.choice([self._text(), constant, constant])
        )

    def _flag(self) -> ex.Expression:
        flag = ex.Attribute("f")
        known = ex.Literal(self.shape.choice([True, True, False, False, None]))
        others = [ex.Previous(flag), known]
        if self._aggregates:
            others += [ex.Aggregate("first", flag), ex.Aggregate("last", flag)]
        compared = ex.Comparison(self.shape.choice(["==", "!="]), flag, self.shape.choice(others))
        return self.shape.choice([flag, compared, compared])

    def _member(self) -> ex.Expression:
        if self.shape.random() < 0.4:
            operand, options = self._text(), [self._constant("text") for _ in range(2)]
        else:
            operand, options = self._number(depth=0), [self._constant() for _ in range(3)]
            options += self.shape.choice([[], [ex.Attribute("g")]])
        options += self.shape.choice([[], [], [ex.Literal(None)]])
        return ex.In(operand, tuple(options))

    def _between(self) -> ex.Expression:
        operand = self._number(depth=0)
        low, high = ex.Literal(self.values.randint(0, 2)), self._constant()
        return ex.And((ex.Comparison(">=", operand, low), ex.Comparison("<=", operand, high)))

    def _is_null(self) -> ex.Expression:
        null = ex.IsNull(self.shape.choice([self._number(), self._text(), ex.Attribute("f")]))
        return self.shape.choice([null, ex.Not(null)])

    def _text_test(self) -> ex.Expression:
        function = self.shape.choice(["like", "like", "starts_with", "ends_with", "contains"])
        if function == "like":
            return ex.Like(self._text(), self.shape.choice(LIKE_PATTERNS))
        return ex.Call(
            function, (self._text(), ex.Literal(self.values.choice(["a", "a", "b", "b", "ab", ""])))
        )

    def _clock_test(self) -> ex.Expression:
        clock = ex.Attribute("t")
        spans = [ex.Arithmetic("-", clock, ex.Previous(clock, self._offset()))]
        if self._aggregates:
            since_first = ex.Arithmetic("-", clock, ex.Aggregate("first", clock))
            before = ex.Arithmetic("-", ex.Aggregate("last", clock), ex.Aggregate("min", clock))
            spans += [ex.Aggregate("delta", clock), ex.Aggregate("delta", clock), since_first, before]
        return ex.Comparison(self._sign(), self.shape.choice(spans), self._constant())

    def _count_test(self) -> ex.Expression:
        columns = [ex.Attribute(name) for name in "gys"]
        count = ex.Aggregate("count", self.shape.choice([None, None, None, *columns]))
        number = ex.Literal(self.values.randint(1, 4))
        if self.shape.random() < 0.2:
            return ex.Comparison(
                "==", ex.Arithmetic("%", count, number), ex.Literal(self.values.randint(0, 1))
            )
        return ex.Comparison(self._sign(), count, number)

    def _total_test(self) -> ex.Expression:
        total = ex.Aggregate(self.shape.choice(["sum", "sum", "avg"]), self._operand())
        others = [ex.Attribute("x"), _scaled("y", 2), ex.Literal(self.values.randint(0, 15))]
        return ex.Comparison(self._sign(), total, self.shape.choice(others))

    # Values; all but ``_constant`` have a column below them.

    def _number(self, depth: int = 1) -> ex.Expression:
        roll = self.shape.random()
        if depth and roll < 0.3:
            return self._computed(depth - 1)
        if roll < 0.5:
            return ex.Previous(self._operand(), self._offset())
        if self._aggregates and roll < 0.85:
            function = self.shape.choice(["first", "last", "max", "min", "avg", "sum", "delta"])
            return ex.Aggregate(function, self._operand())
        return ex.Attribute(self.shape.choice("xxyyg"))

    def _computed(self, depth: int) -> ex.Expression:
        number = self._number(depth)
        roll = self.shape.random()
        if roll < 0.1:
            return ex.Negative(number)
        if roll < 0.55:
            sign = self.shape.choice(["+", "-", "*", "/", "//", "%"])
            return ex.Arithmetic(sign, number, self.shape.choice([self._constant(), self._number(depth)]))
        function = self.shape.choice(MATH)
        if function == "exp":  # of a column only: no result is infinite
            return ex.Call(function, (ex.Attribute("y"),))
        if function == "power":
            return ex.Call(
                function, (ex.Attribute(self.shape.choice("xyg")), ex.Literal(self.values.randint(2, 3)))
            )
        if function in ("least", "greatest"):
            return ex.Call(function, (number, self._constant(), self._number(depth)))
        if function.startswith("bit"):
            return ex.Call(
                function, (ex.Attribute(self.shape.choice("xg")), ex.Literal(self.values.randint(1, 5)))
            )
        return ex.Call(function, (number,))

    def _operand(self) -> ex.Expression:
        """Return what an aggregate or ``prev`` is taken of: mostly a column."""
        x, y, g = map(ex.Attribute, "xyg")
        return self.shape.choice(
            [x, x, y, y, g, g, ex.Arithmetic("+", x, g), ex.Call("abs", (y,)), _scaled("x", 2)]
        )

    def _text(self) -> ex.Expression:
        column = ex.Attribute(self.shape.choice("sssssk"))
        past: list[ex.Expression] = [ex.Previous(column, self._offset())]
        if self._aggregates:
            past += [ex.Aggregate(function, column) for function in ("first", "last", "max", "min")]
        return self.shape.choice([column, self.shape.choice(past)])

    def _constant(self, kind: str | None = None) -> ex.Expression:
        """Return a literal or a parameter of ``kind``: text, int, float, or (None) one of the numbers."""
        kind = kind or self.shape.choice(["int", "int", "float"])
        return self.drawn_constant(kind, [*TEXTS, *TEXTS, *TEXTS, "a", "z", ""], 0.2)

    def _sign(self) -> str:
        return self.shape.choice(["<", "<=", "<=", ">", ">=", ">=", "==", "!=", "!="])

    def _offset(self) -> int:
        return self.shape.choice([1, 1, 1, 2, 3])


def _scaled(column: str, factor: int) -> ex.Expression:
    return ex.Arithmetic("*", ex.Attribute(column), ex.Literal(factor))


def _flat(junction: type, parts: Sequence[ex.Expression]) -> tuple[ex.Expression, ...]:
    """Return the operands as a parser reads them: without a junction of the same kind below."""
    return tuple(
        inner for part in parts for inner in (part.operands if isinstance(part, junction) else (part,))
    )


# --- streams ---------------------------------------------------------------------------------------------


def stream(rng: Random, n_events: int, n_keys: int = 1, nulls: bool = True) -> list[dict[str, Any]]:
    """Return rows in stream order.

    With ``nulls`` the columns y, s, f, g hold at least one each (in a stream that is not empty), and a key
    may be null; without there are none.
    """
    keys = rng.sample(KEYS if nulls else KEYS[:-1], n_keys)
    walk = rng.random() < 0.5
    clock = rng.choice([0, 0, 1000, 2**60])  # the last leaves no room for floats
    level = dict.fromkeys(keys, 3)
    rows = []
    for _ in range(n_events):
        clock += rng.choice([0, 0, 1, 1, 2, 4])
        key = rng.choice(keys)
        level[key] = min(max(level[key] + rng.choice([-1, -1, 0, 1, 1, 2]), 0), 9)
        rows.append(
            {
                "x": level[key] if walk else rng.choice(INTEGERS),
                "y": rng.randint(-4, 20) / 4,
                "t": clock,
                "s": rng.choice(TEXTS),
                "f": rng.random() < 0.6,
                "g": rng.choice(INTEGERS),
                "k": key,
            }
        )
    if nulls:
        for column, null in {"y": float("nan"), "s": None, "f": None, "g": None}.items():
            for row in rng.sample(rows, min(len(rows), 1 + len(rows) // 8)):
                row[column] = null
    return rows


def to_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows as a frame of the honest dtypes, also when there are none."""
    import pandas as pd

    return pd.DataFrame(
        {name: pd.Series([row[name] for row in rows], dtype=dtype) for name, dtype in DTYPE_OF_COLUMN.items()}
    )
