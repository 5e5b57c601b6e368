"""The plan of a pattern on Spark: every node of every state is a task, and the gather is a further one."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from cepkit.compile.sequence_program import SequenceProgram, compile_sequence
from cepkit.compile.sequence_source import test_of, tests_of
from cepkit.engines.shared.places import Places, accepted
from cepkit.engines.shared.sequence_set import KnownMatches
from cepkit.errors import OrderError, ResultTooLargeError
from cepkit.events import ColumnType, Frame
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import build_events
from cepkit.frames.spark import (
    in_utc,
    numbered_columns,
    result_types,
    sent_batches,
    too_many,
    use_kernel_cache,
)
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.pipelines.spark_session import worker_python
from cepkit.results import spark_tasks as tasks
from cepkit.results.spark_found import SparkFound
from cepkit.results.spark_tasks import refuse
from cepkit.scaleout.plans import ByKey, Routing, ScatterPlan, ToGroup, ToMember
from cepkit.scaleout.query_nodes import Partials, PatternNodes, begun
from cepkit.values import dataclass, replace

_MOST_TESTS = 62  # bits of a column of marks
_BITS_OF_RANGE = 44  # bits of an event's number for its place in a range of time


def tasks_unsupported(program: SequenceProgram) -> str | None:
    """Return why the nodes of a program cannot be tasks of their own; None if they can."""
    if program.query.selects:
        return "after_match looks at all matches of a partition"
    if program.window.within_events is not None:
        return "a window in events counts events that the node does not have"
    if len(tests_of(program)) > _MOST_TESTS:
        return f"the query has more than {_MOST_TESTS} conditions on single events"
    for bound in program.branches:
        components = bound.branch.components
        if len(components) < 2:
            return "the pattern has one state"
        for component in components:
            if component.is_group or component.high != 1:
                return f"the number of rounds of {component.variable!r} is unknown before the job runs"
            if component.step in ("strict", "partition"):
                return f"{component.variable!r} depends on events that the node does not have"
    return None


class ScatteredOnSpark(SparkFound):
    """The matches of a sequence by the stages of a plan, each node a Spark task."""

    def __init__(self, frame, source, program, engine, plans: list[ScatterPlan]):
        self._plans = plans
        super().__init__(frame, source, program, engine)

    def _run(self, tell: tasks.Tell, columns: list[str] | None = None, limit: int | None = None) -> Frame:
        """Return what ``tell`` reports of the matches, as a Spark frame."""
        names = self._columns if columns is None else columns
        program, cache = self.program, os.environ.get("CEPKIT_CACHE")
        work = NodeWork(program.query, program.schema, tuple(names), cache, program.complete_until)
        worker_python(self.frame.sparkSession)  # functions on groups keep the Python that is set here
        marked = self._marked(names, work)
        matches = None
        for branch, plan in enumerate(self._plans):
            branch_matches = self._branch(marked, plan, work, branch)
            matches = branch_matches if matches is None else matches.unionAll(branch_matches)
        assert matches is not None
        source, program = self.source, self.program
        nothing = tasks.nothing_found(program, source, names)
        types, output = result_types(next(iter(tell(nothing))), source)
        n = max(plan.stages[-1].n_nodes for plan in self._plans)
        gathered = matches.selectExpr("*", f"pmod(element_at(items, -1).seq, {n}) as node").groupBy("node")
        return gathered.applyInArrow(_gather(work, tell, output, limit), types)

    def _marked(self, names: list[str], work: NodeWork) -> Frame:
        """Return the events with their number ``seq``, and fulfilled conditions as bits in ``marks``."""
        events = numbered_columns(self.frame, self.source, names)
        query = self.program.query
        keys = [f"e{names.index(name)}" for name in (*query.order_by, *query.partition_by)]
        order = ", ".join(dict.fromkeys(keys))
        events = events.selectExpr("*", f"{self._range_of(events, keys[0])} as range")
        window = f"over (partition by range order by {order})"
        numbered = events.selectExpr(
            "*",
            f"shiftleft(cast(range as bigint), {_BITS_OF_RANGE}) + row_number() {window} - 1 as number",
            f"lag(struct({order})) {window} <=> struct({order}) as tie",
        ).drop("range")
        message = (
            f"order_by={[*query.order_by]}: events of one partition are ties. Spark keeps no order of rows "
            "that could decide; add a column to order_by that distinguishes them, such as a sequence number"
        )
        numbered = refuse(numbered, numbered["tie"], OrderError, message).drop("tie")
        numbered = numbered.withColumnRenamed("number", "seq")
        types = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in numbered.schema)
        return numbered.mapInArrow(_mark(work), f"{types}, marks bigint")

    def _range_of(self, events: Frame, clock: str) -> str:
        """Return the number of an event's range of time, as an expression: one task numbers a range."""
        # Events of one time are in one range, and the ranges are in the order of time.
        kind = events.schema[clock].dataType.typeName()
        if kind in ("string", "binary"):
            return "0"
        time = f"cast({f'cast({clock} as timestamp)' if kind == 'date' else clock} as double)"
        n = max(plan.stages[-1].n_nodes for plan in self._plans)
        shares = ", ".join(str(k / n) for k in range(1, n))
        if not shares:
            return "0"
        [bounds] = events.selectExpr(f"percentile_approx({time}, array({shares}), 1000)").head()
        finite = sorted({bound for bound in bounds or () if math.isfinite(bound)})
        return " + ".join(["0", *(f"coalesce(cast({time} >= {bound!r}d as int), 0)" for bound in finite)])

    def _branch(self, marked: Frame, plan: ScatterPlan, work: NodeWork, branch: int) -> Frame:
        """Return the matches of a branch, with ``items``, the events of each."""
        bound = self.program.branches[branch]
        events = [name for name in marked.columns if name != "marks"]
        item = marked.select(*events).schema.simpleString()
        schema = f"branch int, items array<{item}>"
        key = f"xxhash64({', '.join(self._key_columns(work)) or '0'})"
        matches = None
        for k, (component, stage) in enumerate(zip(bound.branch.components, plan.stages, strict=True)):
            fulfils = _fulfils([bound.accepts[k]], self.program)
            to_nodes = _nodes(stage.feeds[0].routing, "seq", key)
            routed = marked.where(fulfils).selectExpr(*events, "true as joins", to_nodes)
            is_last = k == len(plan.stages) - 1
            if matches is None:
                matches = routed.groupBy("node").applyInArrow(_begin(work, branch), schema)
                continue
            if is_last and bound.branch.absences:
                routing = next(f.routing for f in stage.feeds[::-1])
                absent = marked.where(_fulfils(bound.absent_accepts, self.program))
                extra = absent.selectExpr(*events, "false as joins", _nodes(routing, "seq", key))
                routed = routed.unionAll(extra)
            number = "xxhash64(transform(items, i -> i.seq))"
            own_key = f"xxhash64({', '.join(f'items[0].{name}' for name in self._key_columns(work)) or '0'})"
            sent = matches.selectExpr("*", _nodes(stage.feeds[1].routing, number, own_key))
            joins = routed.groupBy("node").cogroup(sent.groupBy("node"))
            matches = joins.applyInArrow(_join(work, branch, k), schema)
            if component.step == "next":  # the gather of the state: the first event of all groups
                parent = "transform(slice(items, 1, size(items) - 1), i -> i.seq)"
                first = f"row_number() over (partition by {parent} order by element_at(items, -1).seq) as nth"
                matches = matches.selectExpr("*", first).where("nth = 1").drop("nth")
            if is_last and bound.branch.absences and component.step == "next":
                # The first next event decides, and only then absent events rule out the match.
                sent = matches.selectExpr("*", _nodes(stage.feeds[1].routing, number, own_key))
                joins = routed.groupBy("node").cogroup(sent.groupBy("node"))
                matches = joins.applyInArrow(_check_absences(work, branch), schema).distinct()
        assert matches is not None
        return matches

    def _key_columns(self, work: NodeWork) -> list[str]:
        return [f"e{work.columns.index(name)}" for name in self.program.query.partition_by]


