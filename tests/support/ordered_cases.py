"""Cases for the engine of single events in any order; its answers compared with the definition."""

from __future__ import annotations

import itertools

import numpy as np

from cepkit.engines.ordered import OrderedEvents, ordered_sequence, ordered_unsupported
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import all_of, as_matches, bound, prepared

FAMILIES = [name for name, (strategies, _) in gs.FAMILIES.items() if "any" in strategies]


def check(query, rows, n_orders: int) -> bool:
    """Compare up to ``n_orders`` orders with the definition, and return whether the case has matches.

    The orders lie as far apart as possible, so that they begin with different events.
    """
    program, events = prepared(query, gs.to_frame(rows))
    wanted = sequence_matches(query, rows)
    own = OrderedEvents(program, events)
    orders_of_branch = [list(itertools.permutations(range(len(b.accepts)))) for b in program.branches]
    lasts = [match.rows[-1] for match in wanted]
    most = max(map(len, orders_of_branch))
    for i in np.unique(np.linspace(0, most - 1, min(n_orders, most)).astype(int)).tolist():
        orders = [orders[i % len(orders)] for orders in orders_of_branch]
        found = ordered_sequence(own, orders)
        assert as_matches(program, all_of(found)) == wanted, orders
        again = ordered_sequence(own, orders, most_known=0) if wanted else found  # counted, searched again
        positions, counts = again.ends()
        assert np.repeat(positions, np.asarray(counts, dtype=np.int64)).tolist() == lasts, orders
        n = events.n_events
        for low, high in ((0, n // 2), (n // 3, n), (n // 2, n // 2 + 1)):
            part = [match for match, last in zip(wanted, lasts, strict=True) if low <= last < high]
            assert as_matches(program, again.ending(low, high)) == part, (orders, low, high)
    return len(wanted) > 0


def drawn(seed: int, family: str) -> tuple[gs.Case, str | None]:
    """Return a case, and why no order can be tried on it."""
    case = gs.case(9000 + seed, 9000 + seed, family)
    reason = ordered_unsupported(bound(case)[0])
    return case, reason or ("after_match" if case.query.selects else None)
