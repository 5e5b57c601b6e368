"""The chains of partial matches that LinkedCEP makes, to be looked at; for some thousand events."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cepkit.errors import ResultTooLargeError
from cepkit.linked.python_machine import PlainMachine
from cepkit.linked.sequences import PlainEvents, PlainPattern

MOST_EVENTS = 2000


def chains_of(pattern: PlainPattern, events: PlainEvents) -> pd.DataFrame:
    """Return the chains of a stream, with what each shares with the chain before it.

    Parameters
    ----------
    pattern : PlainPattern
    events : PlainEvents
        At most 2,000 that the pattern uses.

    Returns
    -------
    pandas.DataFrame
        A row per event of a chain, that is per partial match of LinkedCEP: ``chain`` (int64, from 0, by the
        first event, then by component), ``component``, ``position`` (int64), ``before`` (the chain of the
        component before, or of the same one in a Kleene closure; -1: none), ``shared`` (int64: so many of its
        first events go before this chain's; 0: none). By chain, then by position.

    Raises
    ------
    ResultTooLargeError
        When there are more events.

    Notes
    -----
    The engine that tests compare the kernels with runs again: O(events x chains).
    Source: Qiu et al., LinkedCEP, section 3.2.1: the transfer pointers.

    Examples
    --------
    >>> accepts = np.array([[c == t for c in "aabb"] for t in "ab"])
    >>> chains_of(PlainPattern(2), PlainEvents(np.arange(4), accepts))
       chain  component  position  before  shared
    0      0          0         0      -1       0
    1      0          0         1      -1       0
    2      1          1         2       0       2
    3      1          1         3       0       2
    """
    n = int(np.count_nonzero(events.accepted(pattern)))
    if n > MOST_EVENTS:
        raise ResultTooLargeError(
            f"chains: {n:,} events are of the pattern; chains are shown of at most {MOST_EVENTS:,}. "
            "Search a part of the frame"
        )
    machine = PlainMachine(pattern, pattern.coverable, "latest")
    machine.push(events)
    made = [chain for own in machine._partitions.values() for chains in own.chains for chain in chains]
    made.sort(key=lambda chain: (chain.events[0], chain.component))
    number = {id(chain): c for c, chain in enumerate(made)}
    rows = [
        (c, chain.component, position, number.get(id(chain.pred), -1), chain.pred_length if chain.pred else 0)
        for c, chain in enumerate(made)
        for position in chain.events
    ]
    columns = ["chain", "component", "position", "before", "shared"]
    return pd.DataFrame(np.array(rows, np.int64).reshape(-1, 5), columns=columns)
