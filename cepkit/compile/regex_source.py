"""Write the Python source of the kernels from a plan. Values that do not change the source are arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cepkit.compile.regex_plan import Plan, Queue, Target
from cepkit.compile.shared.term_writing import (
    KernelSource,
    StateArray,
    TermWriter,
    decorator,
    module_header,
    shared_text,
    stored_dtype,
)
from cepkit.compile.shared.terms import Term
from cepkit.kernels.records import PAST_LAST, TO_FIRST_OF, TO_LAST, TO_NEXT

OVERFLOWED = "overflowed"  # array of a state: partial matches of each partition beyond the most
_KERNELS = "cepkit.kernels.interpreting"
_FEW = 32  # live starts, up to which the work is not checked
_WIDTHS = ((8, "uint8"), (16, "uint16"), (32, "uint32"), (62, "int64"))


def write_matching(
    plan: Plan, dtypes: Mapping[str, str], *, functions: tuple[str, ...] = (), compiled: bool = True
) -> KernelSource:
    """Write the kernel that advances the state of all partitions by a run of events."""
    # A call ends early if a state array is full (the caller grows it and calls again) or once it has checked
    # ``work_limit`` partial matches (so a run can be interrupted).
    return _MatchingWriter(plan, dtypes, functions, compiled).write()


class _Lines(list):
    def add(self, depth: int, *lines: str) -> None:
        self.extend("    " * depth + line for line in lines)


class _MatchingWriter:
    """Writes ``advance``, which takes rows one by one and keeps, by partition, the starts that wait."""

    # A *start* is a row with which a match may begin. Positions of the pattern are bits of a mask. The names
    # in the code, beside those of `TermWriter`:
    # - ``j``: the row in this call; ``row``: its number in all data; ``k``: its partition
    # - ``e``: the positions that the row fits; ``f``: those that a start reaches with this row
    # - ``best``: the first row of the match that ends here, or -1
    # - ``live[k]``, ``m``: how many starts wait in the list; ``at``: the first cell of the partition
    # - ``r``: the cell that is read; ``w``: the cell that is written next
    # - ``list_start[r]``: the row of a start; ``list_mask[r]``: its positions; ``list_s0[r]``: its slot s0
    # - ``covered``: the positions that earlier starts reached, where later starts change nothing
    # - ``q0_start``, ``q0_s0``: the same for starts in queue 0; its cells in use are from ``q0h`` to ``q0t``
    # - ``q_at``, ``q_first``: the first cell of the partition in all queues; ``q_room``: how many it has
    # - ``q0_g0``: the side of comparison 0 that depends on the start; ``q0_b0[k]``: its least or its largest
    # - ``report``: rows taken, matches, work, most starts, and why the call ended: 0 all rows are taken,
    #   1 the list is full, 2 a queue is full, 3 the call did enough work

    def __init__(self, plan: Plan, dtypes: Mapping[str, str], functions: tuple[str, ...], compiled: bool):
        self.plan, self.automaton = plan, plan.automaton
        self.terms = TermWriter(plan.terms(), dtypes, functions, slots=plan.slots, python=not compiled)
        self.compiled = compiled
        self.n_positions = len(self.automaton.names)
        self.every = (1 << self.n_positions) - 1
        self.mask_dtype = next(dtype for width, dtype in _WIDTHS if self.n_positions <= width)

    # --- the module

    def write(self) -> KernelSource:
        """Return the source text of the kernel with the arrays of its state."""
        lines = _Lines()
        state = self._state()
        self._event(lines)
        for number, queue in enumerate(self.plan.queues):
            self._queue(lines, number, queue)
        self._list(lines)
        self._end_of_event(lines)
        body = lines
        lines = _Lines([*module_header().splitlines(), *self.terms.helpers])
        lines.extend(follow_tables(self.automaton.follow, self.mask_dtype))
        arguments = [
            "partition", "start", "stop", "row_base", "work_limit", *self.terms.arguments(),
            *(a.name for a in state),
        ]  # fmt: skip
        types = [
            "read_only(T.int32)", *["T.int64"] * 4, *self.terms.argument_types(), *map(_state_type, state),
        ]  # fmt: skip
        arguments += ["out_first", "out_last", "report"]
        types += ["I1", "I1", "I1"]
        if self.compiled:
            lines.extend(decorator(types, user_functions=bool(self.terms.functions)))
        lines.add(0, f"def advance({', '.join(arguments)}):")
        lines.add(1, "n_out = 0", "work = 0", "most = 0", "reason = 0", "consumed = stop")
        # The code below uses positions from 0, so numba knows that they are not negative.
        cut = ["partition", *(f"c{i}" for i in range(len(self.terms.columns)))]
        lines.add(1, "row_base += start", *(f"{array} = {array}[start:stop]" for array in cut))
        lines.add(1, "for j in range(len(partition)):")
        lines.extend(body)
        lines.add(
            1, "report[0] = consumed", "report[1] = n_out", "report[2] = work",
            "report[3] = max(report[3], most)",
        )  # fmt: skip
        lines.add(1, "report[4] = reason", "return n_out")
        return KernelSource("\n".join(lines) + "\n", state)

    def _state(self) -> tuple[StateArray, ...]:
        """Return the arrays that the kernel keeps between calls: list, queues and past values."""
        arrays = [*self.terms.past_state(), StateArray("live", "int64", "partition")]
        arrays += [
            StateArray("list_place", "int64", "place", width=2),
            StateArray("list_start", "int64", "list"),
            StateArray("list_mask", self.mask_dtype, "list"),
        ]
        arrays += [
            StateArray(f"list_s{i}", stored_dtype(slot), "list") for i, slot in enumerate(self.plan.slots)
        ]
        if self.plan.most is not None:
            arrays.append(StateArray(OVERFLOWED, "int64", "partition"))
        if self.plan.queues:
            arrays.append(StateArray("queue_place", "int64", "place", width=2))
        for number, queue in enumerate(self.plan.queues):
            q = f"q{number}"
            arrays += [
                StateArray(f"{q}_head", "int64", "partition"),
                StateArray(f"{q}_tail", "int64", "partition"),
            ]
            arrays += [StateArray(f"{q}_start", "int64", "queue")]
            arrays += [StateArray(f"{q}_s{self._slot(s)}", stored_dtype(s), "queue") for s in queue.slots]
            for i, bound in enumerate(queue.bounds):
                if bound:
                    dtype = stored_dtype(bound.start)
                    if _grade(queue, i) == i:
                        arrays.append(StateArray(f"{q}_g{i}", dtype, "queue"))
                    arrays.append(StateArray(f"{q}_b{i}", dtype, "partition", _unbeatable(queue, i)))
        return tuple(arrays)

    def _slot(self, slot: Term) -> int:
        return self.plan.slots.index(slot)

    # --- one event

    def _event(self, lines: _Lines) -> None:
        """Write what the kernel does first with an event: find its partition, its list and its queues."""
        lines.add(2, "k = np.uint32(partition[j])", "m = np.uint64(live[k])")
        lines.add(2, "at = np.uint64(list_place[k, 0])")
        lines.add(2, "if m >= np.uint64(list_place[k, 1]):")
        lines.add(3, "reason = 1", "consumed = start + j", "break")
        lines.add(2, f"if m >= {_FEW} and work > work_limit:")
        lines.add(3, "reason = 3", "consumed = start + j", "break")
        if self.plan.queues:
            lines.add(
                2, "q_first, q_room = queue_place[k, 0], queue_place[k, 1]", "q_at = np.uint64(q_first)"
            )
        for number, queue in enumerate(self.plan.queues):
            self._make_room(lines, number, queue)
        lines.add(2, "row = row_base + j")
        lines.add(2, *self.terms.event_lines())
        bits = [_bits(c.mask, self.every, self.terms.true(c.term)) for c in self.plan.event_conjuncts]
        lines.add(2, f"e = {' & '.join(bits) if bits else self.every}")
        lines.add(2, "best = -1", "work += np.int64(m)", "if m > most:", "    most = np.int64(m)")

    def _list(self, lines: _Lines) -> None:
        """Write the loop over the partial matches in the list, which the event advances or ends."""
        plan, slots = self.plan, self.plan.slots
        eager, lazy = [], []
        # If only a queue leads to a target, the list never contains it. If both do, the list tests the
        # target, too.
        for conjunct in plan.start_conjuncts:
            (lazy if self.terms.is_costly(conjunct.term) else eager).append(conjunct)
        lines.add(2, "w = at", *(["covered = 0"] if plan.dominated else []))
        lines.add(2, "for r in range(at, at + m):")
        lines.add(3, *(f"s{i} = list_s{i}[r]" for i in range(len(slots))))
        bits = [_bits(c.mask, self.every, self.terms.true(c.term)) for c in eager]
        lines.add(3, f"f = {' & '.join([follow_of('list_mask[r]', self.n_positions), 'e', *bits])}")
        for conjunct in lazy:
            lines.add(
                3,
                f"if f & {conjunct.mask} and not {self.terms.true(conjunct.term)}:",
                f"    f &= {self.every & ~conjunct.mask}",
            )
        if plan.dominated:
            lines.add(3, f"f &= {self.every} ^ (covered & {plan.dominated})", "covered |= f")
        lines.add(3, f"if f & {self.automaton.accepting}:")
        lines.add(
            4,
            *(
                ["if best < 0 or list_start[r] < best:", "    best = list_start[r]"]
                if plan.queues
                else ["best = list_start[r]"]
            ),
        )
        lines.add(4, "break")
        for number, queue in enumerate(plan.queues):
            self._enter(lines, 3, number, queue, "list_start[r]")
        lines.add(3, "list_start[w] = list_start[r]", "list_mask[w] = f")
        lines.add(
            3, *(f"list_s{i}[w] = {self.terms.slot_next(slot, f's{i}')}" for i, slot in enumerate(slots))
        )
        lines.add(3, "w += np.uint64(f != 0)")

    def _end_of_event(self, lines: _Lines) -> None:
        """Write what follows the starts that wait: report the best match, or let the row begin one."""
        plan, automaton, slots = self.plan, self.automaton, self.plan.slots
        tested = automaton.first & sum(1 << p for p in range(self.n_positions) if self._is_tested(p))
        lines.add(2, f"f = {automaton.first} & e" if tested else f"f = {automaton.first}")
        if automaton.first & automaton.accepting:
            lines.add(2, f"if best < 0 and f & {automaton.accepting}:", "    best = row")
        lines.add(2, "if best >= 0:")
        lines.add(3, "out_first[n_out] = best", "out_last[n_out] = row", "n_out += 1", "live[k] = 0")
        for number, queue in enumerate(plan.queues):
            self._empty(lines, 3, number, queue)
        lines.add(3, "continue")
        if plan.dominated:
            lines.add(2, f"f &= {self.every} ^ (covered & {plan.dominated})")
        lines.add(2, *(f"s{i} = {self.terms.slot_first(slot)}" for i, slot in enumerate(slots)))
        for number, queue in enumerate(plan.queues):
            self._enter(lines, 2, number, queue, "row")
        lines.add(2, "list_start[w] = row", "list_mask[w] = f")
        lines.add(2, *(f"list_s{i}[w] = s{i}" for i in range(len(slots))))
        if plan.overflow == "shed":
            lines.add(2, f"if f != 0 and w - at >= np.uint64({plan.most}):")
            lines.add(3, "f = 0", f"{OVERFLOWED}[k] += 1")
        lines.add(2, "w += np.uint64(f != 0)")
        if plan.overflow == "oldest":
            lines.add(2, f"if w - at > np.uint64({plan.most}):", f"    {OVERFLOWED}[k] += 1")
            lines.add(3, "w -= np.uint64(1)", "for r in range(at, w):")
            cells = ["list_start", "list_mask", *(f"list_s{i}" for i in range(len(slots)))]
            lines.add(4, *(f"{cell}[r] = {cell}[r + np.uint64(1)]" for cell in cells))
        lines.add(2, "live[k] = w - at")

    def _is_tested(self, position: int) -> bool:
        return any(conjunct.mask >> position & 1 for conjunct in self.plan.event_conjuncts)

    # --- queues

    def _make_room(self, lines: _Lines, number: int, queue: Queue) -> None:
        """Write how a queue moves its entries to the front, or reports that it is full."""
        q = f"q{number}"
        lines.add(2, f"{q}h = {q}_head[k]", f"{q}t = {q}_tail[k]")
        # Entries move to the front once the free room there exceeds their number. Each entry moves about
        # once, and the cells in use stay few enough for the cache.
        lines.add(2, f"if {q}h > 32 and 2 * {q}h > {q}t:")
        lines.add(3, f"for r in range({q}t - {q}h):")
        new, old = _cell("r"), _cell(f"{q}h + r")
        lines.add(4, *(f"{a}{new} = {a}{old}" for a in self._queue_arrays(number, queue)))
        lines.add(3, f"{q}t -= {q}h", f"{q}h = 0", f"{q}_head[k] = 0", f"{q}_tail[k] = {q}t")
        lines.add(2, f"if {q}t >= q_room:", "    reason = 2", "    consumed = start + j", "    break")

    def _queue_arrays(self, number: int, queue: Queue) -> list[str]:
        """Return the names of the arrays of a queue: starts, stored values, and values with a bound."""
        q = f"q{number}"
        grades = [f"{q}_g{i}" for i, bound in enumerate(queue.bounds) if bound and _grade(queue, i) == i]
        return [f"{q}_start", *(f"{q}_s{self._slot(s)}" for s in queue.slots), *grades]

    def _queue(self, lines: _Lines, number: int, queue: Queue) -> None:
        """Write what an event does with a queue: test its entries, and drop those whose window is over."""
        q = f"q{number}"
        lines.add(2, f"if {q}h < {q}t:")
        if queue.expires_first:
            self._expire(lines, number, queue)
        for t, target in enumerate(queue.targets):
            self._scan(lines, number, queue, t, target)
        lines.add(3, f"if not e & {1 << queue.position}:", f"    {q}h = {q}t")
        if not queue.expires_first:
            self._expire(lines, number, queue)
        if queue.loops:
            self._leave(lines, number, queue)
        lines.add(3, f"{q}_head[k] = {q}h", f"if {q}h == {q}t:")
        self._empty(lines, 4, number, queue)

    def _expire(self, lines: _Lines, number: int, queue: Queue) -> None:
        """Write the loop that drops entries at the head of a queue whose window is over."""
        if not queue.windows:
            return
        q = f"q{number}"
        at_head = self._slots_at(queue, q, f"{q}h")
        lines.add(3, f"while {q}h < {q}t:")
        lines.add(4, *at_head)
        lines.add(4, f"if {' and '.join(self.terms.true(term) for term in queue.windows)}:", "    break")
        lines.add(4, f"{q}h += 1")

    def _leave(self, lines: _Lines, number: int, queue: Queue) -> None:
        """Write the lines that remove the starts whose loop ends, if the bounds say that any exist."""
        q, n_targets = f"q{number}", len(queue.targets)
        loops = list(enumerate(queue.loops, n_targets))
        tests = [(f"{self.terms.value(b.event)} {b.sign}", i, self.terms.valid(b.event)) for i, b in loops]
        stay = [" and ".join([f"{test} {q}_b{i}[k]", *valid_tests]) for test, i, valid_tests in tests]
        lines.add(3, f"if {q}h < {q}t and not ({' and '.join(stay)}):")
        lines.add(4, f"work += {q}t - {q}h", f"kept = {q}h")
        self._reset(lines, 4, number, queue)
        stay = [
            " and ".join([f"{test} {q}_g{_grade(queue, i)}{_cell('r')}", *valid_tests])
            for test, i, valid_tests in tests
        ]
        lines.add(4, f"for r in range({q}h, {q}t):", f"    if {' and '.join(stay)}:")
        new, old = _cell("kept"), _cell("r")
        lines.add(6, *(f"{array}{new} = {array}{old}" for array in self._queue_arrays(number, queue)))
        for i, bound in enumerate(queue.bounds):
            if bound:
                lines.add(6, f"v = {q}_g{_grade(queue, i)}{_cell('kept')}")
                self._note(lines, 6, number, queue, i)
        lines.add(6, "kept += 1")
        lines.add(4, f"{q}t = kept", f"{q}_tail[k] = kept")

    def _note(self, lines: _Lines, depth: int, number: int, queue: Queue, i: int) -> None:
        """Write the lines that make ``v`` the bound ``i`` of a queue if ``v`` is beyond it."""
        b, closer = f"q{number}_b{i}[k]", "<" if _is_least(queue, i) else ">"
        lines.add(depth, f"if v {closer} {b}:", f"    {b} = v")
        # The loop of a start with NaN ends with the next event, and nothing compares with NaN.
        if i >= len(queue.targets) and stored_dtype(queue.bounds[i].start) == "float64":
            lines.add(depth, "if v != v:", f"    {b} = v")

    def _slots_at(self, queue: Queue, q: str, row: str) -> list[str]:
        return [f"s{self._slot(s)} = {q}_s{self._slot(s)}{_cell(row)}" for s in queue.slots]

    def _scan(self, lines: _Lines, number: int, queue: Queue, t: int, target: Target) -> None:
        """Write the search of a queue for the oldest entry that the event advances to a target."""
        q = f"q{number}"
        conjuncts = target.conjuncts
        if queue.expires_first:
            conjuncts = tuple(term for term in conjuncts if term not in queue.windows)
        guard = f"e & {1 << target.position}"
        depth = 3
        bound = target.bound
        if bound:
            event = self.terms.value(bound.event)
            valid_tests = "".join(f" and {c}" for c in self.terms.valid(bound.event))
            lines.add(3, f"if {guard} and {event} {bound.sign} {q}_b{t}[k]{valid_tests}:")
            lines.add(
                4, f"x = {event}", "hit = 0", f"bound = {_unbeatable(queue, t)!r}".replace("inf", "np.inf")
            )
            g = f"{q}_g{_grade(queue, t)}"
            lines.add(4, f"g = {g}[q_first + {q}h : q_first + {q}t]")
            lines.add(4, "for r in range(len(g)):", "    v = g[r]")
            closer = "<" if _is_least(queue, t) else ">"
            lines.add(5, f"hit |= 1 if x {bound.sign} v else 0", f"bound = v if v {closer} bound else bound")
            lines.add(4, f"{q}_b{t}[k] = bound", f"work += {q}t - {q}h", "if hit:")
            depth = 5
        else:
            lines.add(3, f"if {guard}:")
            lines.add(4, f"work += {q}t - {q}h")
            depth = 4
        lines.add(depth, f"for r in range({q}h, {q}t):")
        lines.add(depth + 1, *self._slots_at(queue, q, "r"))
        tests = [f"{event} {bound.sign} {q}_g{_grade(queue, t)}{_cell('r')}"] if bound else []
        test = " and ".join([*tests, *(self.terms.true(term) for term in conjuncts)]) or "True"
        lines.add(depth + 1, f"if {test}:")
        first = f"{q}_start{_cell('r')}"
        lines.add(depth + 2, f"if best < 0 or {first} < best:", f"    best = {first}", "break")

    def _enter(self, lines: _Lines, depth: int, number: int, queue: Queue, start: str) -> None:
        """Write how a partial match that began at ``start`` enters a queue at its tail."""
        q, bit = f"q{number}", 1 << queue.position
        lines.add(depth, f"if f & {bit}:")
        cell = _cell(f"{q}t")
        lines.add(depth + 1, f"{q}t = {q}_tail[k]", f"{q}_start{cell} = {start}")
        lines.add(depth + 1, *(f"{q}_s{self._slot(s)}{cell} = s{self._slot(s)}" for s in queue.slots))
        for i, bound in enumerate(queue.bounds):
            if bound:
                grade = _grade(queue, i)
                graded = f"{q}_g{grade}{cell}"
                lines.add(depth + 1, f"v = {self.terms.value(bound.start) if grade == i else graded}")
                lines.add(depth + 1, *([f"{graded} = v"] if grade == i else []))
                self._note(lines, depth + 1, number, queue, i)
        lines.add(depth + 1, f"{q}_tail[k] = {q}t + 1", f"f &= {self.every & ~bit}")

    def _empty(self, lines: _Lines, depth: int, number: int, queue: Queue) -> None:
        """Write the lines that empty a queue."""
        q = f"q{number}"
        lines.add(depth, f"{q}_head[k] = 0", f"{q}_tail[k] = 0")
        self._reset(lines, depth, number, queue)

    def _reset(self, lines: _Lines, depth: int, number: int, queue: Queue) -> None:
        """Write the lines that set the bounds of an empty queue, which no event passes."""
        for i, bound in enumerate(queue.bounds):
            if bound:
                lines.add(depth, f"q{number}_b{i}[k] = {_unbeatable(queue, i)!r}".replace("inf", "np.inf"))


def write_rows(
    plan: Plan, dtypes: Mapping[str, str], name: str, *, functions: tuple[str, ...] = (),
    compiled: bool = True,
) -> KernelSource:  # fmt: skip
    """Write ``prepare``, and ``search`` or ``reach`` with the text of the kernel that interprets."""
    # ``prepare`` computes what depends on single rows. The others take the rows by partition.
    terms = TermWriter(plan.terms(), dtypes, functions, slots=plan.slots, python=not compiled)
    slots, n, past = plan.slots, len(plan.automaton.names), terms.past_state()
    every = (1 << n) - 1
    rows = [("fulfilled", "int64"), *[("number", "int64")] * terms.uses_ordinal]
    rows += [(f"earlier{i}", stored_dtype(arg)) for i, (arg, _) in enumerate(terms.pasts)]
    kept = [*rows, *((f"slot{i}", stored_dtype(slot)) for i, slot in enumerate(slots))]
    lines = _Lines([*module_header().splitlines(), *terms.helpers])

    def function(text: Iterable[str], types: list[str] | None = None) -> None:
        """Write a function, with its decorator if the kernel is compiled."""
        if compiled and types is not None:
            lines.extend(decorator(types, user_functions=bool(terms.functions)))
        elif compiled:
            options = "no_cpython_wrapper=True, no_cfunc_wrapper=True"
            lines.append(f'@njit(nogil=True, error_model="numpy", {options})')
        lines.extend([*text, "", ""])

    types = ["read_only(T.int32)", *terms.argument_types()]
    arguments = [*terms.arguments(), *(array.name for array in past), *(name for name, _ in rows)]
    bits = [_bits(c.mask, every, terms.true(c.term)) for c in plan.event_conjuncts]
    body = _Lines([f"def prepare(partition, {', '.join(arguments)}):"])
    body.add(1, "for j in range(len(partition)):")
    body.add(2, "k = np.uint32(partition[j])", *terms.event_lines())
    body.add(2, f"fulfilled[j] = {' & '.join(bits) if bits else every}")
    body.add(2, *["number[j] = n"] * terms.uses_ordinal)
    body.add(2, *(f"earlier{i}[j] = y{i}" for i in range(len(terms.pasts))))
    rows_types = [f'T.Array(T.{dtype}, 1, "C")' for _, dtype in rows]
    function(body, [*types, *map(_state_type, past), *rows_types])
    values = ", ".join(["follow", "masks", *terms.arguments(), *(name for name, _ in kept)])
    body = _Lines([f"def take_row(j, f, is_first, {values}):"])
    body.add(1, *terms.column_lines(), *["n = number[j]"] * terms.uses_ordinal)
    body.add(1, *(f"y{i} = earlier{i}[j]" for i in range(len(terms.pasts))))
    body.add(1, "if is_first:", *(f"    slot{i}[0] = {terms.slot_first(s)}" for i, s in enumerate(slots)))
    body.add(2, "return masks[1] & fulfilled[j]")
    body.add(1, *(f"s{i} = slot{i}[0]" for i in range(len(slots))))
    bits = [_bits(c.mask, every, terms.true(c.term)) for c in plan.start_conjuncts]
    body.add(1, f"f = {' & '.join(['follow_of(follow, f)', 'fulfilled[j]', *bits])}")
    body.add(1, *(f"slot{i}[0] = {terms.slot_next(s, f's{i}')}" for i, s in enumerate(slots)), "return f")
    function(shared_text(_KERNELS, "def follow_of(").splitlines())
    function(body)
    types = ["I2", "I1", *terms.argument_types()] + [f'T.Array(T.{dtype}, 1, "C")' for _, dtype in kept]
    given = "fulfilled, floats, integers, automaton, of_floats, of_integers"
    head, begin, out = "reach(begin, first_item", "    f = 0\n    for m in", ["item_mask"]
    if name == "search":
        function(shared_text(_KERNELS, "def row_of_name(").splitlines())
        head, begin, out = (
            "search(bounds, rule", "    skip, named", ["reached", "at", "out_first", "out_last"],
        )  # fmt: skip
    text = shared_text(_KERNELS, begin).replace(given, values)
    whole = [f"def {head}, {values}, {', '.join(out)}):", *text.splitlines()]
    function(whole, ["I1", "I1", *types, *["I1"] * len(out)])
    codes = f"PAST_LAST, TO_LAST, TO_NEXT, TO_FIRST_OF = {PAST_LAST}, {TO_LAST}, {TO_NEXT}, {TO_FIRST_OF}"
    place = next(i for i, line in enumerate(lines) if line.startswith("NULL ="))
    lines.insert(place, codes)
    return KernelSource("\n".join(lines).rstrip() + "\n", tuple(past), tuple(kept))


def follow_tables(follow: Iterable[int], dtype: str) -> list[str]:
    """Return the tables FOLLOW0, FOLLOW1, …; table b maps byte b of a mask to the successors."""
    follow = list(follow)
    lines = []
    for byte in range(0, len(follow), 8):
        part = follow[byte : byte + 8]
        table = [0] * (1 << len(part))
        for mask in range(len(table)):
            for p, successors in enumerate(part):
                if mask >> p & 1:
                    table[mask] |= successors
        lines.append(f"FOLLOW{byte // 8} = np.array({table}, dtype=np.{dtype})")
    return [*lines, "", ""]


def follow_of(mask: str, n_positions: int) -> str:
    """Return the code for the union of the successors of ``mask``."""
    if n_positions <= 8:
        return f"FOLLOW0[{mask}]"
    parts = [f"FOLLOW{b}[(np.int64({mask}) >> {8 * b}) & 255]" for b in range((n_positions + 7) // 8)]
    return f"({' | '.join(parts)})"


def _state_type(array: StateArray) -> str:
    """Return the type of an array of the state as numba writes it."""
    two = array.per in ("place", "ring")
    return f'T.Array(T.{array.dtype}, {2 if two else 1}, "C")'


def _bits(mask: int, every: int, condition: str) -> str:
    """Return the code of all positions, without those of ``mask`` if the condition does not hold."""
    return f"({every} if {condition} else {every & ~mask})"


def _cell(r: str) -> str:
    """Return the index of cell ``r`` of the partition in the arrays of a queue."""
    return f"[q_at + np.uint64({r})]"


def _grade(queue: Queue, i: int) -> int:
    """Return the number of the first bound of the queue that compares with the same value of the start."""
    # Both bounds share the array of this value.
    start = queue.bounds[i].start
    return next(n for n, bound in enumerate(queue.bounds) if bound and bound.start == start)


def _is_least(queue: Queue, i: int) -> bool:
    """Return whether bound ``i`` is the least value of the queue's starts, and not the largest."""
    # Events are compared with the start that matches first, or that leaves a loop first.
    return (queue.bounds[i].sign in (">", ">=")) == (i < len(queue.targets))


def _unbeatable(queue: Queue, i: int) -> float | int:
    """Return bound ``i`` of a queue without starts, a value with which no event fulfils the comparison."""
    if stored_dtype(queue.bounds[i].start) == "float64":
        return float("inf") if _is_least(queue, i) else float("-inf")
    return 2**63 - 1 if _is_least(queue, i) else -(2**63)
