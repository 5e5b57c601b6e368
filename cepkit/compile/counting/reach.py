"""State graph → Python source of the kernels that say which events can be part of a match."""

from __future__ import annotations

from cepkit.compile.counting.path_source import INT1, READ, PathModuleWriter


def write_starts(writer: PathModuleWriter) -> str:
    """Write the kernel that finds the latest starts of the paths that end at each event.

    The kernel looks at preceding entries from the nearest on, and stops where none can have a later start
    than the latest found.
    """
    helpers = writer.over_links("best_of", "cell, latest", _BEST)
    types = ["T.int64"] * 4 + [READ] * 4 + writer.value_types + [INT1]
    return writer.path_module(helpers, (_STARTS, types))


def write_reach_back(writer: PathModuleWriter) -> str:
    """Write the kernel that goes back from the ends of matches to all events that they can contain.

    An entry is part of a match when ``latest >= needed``: conditions link neighbours only, so the latest
    start and the earliest end belong to one match. Others are skipped.
    """
    helpers = writer.over_links("bring", "w, cell, needed", _BRING)
    types = ["T.int64"] * 4 + [READ] * 4 + writer.value_types + [INT1]
    return writer.path_module(helpers, (_BACK, types))


_BEST = """    LOADS
    if lo >= hi:
        return -1
    v = latest[cell + lo : cell + hi]
    best = -1
    for j in range(len(v)):
        best = max(best, v[j] if CONDITION else -1)
    return best"""

_STARTS = """def starts(s, begin, end, work_limit, offset, low, high, window_start, VALUES, latest):
    work = 0
    for i in range(begin, end):
        if latest[offset[s] + i] < 0:
            continue
        best = -1
        for edge in range(FIRST_EDGE[s], FIRST_EDGE[s + 1]):
            lo, hi = low[i], high[i]
            while lo < hi and place[hi - 1] > best:
                near = max(lo, hi - 64)
                best = max(best, best_of(LINK[edge], i, near, hi, offset[SOURCE[edge]], latest, VALUES))
                work += 64
                hi = near
        latest[offset[s] + i] = best if best >= window_start[i] else -1
        if work > work_limit:
            return i + 1
    return end
"""

_BRING = """    LOADS
    if lo < hi:
        v = needed[cell + lo : cell + hi]
        for j in range(len(v)):
            v[j] = min(v[j], w) if CONDITION else v[j]
    return 0"""

_BACK = """def back(s, begin, end, work_limit, offset, low, high, latest, VALUES, needed):
    work = 0
    for i in range(end - 1, begin - 1, -1):
        w = needed[offset[s] + i]
        if latest[offset[s] + i] < w:
            continue
        for edge in range(FIRST_EDGE[s], FIRST_EDGE[s + 1]):
            bring(LINK[edge], i, low[i], high[i], w, offset[SOURCE[edge]], needed, VALUES)
            work += high[i] - low[i]
        if work > work_limit:
            return i
    return begin
"""
