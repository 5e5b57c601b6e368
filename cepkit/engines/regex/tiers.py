"""Choose how a regex query runs: interpreted at once, or with a kernel of its own, which must be compiled."""

from __future__ import annotations

import numpy as np

from cepkit.compile.interpreted.regex import RegexCode, regex_code_of
from cepkit.compile.regex.program import Kernel, Program, State
from cepkit.compile.shared.bound_query import Inputs
from cepkit.compile.shared.kernel_source import KernelSource
from cepkit.compile.shared.loading import is_ready, reason_to_compile
from cepkit.engines.interpreted.regex import KERNELS, Interpreter
from cepkit.errors import CepError
from cepkit.events import FLOAT

AUTO, INTERPRETED, COMPILED = "auto", "interpreted", "compiled"
# Interpretation takes some 30 ns per event longer than a compiled kernel, and compilation about a second.
_MOST_EVENTS = 20_000_000


def kernel_for(program: Program, inputs: Inputs, n_events: int, tier: str = AUTO) -> Kernel | Interpreter:
    """Return what runs ``program`` on this many events."""
    if tier == COMPILED:
        return program.matching(inputs)
    if tier == INTERPRETED:
        code = regex_code_of(program)
        if isinstance(code, str):
            raise CepError(f"the query cannot be interpreted: it {code}")
        return Interpreter(code)
    code = code_if_new(program, program.matching_source(inputs), n_events)
    return program.matching(inputs) if isinstance(code, str) else Interpreter(code)


def labeller_for(program: Program, inputs: Inputs, n_events: int) -> Kernel | Interpreter:
    """Return what finds the positions of the rows of matches."""
    code = code_if_new(program, program.labelling_source(inputs), n_events)
    return program.labelling(inputs) if isinstance(code, str) else Interpreter(code)


def code_if_new(program: Program, source: KernelSource, n_events: int) -> RegexCode | str:
    """Return ``program`` for interpretation, or why the kernel with this source runs."""
    if n_events > _MOST_EVENTS:
        return "compilation pays for this many events"
    return reason_to_compile(source.text, KERNELS) or regex_code_of(program)


def take_over(
    program: Program, interpreter: Interpreter, state: State, inputs: Inputs
) -> tuple[Kernel, State] | None:
    """Return the query's own kernel and its state after the same events; None while it is not compiled.

    A kernel with queues keeps its starts in another order, so it does not take over.

    """
    if program.plan.queues or not is_ready(program.matching_source(inputs).text):
        return None
    kernel = program.matching(inputs)
    arrays = dict(state.arrays)
    n_floats, n_integers = 0, 0
    for i, slot in enumerate(interpreter.code.plan.slots):
        if slot.kind == FLOAT:
            arrays[f"list_s{i}"] = arrays["list_floats"][:, n_floats]
            n_floats += 1
        else:
            arrays[f"list_s{i}"] = arrays["list_integers"][:, n_integers]
            n_integers += 1
    layout = kernel.source.state
    made = {a.name: np.ascontiguousarray(arrays[a.name]).astype(a.dtype, copy=False) for a in layout}
    return kernel, State(layout, made)


def tier_of(kernel: Kernel | Interpreter) -> str:
    """Return the name of the tier."""
    return INTERPRETED if isinstance(kernel, Interpreter) else COMPILED