def _fulfils(terms, program: SequenceProgram) -> str:
    """Return the condition on ``marks`` that an event fulfils one of these conjunctions."""
    bits = sum({1 << test_of(program, term) for term in terms})
    return f"(marks & {bits}L) != 0"


def _nodes(routing: Routing, number: str, key: str) -> str:
    """Return the routing as an expression of Spark; ``number`` is the item's number and ``key`` its key."""
    match routing:
        case ByKey(nodes=n):
            nodes = f"array(pmod({key}, {n}))"
        case ToGroup(groups=g, members=m):
            nodes = f"transform(sequence(0L, {m - 1}L), m -> pmod({number}, {g}) * {m} + m)"
        case ToMember(groups=g, members=m):
            nodes = f"transform(sequence(0L, {g - 1}L), g -> g * {m} + pmod({number}, {m}))"
        case _:
            raise TypeError(f"no tasks for {routing}")
    return f"explode({nodes}) as node"


# --- in the workers


@dataclass(frozen=True, slots=True)
class NodeWork:
    """What the tasks of all nodes know: the query, the types, and the names of columns ``e0``, ``e1``, …."""

    query: SequenceQuery
    schema: Mapping[str, ColumnType]
    columns: tuple[str, ...]
    kernel_cache: str | None
    complete_until: int | float | None  # in ticks, since a task has a part of the events

    def program(self) -> SequenceProgram:
        use_kernel_cache(self.kernel_cache)
        program = compile_sequence(self.query, self.schema)
        until = self.complete_until
        return program if until is None else replace(program, complete_until=until)


