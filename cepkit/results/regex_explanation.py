"""The lines of ``explain`` for a regex query."""

from __future__ import annotations

from cepkit.compile.interpreted.regex import regex_code_of
from cepkit.compile.regex.automaton import ANY, states
from cepkit.compile.regex.program import Program
from cepkit.compile.shared.terms import START, Term
from cepkit.engines.measures.regex_measures import measure_expressions
from cepkit.engines.regex.matching import PARTITIONS_PER_BLOCK
from cepkit.language.saying import say_query
from cepkit.planning.planner import Engine


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
    for queue in plan.queues:
        place = automaton.names[queue.position]
        lines.append(f"queue        partial matches wait at {place!r} in order of their starts")
    if plan.dominated:
        names = [automaton.names[p] for p in range(len(automaton.names)) if plan.dominated >> p & 1]
        lines.append(f"dominance    at {', '.join(dict.fromkeys(names))} only the earliest start is kept")
    if not plan.start_conjuncts and not plan.dominated:
        lines.append("note         no condition looks at the start")
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
    plan, automaton = program.plan, program.automaton
    mask = automaton.mask_of_name(name)
    # At first positions, the only condition on the start is the window, which has its own line.
    own = [*plan.event_conjuncts, *(c for c in plan.start_conjuncts if not c.mask & automaton.first)]
    terms = [conjunct.term for conjunct in own if conjunct.mask & mask]
    parts = {part.op for term in terms for part in term.walk()}
    found = []
    if "call" in parts:
        slow = any(not f.compiled for f in program.functions.values())
        found.append("Python function, slow path" if slow else "user function")
    if any(term.level == START for term in terms):
        found.append("looks at the match so far")
    if "previous" in parts:
        found.append("looks at earlier rows")
    return ", ".join(found) or "looks at the event alone"


def _kernel(program: Program) -> str:
    if not program.compiled:
        return f"runs as Python, since {', '.join(program.reasons_for_python)} is a plain Python function"
    engine = "regex with functions" if program.functions else "regex"
    threads = say_threads(engine, is_one_stream=not program.query.partition_by, is_pure=program.pure)
    return f"machine code, {threads}"


_ONE_STREAM = "since all rows are one stream"
_THREADS = {  # how engines use threads for several partitions, or why they do not
    "regex": f"threads pay for more than {PARTITIONS_PER_BLOCK:,} partitions or on three cores, as dealing "
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
