"""Anchored graph → Python source of the kernels that walk over matches and follow one by its number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from cepkit.compile.counting.anchored_source import AnchoredKernel, AnchoredWriter
from cepkit.compile.counting.conditions import indented
from cepkit.compile.counting.state_graph import AnchoredGraph
from cepkit.compile.sequences.program import SequenceProgram

# Indices of the walk's report.
END, DEPTH, N_MATCHES, N_ITEMS, REASON, DONE = range(6)
FULL, LONGER, DEEPER = 1, 2, 3  # why a walk paused: no room for matches, for their events, for its path
_NEVER = 1 << 62


def write_reach(program: SequenceProgram, graph: AnchoredGraph, dtypes: Mapping[str, str]) -> AnchoredKernel:
    """Write the kernel that finds the first entry of each state for each anchor."""
    writer = AnchoredWriter(program, graph, dtypes)
    wanted = [s for s in writer.states if graph.out_of(s)]
    body = ["k, work = begin, 0", "while k < stop and work <= work_limit:"]
    loop = [*writer.load("y", "anchor", "k"), *(f"r{s} = NEVER" for s in wanted)]
    step = [f"m = {writer.array('mask', dtype=writer.mask_dtype)}[e]", *writer.load("x", "entry", "e")]
    for t in wanted:
        ways = []
        for e in graph.into(t):
            s = graph.edges[e].source
            ways += [(writer.enters(e) or "True") if s == 0 else f"(r{s} < e)"] if s != t else []
        test = writer.accepts(t, f"r{t} == NEVER", " | ".join(f"({way})" for way in ways))
        step += [f"if {test}:", f"    r{t} = e"]
    step += [f"if {' and '.join(f'r{s} < NEVER' for s in wanted)}:", "    break"] if wanted else []
    loop += [f"for e in range({writer.array('first')}[k], {writer.array('until')}[k]):", *indented(step)]
    loop += ["    work += 1", *(f"out[k * {writer.n_states} + {s}] = r{s}" for s in wanted)]
    loop += ["k, work = k + 1, work + 1"]
    body += [*indented(loop), "return k"]
    arguments = [("begin", "T.int64"), ("stop", "T.int64"), ("work_limit", "T.int64")]
    return writer.assemble("reach", arguments, body, [("out", "I1")], (f"NEVER = {_NEVER}",))


def write_walk(program: SequenceProgram, graph: AnchoredGraph, dtypes: Mapping[str, str]) -> AnchoredKernel:
    """Write the kernel that finds all matches in canonical order.

    The walk goes from the last event of a match back to the first. Depth d of its path has ``entry[d]``,
    and the anchors that are possible for the path so far: ``alive[begin[d]:begin[d + 1]]``, with the states
    in which the entry can be. Anchors and earlier entries are tried in the order of their places.
    """
    return _AnchoredWalkWriter(program, graph, dtypes).walk()


def write_narrowing(
    program: SequenceProgram, graph: AnchoredGraph, dtypes: Mapping[str, str]
) -> AnchoredKernel:
    """Write the kernel that finds the anchors that are possible for a path."""
    return _AnchoredWalkWriter(program, graph, dtypes).narrowing()


class _AnchoredWalkWriter(AnchoredWriter):
    def _leads(self, t: int) -> str | None:
        """Return the code that is true if a path from anchor k to entry e in state t may exist.

        None: there always is one.

        """
        tests = [self.enters(e) for e in self.graph.into(t) if self.graph.edges[e].source == 0]
        if None in tests:
            return None
        ways = list(filter(None, tests))
        for e in self.graph.into(t):
            s = self.graph.edges[e].source
            if s > 0:
                ways.append(f"{self.array('reach')}[k * {self.n_states} + {s}] < e")
        return " | ".join(f"({way})" for way in ways)

    @cached_property
    def _prunes(self) -> bool:
        """Whether a path may be unable to begin with its anchor; if not, only its last event can mislead."""
        return any(self._leads(t) is not None for t in self.states if self.graph.out_of(t))

    def _new_states(self, condition_on: Callable[[int], str | None], prunes: bool = True) -> list[str]:
        """Return the lines that compute the states of entry e; ``condition_on`` has that of each."""
        bits = []
        for t in self.states:
            if (condition := condition_on(t)) is None:
                continue
            leads = self._leads(t) if prunes else None
            test = self.accepts(t, *filter(None, [condition, leads]))
            bits.append(f"({1 << t} if {test} else 0)")
        return [f"new = {' | '.join(bits) or '0'}"]

    def _narrow(self, high: str, out_alive: str, out_states: str, n: str) -> list[str]:
        """Return the lines that write the anchors of ``alive`` from q to ``high`` that e leaves possible."""
        lines = [f"for q in range(low, {high}):", "    k, am = alive[q], states[q]"]
        body = [*self.load("y", "anchor", "k"), *self._new_states(self.precedes)]
        body += [f"{out_alive}[{n}], {out_states}[{n}] = k, new"]
        body += [f"{n} += 1 if (new != 0) & ({self.array('first')}[k] <= e) else 0"]
        return [*lines, *indented(body)]

    def _finish(self, low: str, high: str, n: str, out_alive: str, out_states: str) -> list[str]:
        """Return the lines that write the anchors that are possible if entry e is the last."""
        body = [*self.load("y", "anchor", "k")]
        body += self._new_states(lambda t: "True" if self.graph.states[t].is_final else None, self._prunes)
        body += ["if new != 0:", f"    {out_alive}[{n}], {out_states}[{n}] = k, new", f"    {n} += 1"]
        return [f"for k in range({low}, {high}):", *indented(body)]

    def _is_leaf(self) -> str:
        """Return the code that is true if anchor k can come before entry x, in the states ``am``."""
        ways = []
        for e in self.graph.out_of(0):
            test = self.enters(e, "w", "x")
            bit = f"am & {1 << self.graph.edges[e].target} != 0"
            ways.append(f"(({bit}) & ({test}))" if test else f"({bit})")
        return " | ".join(ways)

    def _entry(self) -> list[str]:
        return [f"m = {self.array('mask', dtype=self.mask_dtype)}[e]", *self.load("x", "entry", "e")]

    def narrowing(self) -> AnchoredKernel:
        """Return the kernel of `write_narrowing`."""
        body = ["n = 0", *self._entry(), "if x < 0:"]
        body += indented(self._finish("low", "stop", "n", "out_alive", "out_states"))
        body += ["    return n", *self.load("w", "entry", "x")]
        body += self._narrow("stop", "out_alive", "out_states", "n")
        leaf = [*self.load("y", "anchor", "k"), f"leaves[q] = 1 if {self._is_leaf()} else 0"]
        body += ["for q in range(low, stop):", "    k, am = alive[q], states[q]", *indented(leaf), "return n"]
        arguments = [(name, "T.int64") for name in ("x", "e", "low", "stop")]
        arguments += [("alive", "I1"), ("states", "I1")]
        outputs = [("out_alive", "I1"), ("out_states", "I1"), ("leaves", "I1")]
        return self.assemble("narrow", arguments, body, outputs)

    def walk(self) -> AnchoredKernel:
        """Return the kernel of `write_walk`."""
        goes_on = sum(1 << s for s in self.states if self.graph.out_of(s))
        mask, first = self.array("mask", dtype=self.mask_dtype), self.array("first")
        lines_of_name = {
            "FINISH": self._finish("lowest[number]", "highest[number]", "n", "alive", "states"),
            "NARROW": self._narrow("j", "alive", "states", "n"),
            "ENTRY": self._entry(),
            "SHORT": _SHORT if self._takes_three else [],
            "TARGET": self.load("w", "entry", "x"),
            "ANCHOR": self.load("y", "anchor", "k"),
            "COMPONENT": self._component(),
        }
        text = _WALK.replace("IS_LEAF", self._is_leaf())
        body = []
        for line in text.splitlines():
            name = line.strip()
            indent = (len(line) - len(line.lstrip())) // 4
            body += indented(lines_of_name[name], indent) if name in lines_of_name else [line]
        body = [
            line.replace("MASK", mask).replace("FROM", first).replace("GOES_ON", str(goes_on))
            for line in body
        ]
        outputs = [("out_position", "I1"), ("out_component", 'T.Array(T.int16, 1, "C")')]
        outputs += [("out_first", "I1"), ("report", "I1")]
        arguments = [("stop", "T.int64"), ("work_limit", "T.int64")]
        names = ["ends", "lowest", "highest", "position", "position_of_anchor", "place", "place_of_anchor"]
        arguments += [(name, "read_only(T.int64)") for name in names]
        arguments += [("component", "read_only(T.int16)")]
        arguments += [(name, "I1") for name in ("entry", "turn", "cursor", "begin", "alive", "states")]
        return self.assemble("walk", arguments, body, outputs)

    @property
    def _takes_three(self) -> bool:
        """Whether every match has an entry between its anchor and its last event."""
        return not any(self.graph.states[self.graph.edges[e].target].is_final for e in self.graph.out_of(0))

    def _component(self) -> list[str]:
        """Return the lines that write the component of event number i of the d + 2 events of a match."""
        components = self.graph.branch.branch.components
        if len(self.graph.loops) > 1:
            return ["out_component[p] = component[entry[d + 1 - i]]"]
        loop = (*self.graph.loops, len(components))[0]
        before = [c for c in range(loop) for _ in range(components[c].low)]
        after = [c for c in range(loop + 1, len(components)) for _ in range(components[c].low)]
        code = str(loop)
        if after:
            for number, c in enumerate(after):
                code = f"({c} if i == d + {2 - len(after) + number} else {code})"
        for number, c in enumerate(before):
            code = f"({c} if i == {number} else {code})"
        return [f"out_component[p] = {code}"]


# Skips an end before which no entry can follow an anchor.
_SHORT = """j = e - 1
if lowest[number] < highest[number]:
    low = FROM[lowest[number]]
    while j >= low and MASK[j] & GOES_ON == 0:
        j -= 1
    if j < low:
        continue
