"""Write typed terms as Python expressions: their values, and the conditions for them to be true."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from cepkit.compile.shared.terms import Reader, Term, may_precede_all
from cepkit.events import BOOLEAN, DURATION, FLOAT, LIST, NULL_CODE, NULL_INTEGER, OTHER, TEXT, TIME
from cepkit.language.expressions.trees import NEGATED
from cepkit.values import dataclass

# Array bundles that kernels and their callers share.


@dataclass(frozen=True, slots=True)
class StateArray:
    """One array in the state of a matcher."""

    name: str  # name of the kernel's argument
    dtype: str  # numpy dtype
    # ``partition``: shape (n_partitions,). ``ring``: (n_partitions, width), the last rows of each partition.
    # ``list`` and ``queue``: (n_cells,), one cell per waiting start. ``slots``: (width, n_cells), several
    # values per waiting start in a list. ``place``: (n_partitions, 2), the first of the partition's cells and
    # their number, in ``list_place`` and ``queue_place``.
    per: str
    fill: int | float = 0  # value before any event
    width: int = 0  # width of a ring, or number of values per waiting start


# The code of operations; an operation on floats and one on integers may share theirs.
_MATH = {
    "sqrt": "(np.sqrt({0}) if {0} >= 0 else NAN)", "log": "(np.log({0}) if {0} > 0 else NAN)",
    "log2": "(np.log2({0}) if {0} > 0 else NAN)", "log10": "(np.log10({0}) if {0} > 0 else NAN)",
    "exp": "np.exp({0})", "floor": "np.floor({0})", "ceil": "np.ceil({0})", "round": "np.rint({0})",
    **{name: f"(np.{name}({{0}}) if np.isfinite({{0}}) else NAN)" for name in ("sin", "cos", "tan")},
    **{f"a{name}": f"(np.arc{name}({{0}}) if -1 <= {{0}} <= 1 else NAN)" for name in ("sin", "cos")},
    "atan": "np.arctan({0})", "atan2": "np.arctan2({0}, {1})",
    "power": "(np.power({0}, {1}) if ({0} != 0 or {1} >= 0) and {0} == {0} and {1} == {1} else NAN)",
}  # fmt: skip
_CODE = _MATH | {
    **{sign: f"({{0}} {sign} {{1}})" for sign in ("+", "-", "*")},
    **{sign: f"{{0}} {sign} {{1}}" for sign in ("==", "!=", "<", "<=", ">", ">=", "and", "or")},
    **{f"{sign} floats": f"({{0}} {sign} {{1}} if {{1}} != 0 else NAN)" for sign in ("/", "//", "%")},
    **{f"{sign} integers": f"({{0}} {sign} {{1}} if {{1}} != 0 else NULL)" for sign in ("//", "%")},
    "!= floats": "(({0} < {1}) | ({0} > {1}))", "negative": "(-{0})", "abs": "abs({0})",
    "+ times": "add_times({0}, {1})", "- times": "subtract_times({0}, {1})",
    "high": "({0} >> 32)", "low": "({0} & 4294967295)",
    "least floats": "np.minimum({0}, {1})", "greatest floats": "np.maximum({0}, {1})",
    "least integers": "(min({0}, {1}))", "greatest integers": "(max({0}, {1}))",
    "sign floats": "np.sign({0})", "sign integers": "(({0} > 0) * 1 - ({0} < 0) * 1)",
    "bit_and": "({0} & {1})", "bit_or": "({0} | {1})", "bit_xor": "({0} ^ {1})",
    "to float": "np.float64({0})", "float or nan": "({0} if {1} else NAN)",
    "integer or null": "({0} if {1} else NULL)",
    "truth code": f"(1 if {{0}} else 0 if {{1}} else {NULL_CODE})",
}  # fmt: skip


# The entry of an array column in `dtypes`: float64, one row per event.
VECTOR = "vector"
_VECTORS = 'T.Array(T.float64, 2, "C", readonly=True)'
# The products are added in a fixed order, so every engine, compiled or not, gets the same number.
_OF_PREPARED = """    s = 0.0
    for k in range(c.shape[1]):
        s += c[i, k] * d[j, k]
    return 1.0 if s > 1.0 else -1.0 if s < -1.0 else s
"""
_OF_ROWS = """    s = 0.0
    for k in range(c.shape[1]):
        x = c[i, k] - d[j, k]
        s += x * x
    return np.sqrt(s)
