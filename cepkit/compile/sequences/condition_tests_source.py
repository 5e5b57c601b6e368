"""Write the Python source of the kernel that tests given matches against each condition of a branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cepkit.compile.sequences.program import BoundBranch, SequenceProgram
from cepkit.compile.sequences.search_source import SearchWriter
from cepkit.compile.shared.kernel_source import KernelSource, decorator, module_header
from cepkit.compile.shared.term_writing import helper_lines


def write_checking(
    program: SequenceProgram,
    bound: BoundBranch,
    dtypes: Mapping[str, str],
    conditions: Sequence[int],
    absences: Sequence[int],
    *,
    interpreted: bool = False,
) -> KernelSource:
    """Write the kernel that tests given events against each condition and absence of a branch separately."""
    writer = _CheckingWriter(program, bound, dtypes)
    writer.python = writer.python or interpreted
    return writer.write_checks(conditions, absences)


class _CheckingWriter(SearchWriter):
    def write_checks(self, conditions: Sequence[int], absences: Sequence[int]) -> KernelSource:
        # A condition's function also exists twice: for Python and for kernels.
        helpers = helper_lines(self.program.terms(), python=self.python)
        self.lines = [*module_header().splitlines(), *helpers]
        body, k = [], 0
        values = ", ".join(self.writer.arguments())
        values = f", {values}" if values else ""
        for i in conditions:
            self._condition(i, self.bound.conditions[i])
            condition = self.bound.conditions[i].condition
            c = condition.decided_at
            begin = f"first[{c}]" if condition.each else f"first[{c}] + size[m, {c}] - 1"
            body += [
                "        holds = 1",
                f"        for d in range({begin}, first[{c}] + size[m, {c}]):",
                f"            if not holds{i}(path, first, d, 0{values}):",
                "                holds = 0",
                f"        out[m, {k}] = holds",
            ]
            k += 1
        for a in absences:
            begun = self._free_of(a)
            d = f"first[{self.branch.absences[a].before}]" if begun else "len(path) - 1"
            given = f"absent_tests[{a}], accept, time_start, time_end, path, first, {d}, 0{values}"
            body.append(f"        out[m, {k}] = 1 if free{a}({given}) else 0")
            k += 1
        arguments = ["n", "item", "first_item", "size", "absent_tests", "accept", "time_start", "time_end"]
        arguments += [*self.writer.arguments(), "first", "out"]
        int1, byte2 = "read_only(T.int64)", 'T.Array(T.uint8, 2, "C")'
        types = ["T.int64", "I1", int1, "I2", int1, byte2, int1, int1, *self.writer.argument_types()]
        if not self.python:
            self.lines += decorator([*types, "I1", byte2], user_functions=bool(self.program.functions))
        self.lines += [
            f"def check({', '.join(arguments)}):",
            "    for m in range(n):",
            "        path = item[first_item[m]:first_item[m + 1]]",
            "        d = 0",
            f"        for c in range({self.n}):",
            "            first[c] = d",
            "            d += size[m, c]",
            *body,
        ]
        return KernelSource("\n".join(self.lines) + "\n", ())
