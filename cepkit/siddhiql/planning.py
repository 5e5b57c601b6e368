"""From a SiddhiQL app and the schemas of frames to plans of its queries. All errors come from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from cepkit.errors import CepError, UnsupportedQueryError, did_you_mean, underline, warn
from cepkit.language.expressions import trees as ex
from cepkit.language.siddhi import query as sp
from cepkit.limits import QUERIES_IN_A_ROW, refuse_beyond
from cepkit.siddhiql.calls import Scope, SlotOf, Value, single_value
from cepkit.siddhiql.functions import BOOL, STRING, WHOLE, Type
from cepkit.siddhiql.patterns import (
    Equality,
    JoinedPlan,
    PatternPlan,
    PatternQueryPlan,
    QueryPlan,
    SidePlan,
    StreamPlan,
    endless_states,
    fault_of_start,
    slots_in_order,
)
from cepkit.siddhiql.selecting import attributes_of, compile_selection
from cepkit.siddhiql.values import all_hold, compile_condition, compile_siddhi
from cepkit.siddhiql.windows import WindowPlan, plan_window
from cepkit.values import dataclass, field, replace

# The filters of the states of a pattern: their tests, and the equalities that they need.

State = sp.EventState | sp.AbsentState


class AttributePlace(NamedTuple):
    """Where an attribute is: its slot, and its place and type in the events of the slot."""

    slot: int
    place: int
    type: Type


class FilterScope(Scope):
    """The names in the filter of a state. The name of its stream means the event at hand."""

    def __init__(self, state: State, place: int, slots: Sequence[SlotOf], source: str, per_ms: int):
        state_slot = slots[place]
        every = [*slots]
        every[place] = SlotOf(
            (*state_slot.names, state.source.stream), state_slot.attributes, state_slot.is_counted
        )
        super().__init__(every, source, f"filter of {state_slot.names[0]}", place, None, per_ms)
        self._place = place

    def slot(self, node: ex.Expression, name: str) -> int:
        """Return the event that a name means in a filter: one of exactly this name, or the filtered event."""
        if name in self.slots[self._place].names:
            exact = [i for i, slot in enumerate(self.slots) if slot.names[0] == name]
            return exact[0] if exact else self._place
        return super().slot(node, name)

    def place_of(self, node: ex.Expression) -> AttributePlace | None:
        """Return where an attribute is; None for an index and for all other expressions."""
        if isinstance(node, ex.Attribute):
            slot = self._place
        elif isinstance(node, ex.Reference) and node.name is not None and node.index is None:
            slot = self.slot(node, node.variable)
        else:
            return None
        return AttributePlace(slot, *self.slots[slot].attributes[node.name])

    def can_be_key(self, own: AttributePlace, other: AttributePlace) -> bool:
        """Return whether a filter may find earlier events by this value of the event at hand."""
        # The earlier state takes one event, and equal values have equal hashes.
        before, kinds = self.slots[other.slot], {own.type, other.type}
        is_earlier = own.slot == self._place and other.slot < self._place
        has_one_event = not before.is_counted and not before.is_absent
        return is_earlier and has_one_event and (kinds <= {*WHOLE} or kinds in ({STRING}, {BOOL}))


def filter_test(conditions: Sequence[ex.Expression], scope: FilterScope) -> Value | None:
    """Return the conditions of a state as one function, or None without conditions."""
    calls = [compile_condition(condition, scope) for condition in conditions]
    if len(calls) < 2:
        return calls[0] if calls else None
    return all_hold(calls)


def filter_keys(state: State, scope: FilterScope) -> tuple[tuple[Equality, ...], Value | None]:
    """Return the equalities that a state needs, between its event and earlier ones, and the other test."""
    # Call it after `filter_test`, which raises for names that do not exist.
    equalities, others = [], []
    for tree in chain.from_iterable(map(ex.conjuncts, state.source.conditions)):
        key = _key_of(tree, scope)
        (others if key is None else equalities).append(key or tree)
    return tuple(equalities), filter_test(others, scope)


def _key_of(tree: ex.Expression, scope: FilterScope) -> Equality | None:
    """Return a condition as an equality of the event with an earlier one, or None."""
    if isinstance(tree, ex.Comparison) and tree.operator == "==":
        sides = [scope.place_of(node) for node in (tree.left, tree.right)]
        for event_side, earlier_side in (sides, sides[::-1]):
            if (
                event_side is not None
                and earlier_side is not None
                and scope.can_be_key(event_side, earlier_side)
            ):
                return Equality(event_side.place, earlier_side.slot, earlier_side.place)
    return None


Schema = tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class PlannedQuery:
    """The plan of a query, and the stream that its rows go to."""

    plan: QueryPlan
    target: str


@dataclass(frozen=True)
class KeyOfStream:
    """How a partition finds the keys of an event: one value, or the names of the ranges that hold."""

    value: Value | None
    ranges: tuple[tuple[Value, str], ...] = ()


@dataclass(frozen=True)
class PlannedPartition:
    """The plans of the queries of a partition, and the keys of its streams."""

    keys: Mapping[str, KeyOfStream]
    queries: tuple[PlannedQuery, ...]


@dataclass
class AppPlan:
    """An app that can run: the schema of each stream, and its elements in order."""

    app: sp.SiddhiApp
    schemas: dict[str, Schema] = field(default_factory=dict)
    elements: list[PlannedQuery | PlannedPartition] = field(default_factory=list)
    meeting: list[set[str]] = field(default_factory=list)  # streams whose order in one query matters
    item_types: dict[tuple[str, str], Type] = field(default_factory=dict)  # of columns that are lists

    @property
    def outputs(self) -> tuple[str, ...]:
        """The streams that queries write, in the order of the text."""
        targets = [query.target or query.name or "return" for query in self.app.queries()]
        return tuple(dict.fromkeys(name for name in targets if not name.startswith("#")))


def plan_app(app: sp.SiddhiApp, frames: Mapping[str, Schema], ticks_per_ms: int, has_clock: bool) -> AppPlan:
    return _Planner(app, frames, ticks_per_ms, has_clock).plan()


class _Planner:
    def __init__(self, app: sp.SiddhiApp, frames: Mapping[str, Schema], ticks_per_ms: int, has_clock: bool):
        self._app, self._frames, self._per_ms, self._has_clock = app, frames, ticks_per_ms, has_clock
        self._made = AppPlan(app)
        self._inner: dict[str, Schema] = {}

    def plan(self) -> AppPlan:
        """Return the plan of the app, with every query after those that it reads."""
        self._read_streams()
        self._refuse_cycles()
        self._refuse_long_chains()
        waiting = list(enumerate(self._app.elements))
        done: dict[int, PlannedQuery | PlannedPartition] = {}
        while waiting:
            ready = [(i, element) for i, element in waiting if self._is_ready(element)]
            if not ready:
                self._refuse_unknown(waiting[0][1])
            for i, element in ready:
                done[i] = self._element(element)
            waiting = [(i, element) for i, element in waiting if i not in done]
        self._made.elements = [done[i] for i in range(len(done))]
        return self._made

    # --- streams

    def _error(self, span: tuple[int, int] | None, message: str, kind: type[CepError] = CepError) -> CepError:
        source = self._app.source
        if span is not None and source:
            message += f"\n{underline(source, span[0], span[1] - span[0])}"
        return kind(message)

    def _read_streams(self) -> None:
        """Note the attributes of all streams that are defined, or that are frames."""
        schemas = self._made.schemas
        for stream in self._app.streams:
            if stream.name in schemas:
                raise self._error(stream.span, f"stream {stream.name!r} is defined twice")
            schemas[stream.name] = stream.attributes
        schemas.update({name: schema for name, schema in self._frames.items() if name not in schemas})
        read = {source.stream for query in self._app.queries() for source in query.sources()}
        targets = {query.target for query in self._app.queries()}
        defined = {stream.name for stream in self._app.streams}
        unused = [name for name in self._frames if name not in read | targets | defined]
        if unused:
            stream_names = sorted(name for name in read if not name.startswith("#"))
            hint = did_you_mean(unused[0], stream_names)
            raise CepError(
                f"no query reads the stream {unused[0]!r}; the queries read {', '.join(stream_names)}{hint}"
            )
        for query in self._app.queries():
            for source in query.sources():
                name = source.stream
                if name not in self._frames and name not in targets:
                    raise self._no_frame(source)

    def _no_frame(self, source: sp.StreamSource) -> CepError:
        """Return the error for a stream without a frame."""
        name = source.stream
        if name.startswith("#"):
            return self._error(source.span, f"no query of the partition writes the inner stream {name!r}")
        hint = did_you_mean(name, [*self._frames, *self._made.outputs])
        return self._error(source.span, f"stream {name!r} has no frame; pass it as {name}=frame{hint}")

    def _refuse_cycles(self) -> None:
        """Raise if a stream feeds itself."""
        feeds: dict[str, set[str]] = {}
        for query in self._app.queries():
            if query.target is not None:
                for source in query.sources():
                    feeds.setdefault(source.stream, set()).add(query.target)

        def reached(start: str) -> set[str]:
            visited, new = set[str](), {start}
            while new:
                new = {after for name in new for after in feeds.get(name, ())} - visited
                visited |= new
            return visited

        for query in self._app.queries():
            if query.target is not None and query.target in reached(query.target):
                raise self._error(
                    query.span,
                    f"the queries feed {query.target!r} to itself, which never ends; write to another stream",
                    UnsupportedQueryError,
                )

    def _refuse_long_chains(self) -> None:
        """Raise if a query reads the results of too many others, one after the other."""
        n_before: dict[str, int] = {}
        read = [
            (query.target, [source.stream for source in query.sources()])
            for query in self._app.queries() if query.target is not None
        ]  # fmt: skip
        for _ in range(QUERIES_IN_A_ROW + 1):
            changed = False
            for target, sources in read:
                n = 1 + max((n_before.get(source, 0) for source in sources), default=0)
                if n > n_before.get(target, 0):
                    n_before[target], changed = n, True
            if not changed:
                break
        longest = max(n_before.values(), default=0)
        cure = "Run them in several apps, one after the other"
        refuse_beyond(QUERIES_IN_A_ROW, longest, "queries that read one another in a row", cure)

    def _is_ready(self, element: sp.SiddhiQuery | sp.SiddhiPartition) -> bool:
        """Return whether all streams are known that an element reads."""
        queries = _queries(element)
        targets = {query.target for query in queries}
        return all(
            source.stream in self._made.schemas or (source.stream in targets and len(queries) > 1)
            for query in queries
            for source in query.sources()
        )

    def _refuse_unknown(self, element: sp.SiddhiQuery | sp.SiddhiPartition) -> None:
        for query in _queries(element):
            for source in query.sources():
                self._schema(source)

    def _schema(self, source: sp.StreamSource) -> Schema:
        """Return the attributes of a stream."""
        if source.stream in self._inner:
            return self._inner[source.stream]
        if source.stream not in self._made.schemas:
            raise self._no_frame(source)
        return self._made.schemas[source.stream]

    # --- elements

    def _element(self, element: sp.SiddhiQuery | sp.SiddhiPartition) -> PlannedQuery | PlannedPartition:
        """Return the plan of a query or of a partition."""
        if isinstance(element, sp.SiddhiQuery):
            for name in (*(source.stream for source in element.sources()), element.target):
                if name is not None and name.startswith("#"):
                    raise self._error(element.span, f"the inner stream {name!r} belongs into a partition")
            return self._query(element)
        keys: dict[str, KeyOfStream] = {}
        for key in element.keys:
            keys[key.stream] = self._key(key)
        self._inner = {}
        queries = tuple(self._query(query) for query in element.queries)
        read = {source.stream for query in element.queries for source in query.sources()}
        self._inner = {}
        unused = sorted(set(keys) - read)
        if unused:
            raise CepError(f"partition with: no query of the partition reads {unused[0]!r}")
        return PlannedPartition(keys, queries)

    def _key(self, key: sp.PartitionKey) -> KeyOfStream:
        """Return how the key of a partition is computed for the events of a stream."""
        if key.stream not in self._made.schemas:
            hint = did_you_mean(key.stream, self._made.schemas)
            raise CepError(f"partition with: no stream {key.stream!r}{hint}")
        slot = self._slot((key.stream,), self._made.schemas[key.stream])
        scope = Scope([slot], self._app.source, "partition with", 0, None, self._per_ms)
        if key.value is not None:
            return KeyOfStream(single_value(key.value, compile_siddhi(key.value, scope), scope))
        return KeyOfStream(
            None, tuple((compile_condition(condition, scope), name) for condition, name in key.ranges)
        )

    def _query(self, query: sp.SiddhiQuery) -> PlannedQuery:
        """Return the plan of a query, and note the stream that it writes."""
        match query.input:
            case sp.StreamInput(source=source):
                plan: QueryPlan = self._stream_plan(query, source)
            case sp.JoinInput():
                plan = self._join_plan(query, query.input)
            case sp.PatternInput():
                plan = self._pattern_plan(query, query.input)
        if len(plan.streams) > 1:
            self._made.meeting.append(set(plan.streams))
        schema = tuple(zip(plan.selection.names, plan.selection.types, strict=True))
        target = query.target or query.name or "return"
        if query.target is None:
            self._made.schemas.setdefault(target, schema)
        self._made.item_types |= {
            (target, name): item_type for name, item_type in plan.selection.item_types.items()
        }
        self._write(query, target, schema)
        return PlannedQuery(plan, target)

    def _write(self, query: sp.SiddhiQuery, target: str, schema: Schema) -> None:
        """Note the attributes that a query writes to a stream. Raise if they differ from others."""
        schemas = self._inner if target.startswith("#") else self._made.schemas
        if target not in schemas:
            schemas[target] = schema
            return
        names, query_names = [name for name, _ in schemas[target]], [name for name, _ in schema]
        if names != query_names:
            raise self._error(
                query.span,
                f"insert into {target}: the stream has the attributes {names}, the query gives {query_names}",
            )

    def _slot(self, names: tuple[str, ...], schema: Schema, is_counted: bool = False) -> SlotOf:
        return SlotOf(
            names, attributes_of([name for name, _ in schema], [kind for _, kind in schema]), is_counted
        )

    def _needs_clock(self, what: str, span: tuple[int, int] | None) -> None:
        if not self._has_clock:
            raise self._error(span, f"{what} needs a clock; name a column of times, as in order_by='ts'")

    # --- streams and joins

    def _side(self, source: sp.StreamSource, names: tuple[str, ...], query: sp.SiddhiQuery, searched: bool):
        """Return the plan of a stream with its filters and window."""
        slot = self._slot(names, self._schema(source))
        scope = Scope([slot], self._app.source, "filter", 0, None, self._per_ms)
        before: list[Value] = []
        after: list[Value] = []
        window_scope = Scope([slot], self._app.source, "", 0, None, self._per_ms)  # the window says where

        def planned(handler: sp.WindowHandler | None) -> WindowPlan | None:
            return plan_window(handler, slot, query.events != "current", searched, self._per_ms, window_scope)

        window = planned(None)
        for handler in source.handlers:
            if isinstance(handler, sp.WindowHandler):
                window = planned(handler)
                if window is not None and window.name in ("time", "timeBatch", "timeLength"):
                    self._needs_clock(f"#window.{window.name}", handler.span)
            elif window is None or window.name == "":
                before.append(compile_condition(handler.condition, scope))
            else:
                after.append(compile_condition(handler.condition, scope))
        return SidePlan(source.stream, tuple(before), window, tuple(after)), slot

    def _stream_plan(self, query: sp.SiddhiQuery, source: sp.StreamSource) -> StreamPlan:
        """Return the plan of a query over one stream: its filters and window, then its columns."""
        side, slot = self._side(source, (source.stream,), query, False)
        selection = compile_selection(query, [slot], self._app.source, self._per_ms)
        selection.keeps_last = side.window is not None and not side.window.is_sliding
        return StreamPlan(side, selection)

    def _join_plan(self, query: sp.SiddhiQuery, given: sp.JoinInput) -> JoinedPlan:
        """Return the plan of a join."""
        left, left_slot = self._joined(given.left, query)
        right, right_slot = self._joined(given.right, query)
        if left_slot.names[0] == right_slot.names[0]:
            raise self._error(
                given.right.source.span, f"both sides are named {left_slot.names[0]!r}; name them with 'as'"
            )
        scope = Scope([left_slot, right_slot], self._app.source, "on", None, None, self._per_ms)
        on = None if given.on is None else compile_condition(given.on, scope)
        keeps = (given.how in ("left", "full"), given.how in ("right", "full"))
        selection = compile_selection(query, [left_slot, right_slot], self._app.source, self._per_ms)
        return JoinedPlan(
            (left, right), (given.left.is_trigger, given.right.is_trigger), keeps, on, selection
        )

    def _joined(self, side: sp.JoinSide, query: sp.SiddhiQuery):
        name = side.reference or side.source.stream
        return self._side(side.source, (name,), query, True)

    # --- patterns

    def _pattern_plan(self, query: sp.SiddhiQuery, given: sp.PatternInput) -> PatternQueryPlan:
        """Return the plan of a pattern."""
        states = slots_in_order(given.pattern)
        slots = [self._state_slot(state, given.pattern) for state in states]
        names = [slot.names[0] for state, slot in zip(states, slots, strict=True) if _reference(state)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise self._error(query.span, f"two states are named {twice[0]!r}; give each its own name")
        scopes = [
            FilterScope(state, i, slots, self._app.source, self._per_ms) for i, state in enumerate(states)
        ]
        tests = [
            filter_test(state.source.conditions, scope) for state, scope in zip(states, scopes, strict=True)
        ]
        if given.within_ms is not None:
            self._needs_clock("within", query.span)
        for state in given.pattern.walk():
            if isinstance(state, sp.AbsentState) and state.wait_ms is not None:
                self._needs_clock("not … for", state.span)
        fault = fault_of_start(given.pattern)
        if fault is not None:
            raise self._error(fault[0].span, fault[1], UnsupportedQueryError)
        for message in endless_states(given):
            warn(message)
        plan = PatternPlan(
            given.pattern, given.is_sequence,
            None if given.within_ms is None else given.within_ms * self._per_ms,
            tuple(state.source.stream for state in states), tuple(tests),
            tuple(map(filter_keys, states, scopes)), tuple(len(slot.attributes) for slot in slots),
            self._per_ms,
        )  # fmt: skip
        return PatternQueryPlan(plan, compile_selection(query, slots, self._app.source, self._per_ms))

    def _state_slot(self, state: sp.EventState | sp.AbsentState, pattern: sp.StatePattern) -> SlotOf:
        """Return the slot of a state, which names its events."""
        source = state.source
        for handler in source.handlers:
            if isinstance(handler, sp.WindowHandler):
                raise self._error(handler.span, "a state of a pattern has no window; write 'within' after it")
        counted = any(isinstance(node, sp.CountedState) and node.body is state for node in pattern.walk())
        slot = self._slot((_reference(state) or source.stream,), self._schema(source), counted)
        return replace(slot, is_absent=isinstance(state, sp.AbsentState))


def _queries(element: sp.SiddhiQuery | sp.SiddhiPartition) -> tuple[sp.SiddhiQuery, ...]:
    return element.queries if isinstance(element, sp.SiddhiPartition) else (element,)


def _reference(state: sp.EventState | sp.AbsentState) -> str | None:
    return state.reference if isinstance(state, sp.EventState) else None