"""
# An argument that an operation reads twice would double its code at each level; helpers read it once.
_HELPER_OF = {
    "/": "divide", "//": "floor_divide", "%": "modulo", "sqrt": "sqrt_of", "log": "log_of",
    "log2": "log2_of", "log10": "log10_of", "power": "power_of",
}  # fmt: skip
_SIMILARITY = {"corr": _OF_PREPARED, "cosine": _OF_PREPARED, "l2": _OF_ROWS}
# A time or a duration that does not fit is the nearest one that does; the least integer is null.
_OF_TIMES = {
    "-": """    z = x - y
    return z if ((x ^ y) & (x ^ z)) >= 0 else (9223372036854775807 if x >= 0 else -9223372036854775807)
""",
    "+": """    z = x + y
    return z if ((x ^ z) & (y ^ z)) >= 0 else (9223372036854775807 if x >= 0 else -9223372036854775807)
""",
}
_NAME_OF_TIMES = {"-": "subtract_times", "+": "add_times"}
_IS_MEMBER = """    high = stop
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < x:
            low = middle + 1
        else:
            high = middle
    return x == x and (low < stop and values[low] == x) == wanted
"""


def helper_lines(terms: Iterable[Term], *, python: bool) -> list[str]:
    """Return the functions that ``terms`` call."""
    # ``corr(c, i, d, j)`` takes row i of c and row j of d. ``is_member(values, low, stop, x, wanted)`` says
    # whether x is among the sorted values from ``low`` to ``stop``. NaN neither is nor is not among them.
    terms = list(terms)
    used = {term.data for root in terms for term in root.walk() if term.op == "similarity"}
    helpers = [(f"{name}(c, i, d, j)", _SIMILARITY[name]) for name in sorted(used)]
    ops = {term.op for root in terms for term in root.walk()}
    if "member" in ops:
        helpers.append(("is_member(values, low, stop, x, wanted)", _IS_MEMBER))
    helpers += [_operation(op) for op in sorted(ops & set(_HELPER_OF)) if _is_nested(terms, op)]
    # Sums and differences of times must not wrap around.
    of_times = {term.op for root in terms for term in root.walk() if term.kind in (TIME, DURATION)}
    helpers += [(f"{_NAME_OF_TIMES[op]}(x, y)", _OF_TIMES[op]) for op in sorted(of_times & {"+", "-"})]
    options = "no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False"
    lines = []
    for signature, body in helpers:
        lines += [] if python else [f'@njit(nogil=True, error_model="numpy", {options})']
        lines += [f"def {signature}:", *body.splitlines(), "", ""]
    return lines


def _operation(op: str) -> tuple[str, str]:
    """Return the signature and the body of the helper of an operation."""
    if op in ("/", "//", "%"):
        return f"{_HELPER_OF[op]}(x, y, null)", f"    return x {op} y if y != 0 else null"
    names = ("x", "y")[: 2 if op == "power" else 1]
    return f"{_HELPER_OF[op]}({', '.join(names)})", f"    return {_MATH[op].format(*names)}"


def _is_nested(terms: Iterable[Term], op: str) -> bool:
    """Return whether an argument that the operation reads twice may be more than a name."""
    used = (term for root in terms for term in root.walk() if term.op == op)
    return any(arg.args or arg.kind != FLOAT for term in used for arg in term.args)


def stored_dtype(term: Term) -> str:
    """Return the dtype in which a state array stores the values of ``term``."""
    return "float64" if term.kind == FLOAT else "object" if term.kind == LIST else "int64"


class TermWriter(Reader):
    """Writes terms as Python: the value of a term, and the condition for it to be true, are code."""

    # ``slots`` are the values that partial matches of a regex query carry. In the code of every kernel:
    # - ``c0``, ``c1``, …: the array of each column; ``x0``: its value in the current row
    # - ``y0``: the value of an earlier row, such as ``prev(x)``; ``past0`` keeps it for each partition
    # - ``s0``: a slot, such as ``first(x)`` or ``sum(x)`` of the partial match at hand
    # - ``k0``: a constant; ``t0``: a table by code of text, or a sorted list of constants
    # - ``u0``: a function of the user; ``d0``: the texts of a column, for such functions
    # - ``n``: the number of the row in its partition, from 0; ``ordinal`` keeps the next one
    # `PathWriter`, `ConditionWriter` and `AnchoredWriter` have other names for the values of events.

    def __init__(
        self, terms: Iterable[Term], dtypes: Mapping[str, str], functions: tuple[str, ...], *,
        slots: tuple[Term, ...] = (), python: bool,
    ):  # fmt: skip
        super().__init__()
        self.dtypes, self.functions, self.python = dict(dtypes), functions, python
        every = [t for root in (*terms, *slots) for t in root.walk()]
        self.columns, self.slots = list(self.dtypes), slots
        self.helpers = helper_lines(every, python=python)
        # Only those in use, numbered again: leftovers of binding must not change the text.
        constants = {t.data: t.kind == FLOAT for t in every if t.op == "constant"}
        self.constants = dict(sorted(constants.items()))
        tables = {t.data: t for t in every if t.op in ("table", "member")}
        self.tables = sorted(tables)
        self.table_types = [_table_dtype(tables[number]) for number in self.tables]
        self.texts = self._texts_of_functions(every) if python else []
        self.pasts = list(dict.fromkeys((t.args[0], t.data) for t in every if t.op == "previous"))
        self.uses_count = any(t.op == "count" for t in every)
        self.uses_ordinal = (
            self.uses_count
            or any(offset > 1 for _, offset in self.pasts)
            or any(may_precede_all(t) for t in every)
        )

    def _texts_of_functions(self, terms: list[Term]) -> list[str]:
        calls = (term for term in terms if term.op == "call")
        return list(dict.fromkeys(arg.unit for call in calls for arg in call.args if arg.kind == TEXT))

    # --- arguments

    def arguments(self) -> list[str]:
        """Return the names of the arguments that terms need: columns, constants, tables."""
        names = [f"c{i}" for i in range(len(self.columns))]
        names += [f"k{i}" for i in range(len(self.constants))]
        names += [f"t{i}" for i in range(len(self.tables))]
        return names + [f"d{i}" for i in range(len(self.texts))]

    def argument_types(self) -> list[str]:
        """Return the numba types of these arguments."""
        types = [
            _VECTORS if self.dtypes[name] == VECTOR else f"read_only(T.{self.dtypes[name]})"
            for name in self.columns
            if self.dtypes[name] != "object"  # such a kernel runs as Python, and needs no types
        ]
        types += ["T.float64" if is_float else "T.int64" for is_float in self.constants.values()]
        return types + [f"read_only(T.{dtype})" for dtype in self.table_types]

    def past_state(self) -> list[StateArray]:
        """Return the state arrays that hold earlier rows of each partition."""
        arrays = [StateArray("ordinal", "int64", "partition")] if self.uses_ordinal else []
        for i, (arg, offset) in enumerate(self.pasts):
            fill = float("nan") if arg.kind == FLOAT else _null(arg)
            per = "partition" if offset == 1 else "ring"
            arrays.append(StateArray(f"past{i}", stored_dtype(arg), per, fill, offset))
        return arrays

    # --- lines

    def event_lines(self) -> list[str]:
        """Return the lines that load the event's values and swap them with the stored earlier ones."""
        lines = self.column_lines()
        if self.uses_ordinal:
            lines += ["n = ordinal[k]", "ordinal[k] = n + 1"]
        for i, (arg, offset) in enumerate(self.pasts):
            cell = f"past{i}[k]" if offset == 1 else f"past{i}[k, n % {offset}]"
            lines += [f"y{i} = {cell}", f"{cell} = {self.stored(arg)}"]
        return lines

    def column_lines(self) -> list[str]:
        """Return the lines that load the columns of event ``j``."""
        lines = []
        for i, name in enumerate(self.columns):
            dtype = self.dtypes[name]
            wide = (
                ""
                if dtype in ("int64", "float64", "object")
                else "np.float64"
                if dtype == "float32"
                else "np.int64"
            )
            lines.append(f"x{i} = {wide}(c{i}[j])" if wide else f"x{i} = c{i}[j]")
        return lines

    def slot_first(self, slot: Term) -> str:
        """Return the code for a slot's value in a match that starts at this event."""
        if slot.op == "count":
            return "n"
        arg = slot.args[0]
        if slot.op == "count_of":
            return f"(1 if {self.all(self.present(arg))} else 0)"
        if slot.op == "values":
            return self.longer("None", arg)
        return self.stored(arg)

    def slot_next(self, slot: Term, old: str) -> str:
        """Return the code for a slot's value after this event; ``old`` is its value before."""
        if slot.op in ("first", "count"):
            return old
        arg = slot.args[0]
        x = self.value(arg)
        tests = self.present(arg)
        if slot.op == "count_of":
            return f"({old} + (1 if {self.all(tests)} else 0))"
        if slot.op == "values":
            return self.longer(old, arg)
        if slot.kind == FLOAT:
            none = f"{old} != {old}"
        else:
            none = f"{old} == NULL" if slot.kind != TEXT else f"{old} < 0"
        new = (
            f"{old} + {x}"
            if slot.op == "sum"
            else f"({x} if {x} {'>' if slot.op == 'max' else '<'} {old} else {old})"
        )
        if not slot.nullable:
            return new
        return f"(({x} if {none} else {new}) if {self.all(tests)} else {old})"

    def longer(self, chain: str, arg: Term) -> str:
        """Return the code of a chain of values with one more; see `Summary.of_chain`."""
        return f"(({chain}, {self.value(arg)}) if {self.all(self.present(arg))} else {chain})"

    # --- values

    def _once(self, key: tuple, make: Callable[[], Any]) -> Any:
        return make()  # names change from function to function

    def leaf(self, term: Term) -> str:
        if term.op == "column":
            return f"x{self.columns.index(term.data)}"
        if term.op == "previous":
            return f"y{self.pasts.index((term.args[0], term.data))}"
        return f"s{self.slots.index(term)}"

    def constant(self, term: Term) -> str:
        return f"k{list(self.constants).index(term.data)}"

    def number(self, value: int) -> str:
        return "NULL" if value == NULL_INTEGER else str(value)

    def truth(self, value: bool) -> str:
        return str(value)

    def number_of_row(self) -> str:
        return "n"

    def apply(self, operation: str, *values: str) -> str:
        op, _, kind = operation.partition(" ")
        is_quotient = op in ("/", "//", "%")
        if op in _HELPER_OF and any(" " in value for value in (values[1:] if is_quotient else values)):
            null = ["NAN" if kind == "floats" else "NULL"] if is_quotient else []
            return f"{_HELPER_OF[op]}({', '.join([*values, *null])})"
        return (_CODE.get(operation) or _CODE[op]).format(*values)

    def _value(self, term: Term) -> str:
        if term.op == "similarity":
            return self.similarity(term)
        if term.op == "call":
            return f"(float({self._called(term)}) if {_all(self._arguments_known(term))} else NAN)"
        if term.op == "elapsed":
            return f"np.uint64({self.value(term.args[0])} - {self.value(term.args[1])})"
        return super()._value(term)

    def similarity(self, term: Term) -> str:
        """Return the code of a function of two arrays; the value of an array is the place of its row."""
        rows = (f"{self.matrix(arg.column)}, {self.value(arg)}" for arg in term.args)
        return f"{term.data}({', '.join(rows)})"

    def matrix(self, column: str) -> str:
        """Return the code of the rows of an array column."""
        return f"c{self.columns.index(column)}"

    def valid(self, term: Term) -> list[str]:
        if term.kind == OTHER and "object" in self.dtypes.values():  # only where kernels run as Python
            return [f"{self.value(term)} is not None"] if term.nullable else []
        return list(dict.fromkeys(super().valid(term)))

    def all(self, truths: Iterable[str]) -> str:
        return _all(list(truths))

    # --- truth

    def holds(self, term: Term, wanted: bool) -> str:
        if term.op == "call":
            called = self._called(term)
            return self.join(
                "and", [*self._arguments_known(term), called if wanted else f"not {called}"], term
            )
        held = super().holds(term, wanted)
        return held if held.startswith("(") or held in ("True", "False") else f"({held})"

    def join(self, sign: str, truths: Sequence[str], term: Term) -> str:
        return _join(sign, truths, lazy=self.is_costly(term))

    def is_null(self, term: Term, wanted: bool) -> str:
        if term.kind == FLOAT:
            value = self.value(term)
            return f"({value} {'!=' if wanted else '=='} {value})"
        tests = self.valid(term)
        if not tests:
            return str(not wanted)
        return f"(not ({_all(tests)}))" if wanted else f"({_all(tests)})"

    def compared(self, term: Term, wanted: bool) -> list[str]:
        left, right = term.args
        if left.op != "elapsed":
            return super().compared(term, wanted)
        sign = term.data if wanted else NEGATED[term.data]
        held = f"{self.value(left)} {sign} np.uint64({self.value(right)})"
        return [*self.valid(left), *self.valid(right), held]

    def table(self, number: int, code: str, wanted: bool) -> str:
        return f"t{self.tables.index(number)}[{code} + 1] == {int(wanted)}"

    def member(self, number: int, value: str, wanted: bool) -> str:
        i = self.tables.index(number)
        return f"is_member(t{i}, 0, len(t{i}), {value}, {wanted})"

    # --- user functions

    def is_costly(self, term: Term) -> bool:
        """Return whether the condition is expensive, so that it is computed only if needed."""
        return any(part.op in ("call", "similarity", "member") for part in term.walk())

    def _called(self, term: Term) -> str:
        arguments = ", ".join(map(self._argument, term.args))
        return f"u{self.functions.index(term.data)}({arguments})"

    def _argument(self, term: Term) -> str:
        value = self.value(term)
        if term.kind == TEXT and self.python:
            return f"d{self.texts.index(term.unit)}[{value}]"
        if term.kind == BOOLEAN:
            return f"({value} == 1)"
        return value

    def _arguments_known(self, term: Term) -> list[str]:
        return [c for arg in term.args for c in self.present(arg)]


