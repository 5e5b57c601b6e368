"""Run engines for skip-till-any sequences, for comparison with LinkedCEP: every partial match is a run."""

from __future__ import annotations

from cepkit.errors import CepError
from cepkit.linked.kernel_machine import KernelMachine
from cepkit.linked.patterns import Copying, PlainPattern

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

    number, by_component = _OUTPUTS.index(output), KEPT.index(kept)

    def advance(tables, events, store, parts, scratch, out, start, stop, report):
        kernel.advance_runs(
            tables, events, store, parts, scratch, out, start, stop, number, by_component, report
        )

    return advance
