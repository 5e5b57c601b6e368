"""Write the Python source of conditions on a partial match, as functions of its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cepkit.compile.sequences.program import EACH, EARLIER, LAST, PREVIOUS
from cepkit.compile.shared.term_writing import VECTOR, TermWriter
from cepkit.compile.shared.terms import Term
from cepkit.events import BOOLEAN, FLOAT, NULL_CODE, TEXT


class PathWriter(TermWriter):
    """Writes functions ``name(path, first, last, y, …)`` that test whether a condition holds on a path."""

    # ``path[d]`` is the place of the d-th event, and component c begins at ``first[c]``. ``last`` is the
    # index of the last event in ``path``. ``y`` is the place of an event outside the path: an absent event,
    # or one that may end a loop.

    def __init__(
        self,
        terms: Iterable[Term],
        dtypes: Mapping[str, str],
        functions: tuple[str, ...],
        *,
        is_group: tuple[bool, ...],
        python: bool,
    ):
        super().__init__(terms, dtypes, functions, python=python)
        self.is_group = is_group
        self.names: dict[Term, str] = {}
        self.parameters = ", ".join(["path", "first", "last", "y", *self.arguments()])

    def leaf(self, term: Term) -> str:
        """Return the name of the element or aggregate in the current function; a column is that at ``y``."""
        return self.load(term.data, "y") if term.op == "column" else self.names[term]

    def valid(self, term: Term) -> list[str]:
        if term.op == "element" and term.args:
            return [f"{self.value(term)}_there"]
        return super().valid(term)

    def similarity(self, term: Term) -> str:
        """Return the code of a function of two arrays; null if one of the events is missing."""
        code = super().similarity(term)
        optional = [arg for arg in term.args if arg.op == "element" and isinstance(arg.data[1], int)]
        if not optional:
            return code
        return f"({code} if {' and '.join(f'{self.value(arg)} >= 0' for arg in optional)} else NAN)"

    def load(self, column: str, place: str) -> str:
        """Return the code that reads ``column`` at ``place``, in the width used for computation."""
        # For an array column, the code is the place itself.
        i = self.columns.index(column)
        dtype = self.dtypes[column]
        if dtype == VECTOR:
            return place
        if dtype in ("int64", "float64", "object"):
            return f"c{i}[{place}]"
        return f"np.{'float64' if dtype == 'float32' else 'int64'}(c{i}[{place}])"

    def condition(
        self,
        name: str,
        term: Term,
        component_of: Mapping[str, int],
        *,
        top: int,
        taking: int | None = None,
        taken: int | None = None,
        beside: str | None = None,
    ) -> list[str]:
        """Return the lines of the function ``name``."""
        body: list[str] = []
        depth = 1

        def add(*lines: str) -> None:
            body.extend("    " * depth + line for line in lines)

        def end(c: int) -> str:
            if c == taken:
                return f"g{c}"
            return "last" if c == top else f"first[{c + 1}] - 1"

        leaves = list(dict.fromkeys(_leaves(term)))
        elements = [leaf for leaf in leaves if leaf.op == "element"]
        groups = [leaf for leaf in leaves if leaf.op == "group"]
        back = {leaf.data[0] for leaf in elements if leaf.data[1] == PREVIOUS}
        back |= {leaf.data[1] for leaf in groups if leaf.data[2] == EARLIER}
        looped = [leaf.data[0] for leaf in elements if leaf.data[1] in (EACH, PREVIOUS)]
        looped += [leaf.data[1] for leaf in groups if leaf.data[2] == EARLIER]
        at: dict[str, str] = {}
        n_loops = 0
        for variable in dict.fromkeys(looped):
            if variable == beside:
                continue
            c = component_of[variable]
            if c == taking:
                if variable in back:
                    add(f"if last == first[{c}]:", "    return True")
                at[variable] = "last"
            elif self.is_group[c]:
                begin = f"first[{c}] + 1" if variable in back else f"first[{c}]"
                until = "last" if c == top else f"first[{c + 1}] - 1"
                add(f"for g{c} in range({begin}, {until} + 1):")
                at[variable] = f"g{c}"
                depth += 1
                n_loops += 1
            else:
                at[variable] = f"first[{c}]"
        self.names = {leaf: f"v{i}" for i, leaf in enumerate([*elements, *groups])}
        for leaf in elements:
            variable, which, column = leaf.data
            v = self.names[leaf]
            if variable == beside:
                add(f"{v} = {self.load(column, 'y')}")
            elif which in (EACH, PREVIOUS):
                back_by = " - 1" if which == PREVIOUS else ""
                add(f"{v} = {self.load(column, f'path[{at[variable]}{back_by}]')}")
            elif which == LAST:
                add(f"{v} = {self.load(column, f'path[{end(component_of[variable])}]')}")
            else:
                c = component_of[variable]
                add(f"{v} = {_null(leaf)}", f"{v}_there = first[{c}] + {which - 1} <= {end(c)}")
                add(f"if {v}_there:")
                add(f"    {v} = {self.load(column, f'path[first[{c}] + {which - 1}]')}")
        for leaf in groups:
            c = component_of[leaf.data[1]]
            until = f"{at[leaf.data[1]]} - 1" if leaf.data[2] == EARLIER else end(c)
            add(*self._group(leaf, f"first[{c}]", until))
        holds = self.true(term)
        add(*([f"if not {holds}:", "    return False"] if n_loops else [f"return {holds}"]))
        if n_loops:
            body.append("    return True")
        return [f"def {name}({self.parameters}):", *body]

    def _group(self, leaf: Term, low: str, high: str) -> list[str]:
        """Return the lines that compute an aggregate over the events from depth ``low`` to ``high``."""
        function, v = leaf.data[0], self.names[leaf]
        if function == "count":
            return [f"{v} = {high} - {low} + 1"]
        arg = leaf.args[0]
        items = list(dict.fromkeys(_leaves(arg)))
        self.names.update({item: f"{v}_{i}" for i, item in enumerate(items)})
        reads = [f"{self.names[item]} = {self.load(item.data[2], 'path[d]')}" for item in items]
        if function in ("first", "last"):
            d = low if function == "first" else high
            return [f"d = {d}", *reads, f"{v} = {self.stored(arg)}"]
        if function == "values":
            add = [*reads, f"{v} = {self.longer(v, arg)}"]
            return [f"{v} = None", f"for d in range({low}, {high} + 1):", *("    " + line for line in add)]
        value_test = self.all(self.present(arg))
        x = self.value(arg)
        new = {
            "count_of": f"{v} + 1", "sum": f"{v} + {x}", "min": f"min({v}, {x})", "max": f"max({v}, {x})",
        }[function]  # fmt: skip
        is_count = function == "count_of"
        lines = [f"{v} = 0" if is_count else f"{v} = {_null(leaf)}", f"{v}_n = 0"]
        lines += [f"for d in range({low}, {high} + 1):", *("    " + read for read in reads)]
        lines += [f"    if {value_test}:"]
        lines += [f"        {v} = {new}" if is_count else f"        {v} = {x} if {v}_n == 0 else {new}"]
        return [*lines, f"        {v}_n += 1"]


def _leaves(term: Term) -> Iterator[Term]:
    """Yield the elements and aggregates of ``term``, but not the arguments of aggregates."""
    if term.op in ("element", "group"):
        yield term
        return
    for arg in term.args:
        yield from _leaves(arg)


def _null(term: Term) -> str:
    return (
        "NAN" if term.kind == FLOAT else str(NULL_CODE) if term.kind in (TEXT, BOOLEAN) else "np.int64(NULL)"
    )