def _table_dtype(term: Term) -> str:
    if term.op == "table":
        return "uint8"
    return "float64" if term.args[0].kind == FLOAT else "int64"


def _join(sign: str, parts: Sequence[str], *, lazy: bool = False) -> str:
    parts = list(dict.fromkeys(parts))
    if len(parts) == 1:
        return f"({parts[0]})"
    if lazy:
        return "(" + f" {sign} ".join(f"({part})" for part in parts) + ")"
    # Without jumps: the parts are cheap, and the processor predicts such branches badly.
    return "(" + f" {'&' if sign == 'and' else '|'} ".join(f"({part})" for part in parts) + ")"


def _all(conditions: list[str]) -> str:
    return " and ".join(dict.fromkeys(conditions)) if conditions else "True"


def _null(term: Term) -> int:
    return NULL_CODE if term.kind in (TEXT, BOOLEAN) else NULL_INTEGER


# The frame of every generated module: its header, its decorators, and its text as a value.

VERSION = 4  # of the writers; part of the name of every kernel


@dataclass(frozen=True, slots=True)
class KernelSource:
    """The text of a kernel module and the arguments of its functions, in order."""

    text: str
    state: tuple[StateArray, ...]
    kept: tuple[tuple[str, str], ...] = ()  # names and dtypes of arrays of rows, and then of values carried


