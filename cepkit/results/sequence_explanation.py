"""The lines of ``explain`` for a sequence query."""

from __future__ import annotations

from cepkit.compile.counting.anchored_graph import AnchoredGraph
from cepkit.compile.counting.state_graph import StateGraph, state_graph_of
from cepkit.compile.interpreted.walk import walk_code_of
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.terms import Prepared
from cepkit.engines.counting.engine import counting_unsupported, graph_of
from cepkit.engines.interpreted.anchored import anchored_tests_of
from cepkit.engines.interpreted.counting import absence_tests_of, counting_tests_of
from cepkit.engines.interpreted.ordered import ordered_tests_of
from cepkit.engines.measures.sequence_measures import default_measures
from cepkit.language.saying import say_query
from cepkit.language.sequences.branches import Branch, Condition
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.evaluation_order import BranchOrder
from cepkit.planning.planner import Engine, automatic_engines
from cepkit.results.regex_explanation import new_query, say_threads

_STRATEGIES = {
    "any": "any: any events may be skipped between two events of a match; every combination is a match",
    "next": "next: no relevant event is skipped",
    "partition": "partition: successive events of the partition",
    "strict": "strict: successive events of the whole stream",
}


def sequence_lines(
    program: SequenceProgram,
    engine: Engine,
    orders: tuple[BranchOrder, ...],
    notes: tuple[tuple[str, str], ...],
) -> list[str]:
    """Return the lines of the explanation of a sequence query; ``notes``, labels with texts, come last."""
    query = program.query
    by, order = ", ".join(query.partition_by), ", ".join(query.order_by)
    lines = [
        f"pattern      {query.pattern}",
        f"in words     {say_query(query)}",
        f"strategy     {_STRATEGIES[query.strategy]}{_scope(query)}",
        f"partitions   {f'by {by}' if by else 'none: one stream'}",
        f"order        {f'by {order}' if order else 'of the rows'}",
    ]
    lines += [f"window       {text}" for text in _windows(query)]
    if query.after_match[0] != "none":
        policy, variable = query.after_match
        lines.append(f"after match  {policy}{f'({variable})' if variable else ''}")
    for number, (conjunct, kinds) in enumerate(zip(query.where, _classes_of(program), strict=True), 1):
        lines.append(f"condition    {number}. {conjunct}  [{kinds}]")
    prepared = [of for of in program.derived.values() if isinstance(of, Prepared)]
    lines += [f"prepared     {of.column}, for {of.function}: once, before matching" for of in prepared]
    measures = default_measures(query) if query.measures is None else query.measures
    lines += [f"measure      {name}: {expression}" for name, expression in measures]
    if len(program.branches) > 1:
        lines.append(f"branches     {len(program.branches)}: a match is a match of one of these")
        lines += [f"             {_line(bound.branch)}" for bound in program.branches[:12]]
        if len(program.branches) > 12:
            lines.append(f"             … {len(program.branches) - 12} more")
    lines.append(f"engine       {engine.name}: {engine.summary}")
    if engine.details is not None:
        lines += [f"{label:12} {text}" for label, text in engine.details(program)]
    for name, other in automatic_engines().items():
        reason = other.unsupported(program)
        if other.run is not None and name != engine.name and reason:
            lines.append(f"not          {name}: {reason}")
    for bound, chosen in zip(program.branches, orders, strict=False):
        lines += _evaluation(bound.branch, chosen)
    if engine.name == "ordered" and not orders:
        lines.append(f"evaluation   {', '.join(query.evaluation_order) or 'each task measures its events'}")
    if engine.details is None:
        lines.append(f"counting     {_counting(program)}")
    if engine.name in _NEW_QUERIES:
        threads = say_threads(engine.name, is_one_stream=not by, is_pure=program.pure)
        lines.append(f"threads      {threads}")
        lines.append(f"new query    {new_query(_NEW_QUERIES[engine.name](program))}")
    lines += [f"{label:12} {text}" for label, text in notes]
    return lines


def _scope(query: SequenceQuery) -> str:
    return f" (scope {query.scope})" if query.strategy == "next" else ""


def _windows(query: SequenceQuery) -> list[str]:
    closed = "" if query.within_closed else ", exclusive"
    lines = [] if query.within is None else [f"{query.within}{closed}, from the first to the last event"]
    if query.within_events is not None:
        lines.append(f"{query.within_events} events of the partition")
    if query.gap_within is not None:
        lines.append(f"{query.gap_within}{closed} between successive events")
    if query.strict_time:
        lines.append("successive events differ in time")
    return lines or ["none"]