class NodeEvents:
    """The events that a task has, in stream order, with the places of their numbers."""

    def __init__(self, work: NodeWork, program: SequenceProgram, events: pa.Table, matches: pa.Table | None):
        names = [*(f"e{i}" for i in range(len(work.columns))), "seq"]
        parts = [events.select(names)]
        if matches is not None:
            items = matches.column("items").combine_chunks()
            flat = items.flatten() if isinstance(items, pa.ListArray) else pa.concat_arrays([items]).flatten()
            fields = {flat.type.field(i).name: flat.field(i) for i in range(flat.type.num_fields)}
            match_events = pa.table({name: fields[name] for name in names})
            parts.append(match_events.cast(parts[0].schema))
        table = pa.concat_tables(parts).combine_chunks()
        seq, first = np.unique(table.column("seq").to_numpy(), return_index=True)
        self.table = table.take(pa.array(first)).combine_chunks()
        self.source = ArrowSource(in_utc(self.table.select(names[:-1]).rename_columns([*work.columns])))
        self.events = build_events(self.source, program)
        self.places = Places(program, self.events)
        self.seq = seq
        row_of_position = self.events.rows(np.arange(len(seq)))
        self.row_of_place = row_of_position[self.places.position_of_place]
        self.place_of_row = np.empty(len(seq), np.int64)
        self.place_of_row[self.row_of_place] = np.arange(len(seq))

    def places_of(self, seq: np.ndarray) -> np.ndarray:
        return self.place_of_row[np.searchsorted(self.seq, seq)]

    def partials(self, matches: pa.Table, n_components: int) -> Partials:
        """Return partial matches that came from other nodes."""
        items = matches.column("items").combine_chunks()
        numbers = items.flatten().field("seq").to_numpy().reshape(len(matches), -1)
        size = np.zeros((len(matches), n_components), np.int64)
        size[:, : numbers.shape[1]] = 1
        return Partials(self.places_of(numbers), size)

    def sent(self, found: Partials, branch: int, items: pa.DataType | None = None) -> pa.Table:
        """Return partial matches with the columns of their events."""
        length = found.place.shape[1]
        rows = self.row_of_place[found.place.reshape(-1)]
        taken = self.table.take(pa.array(rows)).combine_chunks()
        arrays = [column.combine_chunks() for column in taken.columns]
        flat = pa.StructArray.from_arrays(arrays, fields=list(taken.schema))
        offsets = pa.array(np.arange(len(found) + 1, dtype=np.int32) * length, pa.int32())
        lists = pa.ListArray.from_arrays(offsets, flat)
        return pa.table({"branch": pa.array(np.full(len(found), branch, np.int32)), "items": lists})


