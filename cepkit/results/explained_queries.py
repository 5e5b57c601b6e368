"""The lines of ``explain``: how a query of each language is read and how it will run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cepkit.compile.instructions import regex_code_of
from cepkit.compile.interpreted_walk import walk_code_of
from cepkit.compile.match_recognize.compiled import Compiled, constant_of
from cepkit.compile.regex_program import Program
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.row_automaton import ACCEPT as MATCH
from cepkit.compile.shared.row_automaton import ANY, states
from cepkit.compile.shared.terms import START, Prepared, Term
from cepkit.compile.state_graph import AnchoredGraph, StateGraph, state_graph_of
from cepkit.engines.counting.engine import counting_unsupported, graph_of
from cepkit.engines.interpreted_counting import absence_tests_of, anchored_tests_of, counting_tests_of
from cepkit.engines.match_recognize.bound import BoundRowQuery, SearchedRows
from cepkit.engines.match_recognize.finding import MOST_WORK, reason_for_python
from cepkit.engines.match_recognize.matching import BUDGET, BUDGET_WITH_LABELS, LABELS, find_row_matches
from cepkit.engines.ordered import has_intervals
from cepkit.engines.regex import PARTITIONS_PER_BLOCK
from cepkit.engines.regex_measures import measure_expressions
from cepkit.engines.sequence_measures import default_measures
from cepkit.errors import CepError
from cepkit.language.cheat_sheet import say_query
from cepkit.language.expressions.durations import counted
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.printing import print_sql, sql_column, sql_key, sql_variable
from cepkit.language.match_recognize.query import AFTER_MATCH, ROWS_PER_MATCH, SelectedRows, SortKey
from cepkit.language.sequences.branches import Branch, Condition
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.evaluation_order import BranchOrder
from cepkit.planning.planner import Engine, automatic_engines
from cepkit.values import dataclass, replace

# The lines of ``explain`` for a regex query.


def regex_lines(program: Program, engine: Engine, notes: tuple[tuple[str, str], ...] = ()) -> list[str]:
    """Return the lines of the explanation of a regex query; ``notes``, labels with texts, come last."""
    query, plan, automaton = program.query, program.plan, program.automaton
    by, order = ", ".join(query.partition_by), ", ".join(query.order_by)
    lines = [
        f"pattern      {query.pattern}",
        f"in words     {say_query(query)}",
        f"partitions   {f'by {by}' if by else 'none: one stream'}",
        f"order        {f'by {order}' if order else 'of the rows'}",
    ]
    if query.within is not None:
        lines.append(f"window       {query.within}")
    defined = dict(query.define)
    for name in dict.fromkeys(automaton.names):
        text = "any event" if name == ANY else str(defined.get(name, f"column {name}"))
        lines.append(f"predicate    {name}: {text}  [{_class_of(program, name)}]")
    lines += [f"measure      {name}: {expression}" for name, expression in measure_expressions(query)]
    lines.append(f"automaton    {states(automaton).n_states} states, {len(automaton.names)} positions")
    lines.append(f"engine       {engine.name}: {engine.summary}")
    lines.append(f"kernel       {_kernel(program)}")
    if program.compiled:
        code = regex_code_of(program)
        lines.append(f"new query    {new_query(code if isinstance(code, str) else None)}")
    remembered = [f"{slot.op}({_columns_of(slot)})" if slot.args else "start number" for slot in plan.slots]
    lines.append(f"remembers    per partial match: {', '.join(['start', 'positions', *remembered])}")
    for queue in plan.queues if query.skips_by_default else ():
        place = automaton.names[queue.position]
        lines.append(f"queue        partial matches wait at {place!r} in order of their starts")
    if plan.dominated and query.skips_by_default:
        names = [automaton.names[p] for p in range(len(automaton.names)) if plan.dominated >> p & 1]
        lines.append(f"dominance    at {', '.join(dict.fromkeys(names))} only the earliest start is kept")
    if not plan.start_conjuncts and not plan.dominated:
        lines.append("note         no condition looks at the start")
    lines += [f"{name.replace('_', ' '):12} {rule}" for name, rule in query.skip_keywords().items() if rule]
    if _may_never_expire(program):
        lines.append(
            "warning      a partial match may wait forever: nothing bounds the loop; consider within=…"
        )
    return [*lines, *(f"{label:12} {text}" for label, text in notes)]


def new_query(reason: str | None) -> str:
    """Return how a query runs until it has a kernel; ``reason`` is why it cannot be interpreted."""
    if reason is None:
        return "is interpreted until its kernel is compiled"
    return f"is compiled first, since it {reason}"


def _class_of(program: Program, name: str) -> str:
    """Return how the condition of a name is computed, such as whether it looks at the match so far."""
    plan, automaton = program.plan, program.automaton
    mask = automaton.mask_of_name(name)
    # At first positions, the only condition on the start is the window, which has its own line.
    conjuncts = [*plan.event_conjuncts, *(c for c in plan.start_conjuncts if not c.mask & automaton.first)]
    terms = [conjunct.term for conjunct in conjuncts if conjunct.mask & mask]
    parts = {part.op for term in terms for part in term.walk()}
    traits = []
    if "call" in parts:
        slow = any(not f.compiled for f in program.functions.values())
        traits.append("Python function, slow path" if slow else "user function")
    if any(term.level == START for term in terms):
        traits.append("looks at the match so far")
    if "previous" in parts:
        traits.append("looks at earlier rows")
    return ", ".join(traits) or "looks at the event alone"


def _kernel(program: Program) -> str:
    """Return whether the query runs as machine code, and on which threads."""
    if not program.compiled:
        return f"runs as Python, since {', '.join(program.reasons_for_python)} is a plain Python function"
    engine = "regex with functions" if program.functions else "regex"
    threads = say_threads(engine, is_one_stream=not program.query.partition_by, is_pure=program.pure)
    return f"machine code, {threads}"


_ONE_STREAM = "since all rows are one stream"
_THREADS = {  # how engines use threads for several partitions, or why they do not
    "regex": f"threads help with over {PARTITIONS_PER_BLOCK:,} partitions or on three cores: dividing rows "
    "takes time",
    "regex with functions": "threads over partitions",
    "chain": "threads sort, test and count from two million events on; one thread makes the list of matches",
    "ordered": "one thread, since a single search goes through all partitions",
    "search": "one thread, since a single search goes through all partitions",
    "rows": "one thread, since conditions and measures take the rows of all partitions at once",
}
_THREADS_OF_ONE_STREAM = {
    "chain": f"threads test from two million events on; one thread does the rest, {_ONE_STREAM}"
}


def say_threads(engine: str, *, is_one_stream: bool, is_pure: bool = True) -> str:
    """Return how an engine uses threads, or why it does not."""
    if not is_pure:
        return "one thread, since a function is not declared pure"
    if is_one_stream:
        return _THREADS_OF_ONE_STREAM.get(engine, f"one thread, {_ONE_STREAM}")
    return _THREADS[engine]


def _may_never_expire(program: Program) -> bool:
    """Return whether a loop has no condition at all, so that every start stays live until a match."""
    plan, automaton = program.plan, program.automaton
    if plan.dominated >> 0 and all(plan.dominated >> p & 1 for p in range(len(automaton.names))):
        return False
    conditions = (*plan.event_conjuncts, *plan.start_conjuncts)
    return any(
        follow >> p & 1 and not plan.dominated >> p & 1 and not any(c.mask >> p & 1 for c in conditions)
        for p, follow in enumerate(automaton.follow)
    )


def _columns_of(term: Term) -> str:
    return ", ".join(str(part.data) for part in term.walk() if part.op == "column")


# The lines of ``explain`` for a sequence query.

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
    scope = f" (scope {query.scope})" if query.strategy == "next" else ""
    lines = [
        f"pattern      {query.pattern}",
        f"in words     {say_query(query)}",
        f"strategy     {_STRATEGIES[query.strategy]}{scope}",
        f"partitions   {f'by {by}' if by else 'none: one stream'}",
        f"order        {f'by {order}' if order else 'of the rows'}",
    ]
    lines += [f"window       {text}" for text in _windows(query)]
    if program.clock_of_waits is not None:
        until = "the last time in the data" if query.complete_until is None else query.complete_until
        lines.append(f"complete     until {until}: an absence that ends later is undecided, and no match")
    if query.after_match[0] != "none":
        policy, variable = query.after_match
        lines.append(f"after match  {policy}{f'({variable})' if variable else ''}")
    for number, (conjunct, kinds) in enumerate(zip(query.where, _classes_of(program), strict=True), 1):
        lines.append(f"condition    {number}. {conjunct}  [{kinds}]")
    prepared = [
        prepared_column
        for prepared_column in program.derived.values()
        if isinstance(prepared_column, Prepared)
    ]
    lines += [
        f"prepared     {prepared_column.column}, for {prepared_column.function}: once, before matching"
        for prepared_column in prepared
    ]
    measures = default_measures(query) if query.measures is None else query.measures
    lines += [f"measure      {name}: {expression}" for name, expression in measures]
    if len(program.branches) > 1:
        lines.append(f"branches     {len(program.branches)}: a match is a match of one of these")
        lines += [f"             {_line(bound.branch)}" for bound in program.branches[:12]]
        if len(program.branches) > 12:
            lines.append(f"             … {len(program.branches) - 12} more")
    lines.append(f"engine       {engine.name}: {engine.summary}")
    if keys := engine.keys_of(program):
        lines.append(f"keys         events are searched by the values of {keys}, as if they were partitions")
    program = engine.searched(program)
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
        if engine.name != "ordered" or not all(map(has_intervals, program.branches)):
            lines.append(f"new query    {new_query(_NEW_QUERIES[engine.name](program))}")
    lines += [f"{label:12} {text}" for label, text in notes]
    return lines


def _windows(query: SequenceQuery) -> list[str]:
    """Return the limits on time and number of a match, one text each."""
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
        bound_ids = {id(c.condition) for c in bound.conditions}
        for condition in bound.branch.conditions:
            if condition.conjunct < len(kinds):  # the end of the data is no condition of the user
                kinds[condition.conjunct][_kind(bound.branch, condition, id(condition) in bound_ids)] = None
    return [", or ".join(event_kinds) or "in no branch" for event_kinds in kinds]


def _counting(program: SequenceProgram) -> str:
    """Return whether matches are counted without a list of them, and why not."""
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
    """Return why counting needs a kernel of its own for this query, or None."""
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
    """Return why the conditions of a sequence cannot be interpreted, or None."""
    codes = (walk_code_of(program, bound) for bound in program.branches)
    return next((reason for reason in codes if isinstance(reason, str)), None)


_NEW_QUERIES = {
    "chain": _reason_to_compile_count, "ordered": _reason_to_compile_walk, "search": _reason_to_compile_walk,
}  # fmt: skip


def _kind(branch: Branch, condition: Condition, is_joint: bool) -> str:
    """Return which events a condition of a branch looks at."""
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
    for measured in chosen.statistics.conditions:
        share = f"{measured.selectivity:.3g} ({measured.n_held:,} of {measured.n_tested:,})"
        lines.append(f"             selectivity of {measured.name}: {share}")
    return lines


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}" if value < 1e6 else f"{value:.2e}"


def _line(branch: Branch) -> str:
    """Return the variables of a branch in one line, with absences and repetitions."""
    parts = []
    for c, component in enumerate(branch.components):
        parts += [f"!{absence.variable}" for absence in branch.absences if absence.before == c]
        high = "" if component.high is None else component.high
        many = "" if (component.low, component.high) == (1, 1) else f"{{{component.low},{high}}}"
        parts.append(component.variable + many)
    end = len(branch.components)
    return " ".join(parts + [f"!{absence.variable}" for absence in branch.absences if absence.before == end])


MEASURED = 2_000  # rows of the sample, about
MOST_STATES = 24  # whose choices are listed


@dataclass(frozen=True)
class MeasuredRows:
    """What the search did on some partitions."""

    # n_rows, n_partitions: the rows and the partitions of the sample
    n_rows: int
    n_partitions: int
    n_tests: int  # how often the search tested whether a variable can take a row
    n_matches: int  # the number of matches
    n_all: int  # the number of rows of the frame
    problem: str = ""  # why the search stopped; empty if it did not


def measure_rows(searched: SearchedRows, most: int = MEASURED) -> MeasuredRows:
    """Search the first partitions, about ``most`` rows, and count the tests."""
    n_tests = 0

    def counting(condition: Compiled) -> Compiled:
        def call(place: Any, row: int) -> Any:
            nonlocal n_tests
            n_tests += 1
            return condition.call(place, row)

        return replace(condition, call=call)

    program = searched.bound.program
    names = program.automaton.variable_of_state
    conditions = {name: counting(program.conditions.get(name, constant_of(True))) for name in names}
    all_tests = replace(program, conditions=conditions)
    n_rows = n_partitions = n_matches = 0
    for part in searched.partitions():
        if n_rows >= most:
            break
        n = min(part.n_rows, most - n_rows)
        columns = {name: values[:n] for name, values in part.columns.items()}
        n_rows, n_partitions = n_rows + n, n_partitions + 1
        try:
            n_matches += len(find_row_matches(all_tests, columns, n))
        except CepError as error:
            problem = str(error)
            return MeasuredRows(n_rows, n_partitions, n_tests, n_matches, searched.events.n_events, problem)
    return MeasuredRows(n_rows, n_partitions, n_tests, n_matches, searched.events.n_events)


def row_pattern_lines(bound: BoundRowQuery, measured: MeasuredRows | None) -> list[str]:
    """Return the lines of `explain` for a MATCH_RECOGNIZE."""
    query, rows = bound.query, bound.query.rows
    keys = ", ".join(map(_key_text, query.keys))
    skip = " ".join(filter(None, [AFTER_MATCH[rows.after_match], _name(rows.after_match_variable)]))
    lines = [
        f"pattern      {rows.pattern}",
        f"in words     {say_query(rows)}",
        f"partitions   {'by ' + ', '.join(query.partition_by) if query.partition_by else 'none: one stream'}",
        f"order        {'by ' + keys if keys else 'of the rows'}",
        f"rows         {ROWS_PER_MATCH[rows.rows_per_match]}",
        f"after match  {skip.removeprefix('AFTER MATCH ')}",
    ]
    if rows.within is not None:
        lines.append(f"window       the last row is less than {rows.within} after the first")
    lines += [
        f"subset       {_name(name)} = {', '.join(map(sql_variable, members))}"
        for name, members in rows.subset
    ]
    lines += list(_variable_lines(bound))
    lines += [f"measure      {sql_column(name)}: {print_sql(tree)}" for name, tree in rows.measures]
    if isinstance(query.whole, SelectedRows):
        lines += list(_select_lines(query.whole))
    lines += list(_automaton_lines(bound))
    lines += list(_cost_lines(bound, measured))
    if measured is not None:  # otherwise tasks of Spark search partitions side by side
        lines.append(f"threads      {say_threads('rows', is_one_stream=not query.partition_by)}")
    return lines


def _name(name: str | None) -> str:
    return "" if name is None else sql_variable(name)


def _key_text(key: SortKey) -> str:
    descending = " descending" if key.descending else ""
    return f"{sql_key(key)}{descending}{', nulls first' if key.nulls_first else ''}"


def _variable_lines(bound: BoundRowQuery) -> Iterator[str]:
    """Yield a line for each variable: its condition, and the rows that it looks at."""
    defined, needs = dict(bound.query.define), bound.program.needs
    for name in dict.fromkeys(bound.program.automaton.variable_of_state):
        if name not in defined:
            yield f"variable     {sql_variable(name)}: any row"
            continue
        looks = "the match so far" if name in needs.variables else "the row and rows a fixed distance away"
        yield f"variable     {sql_variable(name)}: {print_sql(defined[name])}  [looks at {looks}]"


def _select_lines(query: SelectedRows) -> Iterator[str]:
    """Yield the lines on the SELECT around the clause."""
    columns = query.columns
    shown = "*"
    if columns is not None:
        every = rp.EveryColumn
        shown = ", ".join("*" if isinstance(tree, every) else sql_column(name) for name, tree in columns)
    yield f"select       {shown} from {sql_column(query.table)}"
    if query.where is not None:
        yield f"where        {print_sql(query.where)}"
    if query.order_by:
        yield f"result       ordered by {', '.join(map(_key_text, query.order_by))}"
    if query.offset:
        yield f"offset       {query.offset:,} rows"
    if query.limit is not None:
        yield f"limit        {query.limit:,} rows"


def _automaton_lines(bound: BoundRowQuery) -> Iterator[str]:
    """Yield the lines on the automaton of the pattern."""
    from cepkit.plots.automata import choices_of, shown_states

    automaton = bound.program.automaton
    states = choices_of(automaton)
    n = len(states) - 1
    meaning = "a state takes a row, and its choices are in the order of preference"
    yield f"automaton    {counted(n, 'state')}; {meaning}"
    hidden = {shown for shown, out in zip(shown_states(automaton), automaton.excluded, strict=True) if out}
    for state, (name, choices) in enumerate(states[: MOST_STATES + 1]):
        words = [
            "the match is complete" if choice == MATCH else f"{choice} {sql_variable(states[choice][0])}"
            for choice in choices
        ]
        label = f"{state} {sql_variable(name)}" if state else "start"
        label += " (not shown)" * (state in hidden)
        yield f"             {label}: {', else '.join(words) or 'nothing'}"
    if n > MOST_STATES:
        yield f"             … {n - MOST_STATES:,} more states"
    if any(follow[0] != side for follow in automaton.follow for side in follow[1:]):
        yield "             anchors remove choices that do not fit at a side of the partition"


def _cost_lines(bound: BoundRowQuery, measured: MeasuredRows | None) -> Iterator[str]:
    """Yield the lines on what partial matches keep, and on the work of the search."""
    needs, n_states = bound.program.needs, len(bound.program.automaton.variable_of_state)
    is_shared = not needs.needs_start and bound.program.within is None
    is_local = is_shared and not needs.parts
    if is_local:
        yield "history      none: each condition depends on the row and on rows a fixed distance away"
        yield (
            f"cost         linear: at most {n_states:,} tests for each row, since what failed once "
            "is not tried again"
        )
    else:
        kept = list(_kept(bound))
        yield f"history      per partial match: {', '.join(kept)}"
        reason = reason_for_python(bound.program)
        budget = BUDGET_WITH_LABELS if LABELS in needs.parts else BUDGET
        budget = MOST_WORK if reason is None else budget
        yield f"search       {'by kernels' if reason is None else f'in Python: {reason}'}"
        yield (
            f"cost         a partition may try {budget:,} partial matches, or 50 for each row; "
            "partial matches with equal history are tried once"
        )
    if measured is not None and measured.n_rows:
        yield f"             {_measured_text(measured)}"


def _kept(bound: BoundRowQuery) -> Iterator[str]:
    """Yield what a partial match keeps of its rows, in words."""
    needs = bound.program.needs
    if needs.needs_start or bound.program.within is not None:
        yield "the first row"
    for part in needs.parts:
        if part == LABELS:
            yield "the variable of each row"
        elif part[0] == "total":
            yield f"{print_sql(part[1])} so far"
        else:
            end, variable, n_rows = part
            rows = f"the {end} {'row' if n_rows == 1 else f'{n_rows} rows'} of {sql_variable(variable)}"
            yield rows


def _measured_text(measured: MeasuredRows) -> str:
    """Return the work that a search of a part of the rows took."""
    n, parts = measured.n_rows, measured.n_partitions
    each = measured.n_tests / n
    where = f"{counted(n, 'row')} of {counted(parts, 'partition')}"
    if measured.problem:
        return f"measured on {where}: the search stopped after {measured.n_tests:,} tests: {measured.problem}"
    text = f"measured on {where}: {each:.3g} tests for each row, {measured.n_matches:,} match"
    text += "es" * (measured.n_matches != 1)
    if measured.n_all > n:
        text += f"; estimated {each * measured.n_all:,.0f} tests for {measured.n_all:,} rows"
    return text