def _classes_of(program: SequenceProgram) -> list[str]:
    """Return for each conjunct which events it reads, over all branches."""
    kinds: list[dict[str, None]] = [{} for _ in program.query.where]  # in the order of the branches
    for bound in program.branches:
        known = {id(c.condition) for c in bound.conditions}
        for condition in bound.branch.conditions:
            kinds[condition.conjunct][_kind(bound.branch, condition, id(condition) in known)] = None
    return [", or ".join(own) or "in no branch" for own in kinds]


def _counting(program: SequenceProgram) -> str:
    reasons = [state_graph_of(program, bound) for bound in program.branches]
    reason = next((reason for reason in reasons if isinstance(reason, str)), None)
    if reason is None:
        return "without enumeration: every condition is on one event or on two successive ones"
    if counting_unsupported(program) is None:
        return (
            "without enumeration, for each first event: every condition is on the first event and on one or "
            "two successive others"
        )
    return f"by enumeration: {reason}"


def _reason_to_compile_count(program: SequenceProgram) -> str | None:
    graphs = [graph_of(program, bound) for bound in program.branches]
    tests: list[object] = []
    for graph in graphs:
        if isinstance(graph, AnchoredGraph):
            tests.append(anchored_tests_of(graph))
        elif isinstance(graph, StateGraph):
            tests.append(counting_tests_of(graph))
            tests += [absence_tests_of(absence) for link in graph.links for absence in link.absences]
    return next((reason for reason in tests if isinstance(reason, str)), None)


def _reason_to_compile_walk(program: SequenceProgram) -> str | None:
    made = (walk_code_of(program, bound) for bound in program.branches)
    return next((reason for reason in made if isinstance(reason, str)), None)


def _reason_to_compile_search(program: SequenceProgram) -> str | None:
    tests = (ordered_tests_of(bound, tuple(range(len(bound.accepts)))) for bound in program.branches)
    is_interpreted = not any(isinstance(own, str) for own in tests)
    return None if is_interpreted else _reason_to_compile_walk(program)


_NEW_QUERIES = {
    "chain": _reason_to_compile_count,
    "ordered": _reason_to_compile_search,
    "search": _reason_to_compile_walk,
}


def _kind(branch: Branch, condition: Condition, is_joint: bool) -> str:
    if condition.absence is not None:
        joint = "with other events" if is_joint else "alone"
        return f"on the absent event {branch.absences[condition.absence].variable!r} {joint}"
    if not is_joint:
        return "on an event alone"
    components = {c for _, c in condition.components}
    if not components:
        return "on a loop without events"
    if len(components) == 1:
        return "on each event of a loop and those before" if condition.each else "on a whole loop"
    if max(components) - min(components) == 1 and len(components) == 2:
        return "on neighbours"
    return f"on {len(components)} events"


def _evaluation(branch: Branch, chosen: BranchOrder) -> list[str]:
    """Return the lines about the evaluation order of a branch."""
    names = [component.variable for component in branch.components]
    lines = [
        f"evaluation   {', '.join(names[c] for c in chosen.order)}  "
        f"[{'as given' if chosen.is_given else 'least cost'}: {_number(chosen.cost)} tests, "
        f"{_number(chosen.forward_cost)} in the order of the pattern]"
    ]
    for c, expected in zip(chosen.order, chosen.partial_matches, strict=True):
        n, rate = chosen.statistics.n_events[c], chosen.statistics.in_window[c]
        lines.append(
            f"             {names[c]}: {n:,} events, {_number(rate)} in a window; "
            f"{_number(expected)} partial matches"
        )
    if any(c.absence is None for c in branch.conditions) and not chosen.statistics.conditions:
        lines.append("             selectivities are not measured: the search is short in any case")
    for one in chosen.statistics.conditions:
        share = f"{one.selectivity:.3g} ({one.n_held:,} of {one.n_tested:,})"
        lines.append(f"             selectivity of {one.name}: {share}")
    return lines


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}" if value < 1e6 else f"{value:.2e}"


def _line(branch: Branch) -> str:
    parts = []
    for c, component in enumerate(branch.components):
        parts += [f"!{absence.variable}" for absence in branch.absences if absence.before == c]
        high = "" if component.high is None else component.high
        many = "" if (component.low, component.high) == (1, 1) else f"{{{component.low},{high}}}"
        parts.append(component.variable + many)
    end = len(branch.components)
    return " ".join(parts + [f"!{absence.variable}" for absence in branch.absences if absence.before == end])
