"""The conditions of a branch one at a time: the code of the kernels, run as Python or as kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from cepkit.compile.regex_plan import Plan
from cepkit.compile.regex_program import Kernel, Program
from cepkit.compile.regex_source import write_matching
from cepkit.compile.sequence_program import BoundBranch, SequenceProgram
from cepkit.compile.sequence_source import CheckingWriter, PathWriter, is_decided_at_begin, test_of
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.compile.shared.loading import reason_to_compile
from cepkit.compile.shared.term_writing import module_header
from cepkit.compile.shared.terms import Term
from cepkit.engines.shared.places import COUNTING, Places, dtypes_of, kernel
from cepkit.events import NULL_INTEGER, sums_before
from cepkit.values import dataclass

# For a few events this is faster than compiling. It also shows which values a condition reads.

_HEADER = f"import math\nimport numpy as np\nNULL = {NULL_INTEGER}\nNAN = np.nan\n"
_FOR_NUMBA = "@njit", "U1 = "


def plain_module(program: BoundQuery, text: str) -> dict[str, Any]:
    """Run generated ``text`` as Python, without compiling it or writing a file, and return its names."""
    user = {f"u{i}": function.in_kernel for i, function in enumerate(program.functions.values())}
    names: dict[str, Any] = {"__name__": "cepkit_plain", **user}
    exec(_code(text), names)
    return names


def plain_kernel(program: Program, plan: Plan, columns: Mapping[str, np.ndarray]) -> Kernel:
    """Return the kernel of a regex, which reads these columns, as Python."""
    dtypes = {name: values.dtype.name for name, values in columns.items()}
    source = write_matching(plan, dtypes, functions=tuple(program.functions), compiled=program.compiled)
    return Kernel(plain_module(program, source.text)["advance"], source, is_compiled=False)


def new_as_python(program: SequenceProgram, text: str, name: str) -> Callable[..., Any]:
    """Return function ``name`` of a generated module: compiled if it was before, otherwise as Python."""
    if reason_to_compile(text, COUNTING) is not None:
        return kernel(program, text, name)
    return np.errstate(all="ignore")(plain_module(program, text)[name])


@lru_cache(maxsize=512)
def _code(text: str):
    """Return the byte code of a generated module, without its decorators."""
    text = text.replace(module_header().rstrip("\n"), _HEADER)
    lines = (line for line in text.splitlines() if not line.startswith(_FOR_NUMBA))
    return compile("\n".join(lines), "<plain kernel>", "exec")


class _TruthWriter(PathWriter):
    """Writes functions that also pass the outcome of a condition to ``note``: true, and false."""

    def write(self, term: Term, component_of: Mapping[str, int], **how: Any) -> str:
        """Return the text of a condition that calls ``note`` with its outcome."""
        self.root = term
        return "\n".join(self.condition("condition", term, component_of, **how))

    def true(self, term: Term) -> str:
        """Return the code of a truth; that of the whole condition also calls ``note``."""
        code = super().true(term)
        return f"note({code}, {self.false(term)})" if term is self.root else code


@dataclass(frozen=True, slots=True)
class _Written:
    """A function of a path, and the arguments to write it again with `_TruthWriter`."""

    holds: Callable[..., bool]
    term: Term
    component_of: Mapping[str, int]
    how: Mapping[str, Any]


class PlainConditions:
    """The conditions of a branch as Python functions of a path."""

    # ``path[d]`` is the place of the d-th event, ``first[c]`` the depth at which component c begins.

    def __init__(self, places: Places, bound: BoundBranch):
        self.places, self.bound, self.branch = places, bound, bound.branch
        self._arguments = places.inputs.arguments()
        self._accepted: dict[tuple[str, int, int], bool] = {}
        self._text: list[str] = []
        self._made: dict[tuple, tuple[str, Term, Mapping[str, int], Mapping[str, Any]]] = {}
        writer = self._writer(PathWriter)
        components = self.branch.components
        for c, terms in enumerate(bound.accepts):
            for k, term in enumerate(terms):
                component_of = {components[c].variable: c}
                self._add(writer, ("alone", c, k), term, component_of, top=c, taking=c)
        for a, terms in enumerate(bound.absent_accepts):
            beside = self.branch.absences[a].variable
            for k, term in enumerate(terms):
                self._add(writer, ("absent alone", a, k), term, {}, top=0, beside=beside)
        for i, condition in enumerate(bound.conditions):
            self._add_condition(
                writer, i, condition.condition, condition.term, condition.component_of_variable
            )
        for c, term in enumerate(bound.untils):
            if term is not None:
                component_of = {component.variable: i for i, component in enumerate(components[: c + 1])}
                self._add(writer, ("until", c), term, component_of, top=c)
        text = [*writer.helpers, *self._text]
        names = plain_module(places.program, _HEADER + "\n".join(text))
        self._written = {
            key: _Written(names[name], term, component_of, how)
            for key, (name, term, component_of, how) in self._made.items()
        }

    def _writer(self, kind: type[PathWriter]) -> PathWriter:
        """Return a writer of functions of a path."""
        program = self.places.program
        return kind(
            program.terms(), dtypes_of(self.places.inputs), tuple(program.functions),
            is_group=tuple(c.is_group for c in self.branch.components), python=not program.compiled,
        )  # fmt: skip

    def _add(self, writer, key: tuple, term: Term, of: Mapping[str, int], **how: Any) -> None:
        """Add the text of a function that tests a term, under a key."""
        name = f"f{len(self._made)}"
        self._made[key] = name, term, of, how
        self._text += [*writer.condition(name, term, of, **how), ""]

    def _add_condition(self, writer, i: int, condition, term: Term, of: Mapping[str, int]) -> None:
        """Add the text of the function that tests condition ``i``."""
        if condition.absence is None:
            at = condition.decided_at
            self._add(writer, ("condition", i), term, of, top=at, taking=at if condition.each else None)
            return
        absence = self.branch.absences[condition.absence]
        begun = is_decided_at_begin(self.bound, condition.absence)
        top = absence.before if begun else len(self.branch.components) - 1
        self._add(writer, ("absent", i), term, of, top=top, beside=absence.variable)

    # --- one event

    def has_type(self, c: int, place: int) -> bool:
        """Return whether the event has the type of component ``c``."""
        return self.branch.components[c].event_type is None or self._is_alone(("alone", c, 0), place)

    def failing_alone(self, c: int, place: int) -> int | None:
        """Return the number of the first condition on the event alone that fails; the type is one, too."""
        terms = range(len(self.bound.accepts[c]))
        return next((k for k in terms if not self._is_alone(("alone", c, k), place)), None)

    def accepts(self, c: int, place: int) -> bool:
        """Return whether the event fulfils all conditions of component ``c`` on single events."""
        key = "accepts", c, place
        if key not in self._accepted:
            self._accepted[key] = self.failing_alone(c, place) is None
        return self._accepted[key]

    def _is_alone(self, key: tuple, place: int) -> bool:
        return self._holds(key, np.array([place]), np.zeros(key[1] + 1, np.int64), 0, place)

    def is_absent_event(self, a: int, place: int) -> bool:
        """Return whether the event fulfils all conditions of absence ``a`` on single events."""
        key = "absent", a, place
        if key not in self._accepted:
            n = len(self.bound.absent_accepts[a])
            self._accepted[key] = all(self._is_alone(("absent alone", a, k), place) for k in range(n))
        return self._accepted[key]

    # --- a path

    def decided(self, c: int, *, each: bool) -> list[int]:
        """Return the conditions decided at component ``c``, with each of its events or at its end."""
        return [
            i
            for i, condition in enumerate(self.bound.conditions)
            if condition.condition.absence is None
            and (condition.condition.decided_at, condition.condition.each) == (c, each)
        ]

    def holds(self, i: int, path: np.ndarray, first: np.ndarray, last: int) -> bool:
        """Return whether condition ``i`` holds on the path up to depth ``last``."""
        return self._holds(("condition", i), path, first, last, 0)

    def all_hold(self, c: int, path: np.ndarray, first: np.ndarray, last: int, *, each: bool) -> bool:
        """Return whether all conditions decided at component ``c`` hold."""
        return all(self.holds(i, path, first, last) for i in self.decided(c, each=each))

    def occurs(self, a: int, place: int, path: np.ndarray, first: np.ndarray, last: int) -> bool:
        """Return whether absence ``a`` forbids the event at ``place`` for this path."""
        condition_numbers = [
            i for i, condition in enumerate(self.bound.conditions) if condition.condition.absence == a
        ]
        return self.is_absent_event(a, place) and all(
            self._holds(("absent", i), path, first, last, place) for i in condition_numbers
        )

    def ends(self, c: int, path: np.ndarray, first: np.ndarray, last: int, place: int) -> bool:
        """Return whether the event at ``place`` ends the loop of component ``c``."""
        key = "until", c
        return key in self._written and self._holds(key, path, first, last, place)

    def _holds(self, key: tuple, path: np.ndarray, first: np.ndarray, last: int, place: int) -> bool:
        with np.errstate(all="ignore"):
            return bool(self._written[key].holds(path, first, last, place, *self._arguments))

    def truth(
        self, key: tuple, path: np.ndarray, first: np.ndarray, last: int, place: int = 0
    ) -> bool | None:
        """Return the truth of a condition, None for null."""
        # ``key`` is ``("condition", i)``, or ``("alone", c, k)`` for the event at ``place`` as component
        # ``c``.
        written = self._written[key]
        writer = self._writer(_TruthWriter)
        text = writer.write(written.term, written.component_of, **written.how)
        names = plain_module(self.places.program, "\n".join([_HEADER, *writer.helpers, text]))
        outcome: tuple[bool, bool] = True, False  # of a condition that reads no event: it has no predecessor

        def note(is_true: bool, is_false: bool) -> bool:
            nonlocal outcome
            outcome = bool(is_true), bool(is_false)
            return is_true

        names["note"] = note
        if key[0] == "alone":
            path, first, last = np.array([place]), np.zeros(key[1] + 1, np.int64), 0
        with np.errstate(all="ignore"):
            names["condition"](path, first, last, place, *self._arguments)
        is_true, is_false = outcome
        return True if is_true else False if is_false else None


# Tests given combinations of events against chosen conditions and absences of a branch.

_FEW = 50_000  # up to this many tests, Python takes less time than compiling (measured)
_NONE = np.empty((0, 0), np.uint8)


def holding(
    places: Places, accept: np.ndarray | None, bound: BoundBranch, item: np.ndarray, size: np.ndarray,
    conditions: Sequence[int], absences: Sequence[int] = (),
) -> np.ndarray:  # fmt: skip
    """Return which conditions and absences hold for each combination of events."""
    # Components that a condition does not read may have any places. Few tests run uncompiled.
    program, inputs = places.program, places.inputs
    n, n_tests = len(size), len(conditions) + len(absences)
    first_item = sums_before(size.sum(axis=1))
    is_few = n * n_tests < _FEW
    writer = CheckingWriter(program, bound, dtypes_of(inputs))
    source = writer.write_checks(conditions, absences, interpreted=is_few)
    check = plain_module(program, source.text)["check"] if is_few else kernel(program, source.text, "check")
    tests = np.array([test_of(program, terms) for terms in bound.absent_accepts], np.int64)
    limits = (places.time_start, places.time_end) if len(absences) else (first_item, first_item)
    out = np.empty((n, n_tests), np.uint8)
    with np.errstate(all="ignore"):  # a kernel that runs as Python warns of overflows
        check(
            n, np.ascontiguousarray(item, np.int64), first_item, np.ascontiguousarray(size, np.int64), tests,
            _NONE if accept is None else accept, *limits, *inputs.arguments(),
            np.zeros(size.shape[1], np.int64), out,
        )  # fmt: skip
    return out.astype(bool)
