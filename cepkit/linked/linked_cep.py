"""LinkedCEP finds skip-till-any sequences with chains of partial matches; run engines, for comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cepkit.errors import CepError
from cepkit.language.sequences.branches import Branch
from cepkit.language.sequences.query import SequenceQuery
from cepkit.linked.kernel_machine import KernelMachine
from cepkit.linked.patterns import OUTPUTS, Copying, PlainPattern

KLEENE = ("runs",)


class LinkedCEP(KernelMachine):
    """Find every match of a sequence (skip-till-any-match) with chains of partial matches.

    A chain holds successive events that the same components accept and that have the same predecessors. A new
    event looks only at the newest event of each chain. The engine combines the matches of a whole chain at
    the end, or only counts them.

    When no component is coverable, every chain is a run of one event and saves nothing.


    Source: Qiu et al., LinkedCEP, section 3.2, algorithms 1 (CoverMatch) and 2 (CombineMatch).
    Differs: the printed algorithms lose and invent matches with conditions between events, windows, repeated
    types, partitions, equal times or Kleene closures. They return matches only at the end of the stream. Here
    all events of a chain share their predecessors. A component has chains of several events only when no
    condition ties it to others. The window is checked again when matches are combined. A match is returned
    as soon as it ends.
    """

    def __init__(
        self,
        pattern: PlainPattern,
        *,
        output: str = "all",
        kleene: str = "runs",
        copies: str = "pointer",
        payload: int | None = None,
        ordered: bool = True,
    ):
        if output not in OUTPUTS:
            raise CepError(f"output {output!r} is not known. Outputs: {list(OUTPUTS)}")
        if kleene not in KLEENE:
            raise CepError(f"kleene {kleene!r} is not known. Ways: {list(KLEENE)}")
        super().__init__(
            pattern, pattern.coverable, output, advance_chains(output), Copying(copies, payload),
            ordered=ordered,
        )  # fmt: skip

    @property
    def coverages(self) -> np.ndarray:
        """The coverages so far in canonical order, int64, (n_coverages, n_components).

        Only with output ``latest``. A Kleene closure is represented by its latest event.

        """
        if self.output != "latest":
            raise CepError(f"an engine with output {self.output!r} keeps no coverages. Use output='latest'")
        return self.rows


def advance_chains(output: str) -> Callable[..., None]:
    """Return the function that advances the chains of a `KernelMachine`."""
    from cepkit.kernels import linked as kernel

    number = OUTPUTS.index(output)

    def advance(tables, events, store, parts, scratch, out, start, stop, report):
        kernel.advance_chains(tables, events, store, parts, scratch, out, start, stop, number, report)

    return advance


# --- queries ----------------------------------------------------------------------------------------------


def linked_unsupported(branches: Branch | Sequence[Branch], query: SequenceQuery | None = None) -> str | None:
    """Return why LinkedCEP cannot find the matches of a query; None when it can."""
    if not isinstance(branches, Branch):
        if len(branches) != 1:
            return f"it runs a single sequence; any_of, all_of and optional parts make {len(branches)}"
        branches = branches[0]
    return _branch_reason(branches) or (_query_reason(query) if query is not None else None)


def _branch_reason(branch: Branch) -> str | None:
    if branch.options:
        return "it runs no alternatives (any_of)"
    for component in branch.components:
        name = component.variable
        for strategy in (component.step, component.inner):
            if strategy != "any":
                return f"{name!r} has strategy {strategy!r}; it runs 'any' only"
        if component.rounds or (component.low, component.high) not in ((1, 1), (1, None)):
            return f"{name!r} is repeated a certain number of times; it runs single events and '+' only"
        if component.preference != "all" or component.until is not None:
            return f"the loop of {name!r} has a preference or an 'until'; it runs neither"
    for absence in branch.absences:
        if absence.spanning or absence.before != absence.after + 1:
            return (
                f"{absence.variable!r} must be absent over several events; it looks between neighbours only"
            )
        if not 0 <= absence.after < len(branch.components) - 1:
            return (
                f"{absence.variable!r} must be absent at an edge of the window; it looks between events only"
            )
    return None


def _query_reason(query: SequenceQuery) -> str | None:
    if query.after_match != ("none", None):
        return "it reports every match and has no after_match policies"
    for name in ("within_events", "gap_within"):
        if getattr(query, name) is not None:
            return f"it has no {name}"
    return None


# Run engines for skip-till-any sequences, for comparison with LinkedCEP: every partial match is a run.

# Where runs are kept: in one list per partition, or in one list per component.
KEPT = ("together", "by_component")
_OUTPUTS = ("all", "count")


class _Runs(KernelMachine):
    """Find every match of a sequence (skip-till-any-match) by runs. An event that extends a run copies it."""

    kept: str

    def __init__(
        self,
        pattern: PlainPattern,
        *,
        output: str = "all",
        copies: str = "pointer",
        payload: int | None = None,
        ordered: bool = True,
    ):
        if output not in _OUTPUTS:
            raise CepError(f"output {output!r} is not known. Outputs: {list(_OUTPUTS)}")
        super().__init__(
            pattern, (False,) * pattern.n_components, output, _advance_runs(self.kept, output),
            Copying(copies, payload), ordered=ordered,
        )  # fmt: skip


class SaseRuns(_Runs):
    """Find every match of a sequence (skip-till-any-match) by runs in one list, as in SASE.

    An event that can extend a run extends a copy, because the run itself also waits for other events. Every
    event that the pattern uses visits all runs of its partition. It ends the runs that are too old and copies
    the runs that it fits.


    Source: Agrawal, Diao, Gyllstrom, Immerman, "Efficient pattern matching over event streams", SIGMOD 2008.
    Differs: an event that must not occur between neighbours ends runs when it comes; no later check looks
    for it. By default a run points to the run that it extends, as in the shared buffer of SASE+, and does not
    repeat its events. So a copy costs the same at any length.
    """

    kept = "together"


class SiddhiLikeRuns(_Runs):
    """Find every match of a sequence (skip-till-any-match) by runs in a list per component, as in Siddhi.

    An event visits only the lists of the components that it may follow, oldest run first, and ends the runs
    that are too old. It does not visit most of the runs that it cannot extend. Parameters and results are
    those of `SaseRuns`.

    Source: Suhothayan et al., "Siddhi: A second look at complex event processing architectures", GCE 2011.
    Differs: Siddhi's own ``->`` takes only the first event that fits, so its results could not be equal. This
    engine stores and visits partial matches as Siddhi does, but with the semantics of skip-till-any-match.
    """

    kept = "by_component"


def _advance_runs(kept: str, output: str):
    from cepkit.kernels import linked as kernel

    mode = _OUTPUTS.index(output), KEPT.index(kept)

    def advance(tables, events, store, parts, scratch, out, start, stop, report):
        kernel.advance_runs(tables, events, store, parts, scratch, out, start, stop, mode, report)

    return advance
