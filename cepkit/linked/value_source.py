"""Write the source of a kernel that computes values of single events for all events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cepkit.compile.sequences.path_writing import PathWriter
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.kernel_source import KernelSource, decorator, module_header
from cepkit.compile.shared.term_writing import stored_dtype
from cepkit.compile.shared.terms import Term


def write_values(program: SequenceProgram, terms: Sequence[Term], dtypes: Mapping[str, str]) -> KernelSource:
    """Write the kernel that computes ``terms`` from the columns of each event."""
    python = not program.compiled
    writer = PathWriter(program.terms(), dtypes, tuple(program.functions), is_group=(False,), python=python)
    outs = [f"out{i}" for i in range(len(terms))]
    types = ["T.int64", "T.int64", *writer.argument_types()]
    types += [f'T.Array(T.{stored_dtype(term)}, 1, "C")' for term in terms]
    lines = [*module_header().splitlines(), *writer.helpers]
    if not python:
        lines += decorator(types, user_functions=bool(program.functions))
    lines += [f"def values({', '.join(['start', 'stop', *writer.arguments(), *outs])}):"]
    lines += ["    for y in range(start, stop):"]
    for out, term in zip(outs, terms, strict=True):
        leaves = dict.fromkeys(leaf for leaf in term.walk() if leaf.op == "element")
        writer.names = {leaf: f"x{n}" for n, leaf in enumerate(leaves)}
        lines += [
            f"        {name} = {writer.load(leaf.data[-1], 'y')}" for leaf, name in writer.names.items()
        ]
        lines += [f"        {out}[y] = {writer.stored(term)}"]
    return KernelSource("\n".join(lines) + "\n", ())
