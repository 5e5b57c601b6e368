"""Absences → Python source of the kernel that finds the nearest event that a link forbids."""

from __future__ import annotations

from cepkit.compile.counting.conditions import ConditionWriter, CountingKernel, indented, over
from cepkit.compile.counting.state_graph import LinkAbsence, elements_of


def write_absence(writer: ConditionWriter, link: int, absence: LinkAbsence) -> CountingKernel:
    """Write the kernel that finds where an absence with conditions on one neighbour forbids a link.

    Blocks of events are tested at once, up to the first one with a hit.
    """
    graph, of = writer.graph, writer.graph.links[link]
    ahead = absence.side == "earlier"
    pool = graph.pool_of_component(of.source if ahead else of.target)
    absent = graph.tests.index(absence.test)
    every = elements_of(absence.terms)
    own = [leaf for leaf in every if leaf.data[0] == absence.variable]
    lines, test = writer.condition(
        absence.terms,
        vectors={leaf: writer.column(absent, leaf.data[-1]) for leaf in own},
        scalars={leaf: f"{writer.column(pool, leaf.data[-1])}[a]" for leaf in every if leaf not in own},
    )
    body = [
        "work = 0",
        "for a in range(begin, len(out)):",
        "    low, high = first[a], stop[a]",
        f"    found = {1 << 62 if ahead else 0}",
        *indented(lines),
        "    while low < high:",
        f"        {'b, c = low, min(high, low + 64)' if ahead else 'b, c = max(low, high - 64), high'}",
        "        some = 0",
        f"        {over('b', 'c')}",
        f"            some |= 1 if {test} else 0",
        "        work += c - b",
        "        if some:",
        f"            for r in range({'b, c' if ahead else 'c - 1, b - 1, -1'}):",
        f"                if {test}:",
        f"                    found = {writer.array('members', absent)}[r]",
        "                    break",
        "            break",
        f"        {'low = c' if ahead else 'high = b'}",
        "    out[a] = found",
        "    if work > work_limit:",
        "        return a + 1",
        "return len(out)",
    ]
    arguments = [("begin", "T.int64"), ("work_limit", "T.int64")]
    return writer.module("nearest", arguments, body, [("first", "I1"), ("stop", "I1"), ("out", "I1")])