HEADER = '''"""Generated by cepkit from the shape of a query; version {version}. Constants are arguments."""
import math
import numpy as np
from numba import types as T
from cepkit.kernels.jit import njit

NULL = {null}
NAN = np.nan
I1, F1 = T.Array(T.int64, 1, "C"), T.Array(T.float64, 1, "C")
I2, F2 = T.Array(T.int64, 2, "C"), T.Array(T.float64, 2, "C")


def read_only(item):
    return T.Array(item, 1, "C", readonly=True)

'''


def module_header() -> str:
    """Return the first lines of every generated module."""
    return HEADER.format(version=VERSION, null=NULL_INTEGER)


def decorator(types: list[str], *, user_functions: bool) -> list[str]:
    """Return the line that compiles the next function for these argument types at the module's import."""
    # Kernels allocate nothing, so numba's reference counting of row views is switched off; it took half of
    # the time of a queue (measured). User functions may allocate. They are not cached either, because a cache
    # does not notice when their helpers change.
    options = "" if user_functions else ", cache=True, _nrt=False, no_cfunc_wrapper=True"
    return [f'@njit([({", ".join(types)},)], nogil=True, error_model="numpy"{options})']


@cache
def shared_text(module: str, begin: str) -> str:
    """Return the text of an interpreting kernel from the last line that begins so to the function's end."""
    text = Path(cast(str, cast(Any, importlib.util.find_spec(module)).origin)).read_text("utf-8")
    return begin + text.rpartition(begin)[2].partition("\n\n\n")[0]
