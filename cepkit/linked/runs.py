"""Run engines for skip-till-any sequences: one partial match, one run. What LinkedCEP is compared with."""

from __future__ import annotations

from cepkit.errors import CepError
from cepkit.linked.kernel_machine import KernelMachine, PlainEngine
from cepkit.linked.sequences import PlainPattern

# How runs are kept: in one list per partition, or in a list per component that waits for the next one.
KEPT = ("together", "by_component")
_OUTPUTS = ("all", "count")


class _Runs(PlainEngine):
    """Every match of a sequence (skip-till-any-match) by runs that are copied when an event extends them."""

    kept: str

    def __init__(self, pattern: PlainPattern, *, output: str = "all"):
        if output not in _OUTPUTS:
            raise CepError(f"output {output!r} is not known. Outputs: {list(_OUTPUTS)}")
        self.pattern, self.output = pattern, output
        coverable = (False,) * pattern.n_components
        self._machine = KernelMachine(pattern, coverable, output, _advance_runs(self.kept, output))


class SaseRuns(_Runs):
    """Every match of a sequence (skip-till-any-match) by runs, kept together as in SASE.

    An event that may extend a run extends a copy of it, as the run itself waits for other events too. Every
    event that the pattern uses visits all runs of its partition: those that are too old end, those that it
    fits are copied.

    Parameters
    ----------
    pattern : PlainPattern
    output : {"all", "count"}
        The matches, or only their number; either way each complete match is a run that is made.

    Notes
    -----
    Time O(live runs) per event, memory O(live runs + events pushed).

    Source: Agrawal, Diao, Gyllstrom, Immerman, "Efficient pattern matching over event streams", SIGMOD 2008.
    Differs: events between neighbours that must not occur end runs when they come, and are not looked for
    afterwards. A run points to the one it was copied from, as in the shared buffer of SASE+, and is not
    written out; a copy costs the same whatever its length.

    Examples
    --------
    >>> import numpy as np
    >>> from cepkit.linked.sequences import PlainEvents
    >>> accepts = np.array([[c == t for c in "aabbabcc"] for t in "abc"])
    >>> engine = SaseRuns(PlainPattern(3))
    >>> engine.push(PlainEvents(np.arange(8), accepts)).n_matches
    14
    >>> engine.counters.nodes, engine.counters.copies
    (24, 21)
    """

    kept = "together"


class SiddhiLikeRuns(_Runs):
    """Every match of a sequence (skip-till-any-match) by runs that wait in a list per component.

    An event visits only the lists of the components that it may follow, the oldest run first, and ends those
    that are too old on the way; so many runs that it cannot extend are not looked at. Parameters and results
    are those of `SaseRuns`.

    Notes
    -----
    Source: Suhothayan et al., "Siddhi: A second look at complex event processing architectures", GCE 2011.
    Differs: Siddhi's own ``->`` takes the first event that fits and ends there; with it equal results are
    impossible. What is taken from Siddhi is how partial matches are stored and visited, not what they mean.
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
