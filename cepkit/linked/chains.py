"""The chains of partial matches that LinkedCEP makes, as a frame; for up to 2,000 events."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from cepkit.errors import ResultTooLargeError
from cepkit.linked.kernel_machine import KernelMachine
from cepkit.linked.linked_cep import advance_chains
from cepkit.linked.patterns import PlainEvents, PlainPattern

MOST_EVENTS = 2000


def chains_of(pattern: PlainPattern, events: PlainEvents) -> pd.DataFrame:
    """Return the chains of a stream and what each shares with the chain of the component before.

    Source: Qiu et al., LinkedCEP, section 3.2.1, transfer pointers.
    """
    n = int(np.count_nonzero(events.accepted(pattern)))
    if n > MOST_EVENTS:
        raise ResultTooLargeError(
            f"chains: the pattern uses {n:,} events. Chains can be shown for at most {MOST_EVENTS:,}. "
            "Search a part of the frame"
        )
    from cepkit.kernels import linked as kernel

    # The engine does not keep chains of the last component. One more component, which accepts no event,
    # makes it keep them.
    longer = replace(pattern, n_components=pattern.n_components + 1)
    nothing = np.zeros((1, events.n_events), np.uint8)
    accepts = np.concatenate([np.asarray(events.accepts_of_component, np.uint8), nothing])
    events = replace(events, accepts_of_component=accepts)
    machine = KernelMachine(longer, (*pattern.coverable, True), "count", advance_chains("count"))
    about: list[tuple[int, int, int]] = []  # for each chain: component, before, shared
    events_of_chain: list[list[int]] = []
    chain_of_slot: dict[int, int] = {}
    begin = 0
    for e in np.flatnonzero(events.accepted(longer)).tolist():
        machine.push(events.take(slice(begin, e + 1)))
        begin, slots = e + 1, machine.slots
        joined = np.flatnonzero(slots[:, kernel.TAIL] == e)
        is_new = slots[joined, kernel.HEAD] == e
        for slot in joined[~is_new].tolist():
            events_of_chain[chain_of_slot[slot]].append(e)
        made = []
        for slot in joined[is_new].tolist():
            before = chain_of_slot.get(int(slots[slot, kernel.PRED]), -1)
            component, shared = int(slots[slot, kernel.COMPONENT]), 0
            if before >= 0:
                shared = events_of_chain[before].index(slots[slot, kernel.PRED_TAIL]) + 1
            made.append(((component, about[before][0] if before >= 0 else -1, before), shared, slot))
        for (component, _, before), shared, slot in sorted(made):
            chain_of_slot[slot] = len(about)
            about.append((component, before, shared))
            events_of_chain.append([e])
    rows = [
        (c, component, position, before, shared)
        for c, (component, before, shared) in enumerate(about)
        for position in events_of_chain[c]
    ]
    columns = ["chain", "component", "position", "before", "shared"]
    return pd.DataFrame(np.array(rows, np.int64).reshape(-1, 5), columns=columns)