def _mark(work: NodeWork) -> Callable:
    """Return the function that adds which conditions on single events each row fulfils."""

    def mark(batches):
        """Yield the rows with `marks`: a bit for each test of single events that the row passes."""
        program = work.program()
        for batch in batches:
            table = pa.Table.from_batches([batch])
            node_events = NodeEvents(work, program, table, None)
            bits = np.zeros(len(node_events.seq), np.int64)
            for test, row in enumerate(accepted(node_events.places)):
                bits |= row[node_events.place_of_row].astype(np.int64) << test
            yield from node_events.table.append_column("marks", pa.array(bits)).to_batches()

    return mark


def _at_node(
    work: NodeWork, branch: int, events: pa.Table, matches: pa.Table | None
) -> tuple[NodeEvents, PatternNodes]:
    """Return the events of a task, and what tests and joins them."""
    node_events = NodeEvents(work, work.program(), events, matches)
    places = node_events.places
    return node_events, PatternNodes(places, accepted(places), branch, ScatterPlan("", (), "", "", ""), 1)


def _begin(work: NodeWork, branch: int) -> Callable:
    """Return the function that makes the partial matches of one event at a node."""

    def begin(events: pa.Table) -> pa.Table:
        node_events, node = _at_node(work, branch, events, None)
        partials = begun(node_events.places_of(node_events.seq), node.n_components)
        keep = node.holds(partials, 0, each=True) & (not node.program.window.is_empty)
        return node_events.sent(partials.take(keep), branch)

    return begin


def _join(work: NodeWork, branch: int, component: int) -> Callable:
    """Return the function that extends partial matches by events at a node."""

    def join(events: pa.Table, matches: pa.Table) -> pa.Table:
        if not len(events) or not len(matches):
            return _no_matches(work, events if len(events) else matches, branch)
        node_events, node = _at_node(work, branch, events, matches)
        partials = node_events.partials(matches, node.n_components)
        joining = events.filter(events.column("joins")).column("seq").to_numpy()
        here = np.sort(node_events.places_of(joining))
        longer = node.joined(partials, here, component)
        is_last = component == node.n_components - 1
        if is_last and node.bound.branch.components[component].step != "next":
            longer = node.without_absent(longer)
        return node_events.sent(longer, branch)

    return join


def _check_absences(work: NodeWork, branch: int) -> Callable:
    """Return the function that drops matches with a forbidden event at a node."""

    def check(events: pa.Table, matches: pa.Table) -> pa.Table:
        if not len(matches):
            return _no_matches(work, events, branch)
        if not len(events):
            return matches.select(["branch", "items"])
        node_events, node = _at_node(work, branch, events, matches)
        return node_events.sent(node.without_absent(node_events.partials(matches, node.n_components)), branch)

    return check


def _no_matches(work: NodeWork, like: pa.Table, branch: int) -> pa.Table:
    if "items" in like.schema.names:
        return like.select(["branch", "items"]).slice(0, 0)
    node_events = NodeEvents(work, work.program(), like.slice(0, 0), None)
    return node_events.sent(begun(np.empty(0, np.int64), 1), branch)


def _gather(work: NodeWork, tell: tasks.Tell, output: pa.Schema, limit: int | None) -> Callable:
    """Return the function that reports the matches of all nodes."""

    def gather(found: pa.Table) -> pa.Table:
        from cepkit.engines.shared.sequence_set import joined

        program = work.program()
        items = found.column("items").combine_chunks().flatten()
        events = pa.table({items.type.field(i).name: items.field(i) for i in range(items.type.num_fields)})
        node_events = NodeEvents(work, program, events, None)
        blocks = []
        branches = found.column("branch").to_numpy()
        for branch in np.unique(branches).tolist():
            rows = found.take(pa.array(np.flatnonzero(branches == branch))).combine_chunks()
            n_components = len(program.branches[branch].branch.components)
            blocks.append(node_events.partials(rows, n_components).block(node_events.places, branch))
        matches = KnownMatches(node_events.events, joined(blocks).sorted())
        if limit is not None and matches.count() > limit:
            raise ResultTooLargeError(too_many(limit))
        parts = tell(tasks.Searched(tasks.found_in(program, node_events.source, matches), work.columns))
        batches = [batch for results in parts for batch in sent_batches(results, node_events.source, output)]
        return pa.Table.from_batches(batches, schema=output)

    return gather
