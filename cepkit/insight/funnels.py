"""The funnels of regexes and of sequences: how many events and partial matches reach each step."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from cepkit.compile.regex_program import Program, compile_regex
from cepkit.compile.sequence_program import BoundBranch, SequenceProgram
from cepkit.compile.sequence_source import DEPTH, DONE, START, WORK, test_of
from cepkit.compile.shared.loading import is_ready
from cepkit.engines.after_match import MOST_LOOKED_AT, report_matches
from cepkit.engines.counting.engine import counter_of, graph_of
from cepkit.engines.regex import advance, match_regex
from cepkit.engines.search import BranchSearch, search_of
from cepkit.engines.shared.places import Places, accepted_places, kernel, per_call, placed_and_accepted
from cepkit.engines.shared.python_kernels import new_as_python, plain_kernel, plain_module
from cepkit.engines.shared.sequence_set import SequenceSet
from cepkit.errors import UnsupportedQueryError
from cepkit.events import Events
from cepkit.insight.funnel import (
    BranchFunnel,
    ConditionCount,
    Count,
    Followed,
    StepCount,
    beginnings,
    funnel_of_rows,
)
from cepkit.language.expressions import trees as ex
from cepkit.language.regex import RegexQuery
from cepkit.language.row_patterns import AnyEvent, Pattern, Repeat, Variable, variables
from cepkit.language.sequences.branches import Condition
from cepkit.progress import checkpoint

MOST_TALLIED = 50_000  # events tested


def outputs_of(places: Places, bound: BoundBranch) -> list[np.ndarray]:
    """Return the output arrays of the search for a branch, with room for counts only."""
    n = len(bound.accepts)
    return [np.zeros(places.n, np.int64), np.empty(0, np.int64), np.empty((0, n), np.int64)]


def _plain_search(
    places: Places, accept: np.ndarray, bound: BoundBranch
) -> tuple[dict[str, Any], list, list]:
    """Return the names of the search as plain Python, its arguments and its scratch arrays."""
    # Plain Python reads lists and memory faster than arrays. What conditions compute with stays in arrays.
    text, arguments, (path, component, first, *states) = search_of(places, accept, bound)
    names = plain_module(places.program, text)
    names |= {name: value.tolist() for name, value in names.items() if isinstance(value, np.ndarray)}
    n_walked = len(arguments) - len(places.inputs.arguments())
    arguments = [*map(memoryview, arguments[:n_walked]), *arguments[n_walked:]]
    return names, arguments, [memoryview(path), memoryview(component), first, *map(memoryview, states)]


class Tally:
    """Counts of events tried as each component and of passed conditions; first events in random order."""

    def __init__(
        self, places: Places, accept: np.ndarray, bound: BoundBranch, seed: int, most: int | None = None
    ):
        n, most = len(bound.branch.components), MOST_TALLIED if most is None else most
        self.of_component = [[0, 0] for _ in range(n)]
        self.of_condition = [[0, 0] for _ in bound.conditions]
        self.following = [[0, 0, 0] for _ in range(n)]
        ends = places.end_of_partition, places.window_end, places.gap_end, places.later
        self._ends = [memoryview(each) for each in ends]
        members = [accepted_places(accept[test_of(places.program, terms)]) for terms in bound.accepts]
        self._members = [*map(memoryview, members)]
        names, arguments, scratch = _plain_search(places, accept, bound)
        for name, each in (("admits", True), ("closes", False)):
            names[name] = self._decider(bound, names, each)
        starts = np.random.default_rng(seed).permutation(members[0])
        outputs, high, work, n_done = outputs_of(places, bound), places.events.n_events, 0, 0
        for n_taken, start in enumerate(starts.tolist()):
            if work >= most:
                break
            checkpoint()
            limit = max(most // 20, (most - work) // (len(starts) - n_taken))
            report = np.zeros(7, np.int64)
            report[START], report[DEPTH] = start - 1, -1
            with np.errstate(all="ignore"):
                names["search"](start + 1, 0, high, 0, limit, *arguments, *scratch, *outputs, report)
            work += int(report[WORK]) + 1
            n_done += int(report[DONE])
        self.share = n_done / len(starts) if len(starts) else 1.0
        del self._ends, self._members  # the counts stay, the arrays go

    def _decider(self, bound: BoundBranch, names: dict[str, Any], each: bool) -> Callable[..., bool]:
        """Return a function that tests and counts the conditions on an event, or on a component."""
        tests_of_component: dict[int, list[tuple[list[int], Callable]]] = {}
        for i, condition in enumerate(bound_condition.condition for bound_condition in bound.conditions):
            if condition.absence is None and condition.each == each:
                test = self.of_condition[i], names[f"holds{i}"]
                tests_of_component.setdefault(condition.decided_at, []).append(test)
        of_component, note_following = self.of_component, self._note_following

        def decide(c: int, *path: Any) -> bool:
            """Test the conditions of a component on a path, and count the tests and what passed."""
            passed = True
            for counts, holds in tests_of_component.get(c, ()):
                counts[0] += 1
                if holds(*path):
                    counts[1] += 1
                else:
                    passed = False
            if each:
                counts = of_component[c]
                counts[0] += 1
                counts[1] += passed
            elif passed:
                note_following(c, *path[:3])
            return passed

        return decide

    def _note_following(self, c: int, path: memoryview, first: np.ndarray, d: int) -> None:
        """Count what follows the partial match that ends with event ``d`` of the path."""
        counts = self.following[c]
        counts[0] += 1
        if c + 1 < len(self._members):
            end_of_partition, window_end, gap_end, later = self._ends
            p, members = path[d], self._members[c + 1]
            number = bisect_left(members, later[p])
            if number == len(members) or members[number] >= end_of_partition[p]:
                counts[2] += 1
            elif members[number] >= window_end[path[0]] or members[number] >= gap_end[p]:
                counts[1] += 1


# The funnel of a regex: count the matches of longer and longer beginnings of its pattern.

_FEW_ROWS = 5_000  # events that plain Python reads faster than a kernel compiles


def count_regex_funnel(
    program: Program, events: Events, n_matches: int | None = None, most_steps: int | None = None, *,
    with_conditions: bool = True,
) -> tuple[BranchFunnel, ...]:  # fmt: skip
    """Count the matches of every beginning of a regex, by a run of the engine for each step and condition."""
    steps = []
    for part, last_part in beginnings(program.query.pattern, most_steps):
        is_known = part == program.query.pattern and n_matches is not None
        n = n_matches if is_known else _count(_cut_off(program, part), events)
        alone = None, ()
        if with_conditions:
            alone = _n_alone(program, events, last_part), tuple(_conditions(program, events, last_part))
        steps.append((str(last_part), n, *alone))
    return funnel_of_rows(events.n_events, steps)


def _cut_off(program: Program, part: Pattern) -> Program:
    """Return the compiled query of a beginning of the pattern."""
    query = program.query
    used = {variable.name for variable in variables(part)}
    define = tuple((name, tree) for name, tree in query.define if name in used)
    _, name = query.after_match or ("", None)
    after = ("to_next", None) if name and name not in used else query.after_match
    shorter = replace(query, pattern=part, define=define, measures=None, after_match=after, sources=())
    return compile_regex(shorter, program.schema)


def _count(program: Program, events: Events) -> int:
    """Return the number of matches; on few rows, without compiling a kernel."""
    if events.n_events > _FEW_ROWS or not program.compiled or not program.query.skips_by_default:
        return len(match_regex(program, events))
    inputs = program.inputs(events.columns)
    kernel = plain_kernel(program, program.plan, inputs.columns)
    state = kernel.new_state(max(1, events.n_partitions))
    _, last = advance(kernel, state, np.asarray(events.partition_of_event), inputs, 0)
    return len(last)


# --- predicates of a single row


def looks_at_match(tree: ex.Expression) -> bool:
    """Return whether a predicate depends on the rows matched earlier."""
    return any(isinstance(node, ex.Aggregate) for node in tree.walk())


def row_query(query: RegexQuery, name: str, condition: ex.Expression | None) -> RegexQuery:
    """Return the query whose matches are the rows at which a condition, or a boolean column, holds."""
    define = () if condition is None else ((name, condition),)
    plain = replace(query, after_match=None, keep="shortest", measures=None, within=None, sources=())
    return replace(plain, pattern=Variable(name), define=define)


def _n_alone(program: Program, events: Events, part: Pattern) -> int | None:
    """Return how many rows fulfil the predicate of a part of the pattern; None if it is not defined."""
    while isinstance(part, Repeat):
        part = part.body
    if isinstance(part, AnyEvent):
        return events.n_events
    if not isinstance(part, Variable) or part.name in program.automaton.dropped:
        return None
    tree = dict(program.query.define).get(part.name)
    if tree is not None and looks_at_match(tree):
        return None
    return _count(compile_regex(row_query(program.query, part.name, tree), program.schema), events)


def _conditions(program: Program, events: Events, part: Pattern) -> Iterator[ConditionCount]:
    """Yield, for each condition of a part of the pattern, on how many rows it holds."""
    defined = dict(program.query.define)
    for name in dict.fromkeys(variable.name for variable in variables(part)):
        if name in program.automaton.dropped:
            continue  # no match can reach it, so its columns are not read
        if name not in defined:
            n = _count(compile_regex(row_query(program.query, name, None), program.schema), events)
            yield ConditionCount(0, name, True, events.n_events, n)
            continue
        for number, condition in enumerate(ex.conjuncts(defined[name])):
            if looks_at_match(condition):
                yield ConditionCount(number, f"{name}: {condition}", False, None, None)
                continue
            n = _count(compile_regex(row_query(program.query, name, condition), program.schema), events)
            yield ConditionCount(number, f"{name}: {condition}", True, events.n_events, n)


# The funnel of a sequence: count the events, partial matches and passed conditions of each step.

MOST_WORK = 1 << 27  # events tested for one number, before it becomes a lower bound
MOST_BRANCHES = 32
_MOST_PLAIN = 1 << 22  # the same if the conditions cannot be compiled
_FEW = 20_000  # events that plain Python tests before a search is compiled
_WORK_PER_CALL = 1 << 20

Counter = Callable[[Places, np.ndarray, BoundBranch], Count]


def count_funnel(
    program: SequenceProgram, events: Events, run: Callable[[SequenceProgram, Events], SequenceSet], *,
    count: Counter | None = None, n_matches: int | None = None, most_tallied: int | None = None,
    seed: int = 0,
) -> tuple[BranchFunnel, ...]:  # fmt: skip
    """Count the steps of every branch of a sequence, in the order of the branches."""
    count = count or exact_count
    if len(program.branches) > MOST_BRANCHES:
        raise UnsupportedQueryError(
            f"alternatives, orders and optional parts expand to {len(program.branches)} patterns, but a "
            f"funnel shows at most {MOST_BRANCHES}; split the query"
        )
    otherwise = kernel if events.n_events > _FEW else new_as_python  # few events need no compiler
    places, accept = placed_and_accepted(with_single_tests(program), events, otherwise=otherwise)
    funnels, n_whole = [], n_matches if len(program.branches) == 1 else None
    for bound in program.branches:
        n = len(bound.branch.components)
        tally = Tally(replace(places), accept, bound, seed, most_tallied)  # a copy's limits go with it
        last = n if n_whole is None else n - 1
        partial = [count(places, accept, cut_off(bound, c + 1)) for c in range(last)]
        partial += [Count(n_whole)] if n_whole is not None else []
        steps = tuple(_step(places, accept, bound, c, partial[c], tally, count) for c in range(n))
        funnels.append(BranchFunnel(steps, partial[-1], partial[-1], tally.share))
    if not program.query.selects:
        return tuple(funnels)
    reported = None
    exact = all(funnel.complete.exact for funnel in funnels)
    if exact and sum(funnel.complete.n for funnel in funnels) <= MOST_LOOKED_AT:
        block = report_matches(program, run(program, events)).ending(0, events.n_events)
        reported = np.bincount(block.branch_of_match, minlength=len(funnels))
    return tuple(
        replace(funnel, reported=None if reported is None else Count(int(reported[b])))
        for b, funnel in enumerate(funnels)
    )


def _step(places, accept, bound: BoundBranch, c: int, partial: Count, tally: Tally, count) -> StepCount:
    """Return the counts of a step: events of its type, events that pass, partial matches, conditions."""
    component = bound.branch.components[c]
    typed = int(component.event_type is not None)
    tests = [test_of(places.program, (term,)) for term in bound.accepts[c]]
    alone = accept[tests]
    # Events that fulfil no test may have no place.
    n_of_type = int(np.count_nonzero(alone[0])) if typed else places.events.n_events
    conditions = [
        ConditionCount(
            condition.conjunct,
            str(condition.expression),
            True,
            n_of_type,
            int(np.count_nonzero(mask & alone[0] if typed else mask)),
        )
        for condition, mask in zip(conditions_alone(bound, c), alone[typed:], strict=True)
    ]
    for each, tested in zip(bound.conditions, tally.of_condition, strict=True):
        condition = each.condition
        if condition.absence is None and condition.decided_at == c:
            conditions.append(ConditionCount(condition.conjunct, str(condition.expression), False, *tested))
    before, after = _absences(bound, c), _absences(bound, c + 1)
    absent = None
    if len(after) > len(before):
        without = count(places, accept, cut_off(bound, c + 1, absences=before))
        absent = Count(max(0, without.n - partial.n), without.exact and partial.exact)
    return StepCount(
        component.variable, component.event_type, n_of_type,
        int(accept[test_of(places.program, bound.accepts[c])].sum()), partial, absent, *tally.of_component[c],
        tuple(conditions), Followed(*tally.following[c - 1]) if c else Followed(),
    )  # fmt: skip


def conditions_alone(bound: BoundBranch, c: int) -> list[Condition]:
    """Return the conditions on a single event of component ``c``, in the order of their terms."""
    joint = {id(bound_condition.condition) for bound_condition in bound.conditions}
    return [
        condition
        for condition in bound.branch.conditions
        if id(condition) not in joint and condition.absence is None and condition.decided_at == c
    ]


def with_single_tests(program: SequenceProgram) -> SequenceProgram:
    """Add a branch with every test on a single event as a separate test; other tests keep their numbers."""
    terms = dict.fromkeys(term for bound in program.branches for accept in bound.accepts for term in accept)
    tests = replace(
        program.branches[0],
        accepts=tuple((term,) for term in terms), absent_accepts=(), conditions=(), untils=(),
    )  # fmt: skip
    return replace(program, branches=(*program.branches, tests))


# --- branches cut off


def cut_off(bound: BoundBranch, n: int, *, absences: tuple[int, ...] | None = None) -> BoundBranch:
    """Return the first ``n`` components of a branch with the conditions, and absences, that they decide."""
    branch = bound.branch
    absences = _absences(bound, n) if absences is None else absences
    number = {a: i for i, a in enumerate(absences)}
    conditions = []
    for bound_condition in bound.conditions:
        condition = bound_condition.condition
        if condition.absence in number:
            renumbered = replace(condition, absence=number[condition.absence])
            conditions.append(replace(bound_condition, condition=renumbered))
        elif condition.absence is None and condition.decided_at < n:
            conditions.append(bound_condition)
    return BoundBranch(
        replace(
            branch, components=branch.components[:n], absences=tuple(branch.absences[a] for a in absences),
            conditions=tuple(bound_condition.condition for bound_condition in conditions),
        ),
        bound.accepts[:n],
        tuple(bound.absent_accepts[a] for a in absences),
        tuple(conditions),
        bound.untils[:n],
    )  # fmt: skip


def _absences(bound: BoundBranch, n: int) -> tuple[int, ...]:
    """Return the absences that ``n`` complete components decide; all components decide those at the edges."""
    whole = len(bound.branch.components)
    decided = []
    for a, absence in enumerate(bound.branch.absences):
        conditions = (bound_condition.condition for bound_condition in bound.conditions)
        named = [condition.decided_at for condition in conditions if condition.absence == a]
        is_edge = absence.after < 0 or absence.before >= whole
        if n == whole or (n > 0 and not is_edge and max(absence.before, *named, -1) < n):
            decided.append(a)
    return tuple(decided)


# --- counting


def exact_count(
    places: Places, accept: np.ndarray, bound: BoundBranch, *, most_work: int = MOST_WORK
) -> Count:
    """Count the matches of a branch without enumeration if possible, otherwise by `searched_count`."""
    # Plain Python searches few events in any case, since compiling takes longer.
    if places.program.window.is_empty:
        return Count(0)
    if _is_single_event(bound):
        return Count(int(np.count_nonzero(accept[test_of(places.program, bound.accepts[0])])))
    graph = graph_of(places.program, bound) if places.program.compiled else ""
    if isinstance(graph, str):
        return searched_count(places, accept, bound, most_work=most_work)
    if _has_few_beginnings(places, accept, bound):
        few = searched_count(places, accept, bound, most_work=_FEW)
        if few.exact:
            return few
    counter = counter_of(graph, places, accept)
    if counter.work > MOST_WORK:
        return searched_count(places, accept, bound, most_work=most_work)
    return Count(counter.total())


def _is_single_event(bound: BoundBranch) -> bool:
    """Return whether every event that fulfils the conditions on single events is a match."""
    [first, *others] = bound.branch.components
    return not (others or first.is_group or bound.conditions or bound.branch.absences or bound.untils[0])


def _has_few_beginnings(places: Places, accept: np.ndarray, bound: BoundBranch) -> bool:
    """Return whether plain Python can begin a match at every event that fits without taking long."""
    return np.count_nonzero(accept[test_of(places.program, bound.accepts[0])]) <= _FEW


def searched_count(
    places: Places, accept: np.ndarray, bound: BoundBranch, *, most_work: int = MOST_WORK
) -> Count:
    """Count the matches of a branch by a search; a lower bound after ``most_work`` tested events."""
    # New queries are interpreted. If that is impossible and matches begin at few events, plain Python tests
    # them before the search is compiled, which takes longer.
    program, branch = places.program, BranchSearch(places, accept, bound, 0)
    text, high = branch.text, places.events.n_events
    most_work = most_work if program.compiled else min(most_work, _MOST_PLAIN)
    ways = []
    is_quick = _has_few_beginnings(places, accept, bound) and not is_ready(text)
    if branch.tier == "interpreted":
        ways.append((lambda: branch.search, _WORK_PER_CALL))
    elif is_quick or not program.compiled:
        ways.append((lambda: plain_module(program, text)["search"], _FEW))
    if program.compiled and branch.tier == "compiled":
        ways.append((lambda: kernel(program, text, "search"), _WORK_PER_CALL))
    for way, work in ways:
        search, outputs, report = way(), outputs_of(places, bound), np.zeros(7, np.int64)
        report[START], report[DEPTH] = -1, -1
        is_last, size = way is ways[-1][0], work if search == branch.search else per_call(search, work)
        most = most_work if is_last else min(work, most_work)
        while not report[DONE] and report[WORK] < most:
            checkpoint(int(report[START]) / max(1, places.n))
            with np.errstate(all="ignore"):
                limit = min(size, most - int(report[WORK]))
                search(places.n, 0, high, 0, limit, *branch.arguments, *branch.scratch, *outputs, report)
        if report[DONE]:
            break
    return Count(sum(outputs[0].tolist()), bool(report[DONE]))