else:
    continue""".splitlines()
# The walk. ``turn[d]`` is the next anchor of depth d, and ``cursor[d]`` the next entry.
_WALK = """number, d, work = report[0], report[1], 0
n_matches, n_items, reason = report[2], report[3], 0
while True:
    if d < 0:
        number += 1
        if number >= stop:
            report[5] = 1
            break
        if highest[number] - lowest[number] + 1 > len(alive):
            number, reason = number - 1, 3
            break
        e, n = ends[number], 0
        work += highest[number] - lowest[number] + 1
        SHORT
        ENTRY
        FINISH
        if n == 0:
            continue
        entry[0], begin[0], turn[0], begin[1] = e, 0, 0, n
        cursor[0], d = FROM[alive[0]], 0
    x, low, high = entry[d], begin[d], begin[d + 1]
    j, e = turn[d], cursor[d]
    while e < x and MASK[e] & GOES_ON == 0:
        e += 1
    cursor[d] = e
    if j < high and (e >= x or place_of_anchor[alive[j]] <= place[e]):
        k, am = alive[j], states[j]
        TARGET
        ANCHOR
        if IS_LEAF:
            if n_matches + 1 >= len(out_first):
                reason = 1
                break
            if n_items + d + 2 > len(out_position):
                reason = 2
                break
            out_position[n_items], out_component[n_items] = position_of_anchor[k], 0
            p = n_items + 1
            for i in range(1, d + 2):
                out_position[p] = position[entry[d + 1 - i]]
                COMPONENT
                p += 1
            n_items += d + 2
            n_matches += 1
            out_first[n_matches] = n_items
        turn[d] = j + 1
        continue
    if e >= x:
        d -= 1
        continue
    if work > work_limit:
        break
    if d + 3 > len(entry) or high + (j - low) + 1 > len(alive):
        reason = 3
        break
    work += j - low + 1
    cursor[d] = e + 1
    n = high
    TARGET
    ENTRY
    NARROW
    if n > high:
        d += 1
        entry[d], begin[d + 1], turn[d] = e, n, high
        cursor[d] = FROM[alive[high]]
report[0], report[1], report[2], report[3], report[4] = number, d, n_matches, n_items, reason
"""
