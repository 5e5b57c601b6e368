"""Sequences whose events are joined by equality, searched as partitions by the values that must be equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cepkit.compile.interpreted_columns import constants_of, ordered_numbers, tests_by_side
from cepkit.compile.sequence_program import EACH, BoundBranch, BoundCondition, SequenceProgram
from cepkit.compile.sequence_source import test_of, without_variable
from cepkit.compile.shared.terms import EVENT, Term
from cepkit.engines.shared.places import InStreamOrder, accepted, chunk_readers, threads_for
from cepkit.engines.shared.sequence_set import EMPTY, FoundElsewhere, KnownMatches, MatchBlock, SequenceSet
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, TEXT, TIME, Column, ColumnType, Events
from cepkit.values import dataclass, replace

_KINDS = (INTEGER, FLOAT, TEXT, TIME, DURATION)
_WIDEST = 4  # values in a range of up to four times their number are codes themselves
Search = Callable[[SequenceProgram, Events], SequenceSet]


class Key(NamedTuple):
    """A value of one event that equals that of all other events of a match; as a float if one of them is."""

    term: Term
    as_float: bool


class Role(NamedTuple):
    """What an event is in a match: it passes a test of single events and has the value of a key."""

    test: int  # row of `accepted`
    key: int
    takes_null: bool  # whether no other event must be equal, so that null may stay


@dataclass(frozen=True)
class KeyedProgram:
    """A program without the equalities that its partitions fulfil; its events have a truth for each role."""

    program: SequenceProgram
    keys: tuple[Key, ...]
    roles: tuple[Role, ...]
    conjuncts: tuple[int, ...]  # numbers of the conjuncts that keys replace


# The program.


def keyed_program(program: SequenceProgram) -> KeyedProgram | None:
    """Return the program that searches partitions by key, or None if equalities do not join all events."""
    return program.once("by key", lambda: _keyed(program))


def _keyed(program: SequenceProgram) -> KeyedProgram | None:
    if program.window.within_events is not None or not program.branches:
        return None
    keys: dict[Key, int] = {}
    roles: dict[Role, int] = {}
    branches, conjuncts = [], set()
    for bound in program.branches:
        joined = _joined_by_key(bound)
        if joined is None:
            return None
        key_of_part, as_float, replaced = joined
        n, takes_null = len(bound.accepts), len(bound.accepts) == 1
        conjuncts |= {bound.conditions[i].condition.conjunct for i in replaced}

        def role(part: int, variable: str, terms: tuple[Term, ...], *, is_absent: bool = False) -> tuple:
            key = keys.setdefault(Key(key_of_part[part], as_float), len(keys))  # noqa: B023 - called at once
            role = Role(test_of(program, terms), key, takes_null and not is_absent)  # noqa: B023
            name = _column_of(roles.setdefault(role, len(roles)))
            return (Term("element", (), BOOLEAN, None, False, (variable, EACH, name), EVENT),)

        accepts = [
            role(c, component.variable, bound.accepts[c])
            for c, component in enumerate(bound.branch.components)
        ]
        absent = [
            role(n + a, absence.variable, bound.absent_accepts[a], is_absent=True)
            for a, absence in enumerate(bound.branch.absences)
        ]
        kept = [condition for i, condition in enumerate(bound.conditions) if i not in replaced]
        branches.append(
            replace(bound, accepts=tuple(accepts), absent_accepts=tuple(absent), conditions=tuple(kept))
        )
    return KeyedProgram(
        _with_branches(program, branches, len(roles)), tuple(keys), tuple(roles), tuple(sorted(conjuncts))
    )


def _column_of(role: int) -> str:
    """Return the name of the column of truths that stands for a role."""
    return f"(role {role})"


def _with_branches(program: SequenceProgram, branches: list[BoundBranch], n_roles: int) -> SequenceProgram:
    """Return the program with other branches, and without columns that these do not read."""
    leaves = (leaf for bound in branches for root in bound.terms() for leaf in root.walk())
    read = {leaf.column for leaf in leaves if leaf.op == "element"}
    kept = [name for name in program.columns if name in read]
    roles = [_column_of(role) for role in range(n_roles)]
    groups = tuple(group for group in program.text_groups if group & read)  # a group is kept whole
    of_groups = [name for group in groups for name in sorted(group)]
    return replace(
        program, branches=tuple(branches), columns=tuple(dict.fromkeys([*kept, *roles, *of_groups])),
        text_groups=groups, schema={**program.schema, **dict.fromkeys(roles, ColumnType(BOOLEAN))},
    )  # fmt: skip


# Parts of a branch are its components and then its absences, by number.


class _Equality(NamedTuple):
    """Condition number ``condition`` says that terms of two parts of a branch are equal."""

    condition: int
    as_float: bool
    ends: tuple[tuple[int, Term], tuple[int, Term]]


def _joined_by_key(bound: BoundBranch) -> tuple[dict[int, Term], bool, set[int]] | None:
    """Return a term that is equal for all events of a match, by part, and the conditions that say so."""
    components, n_absences = bound.branch.components, len(bound.branch.absences)
    steps = [component.step for component in components[1:]]
    steps += [component.inner for component in components if component.high != 1]
    is_free = all(step == "any" for step in steps)
    if set(steps) - {"any", "next"} or any(component.until is not None for component in components):
        return None
    if components[0].high != 1 and (not is_free or len(components) == 1):  # events of it may have any key
        return None
    if is_free and any(component.preference != "all" for component in components):
        return None
    equalities = [
        equality
        for i, condition in enumerate(bound.conditions)
        if (equality := _equality(i, condition, bound))
    ]
    n, n_parts = len(components), len(components) + n_absences
    for as_float in (False, True):
        links = [equality.ends for equality in equalities if equality.as_float == as_float]
        for start in dict.fromkeys(term for ends in links for part, term in ends if part == 0):
            key_of_part = {0: start}
            if is_free:
                _grow(key_of_part, range(n), links)
            else:  # each event must be equal to one before it
                for c in range(1, n):
                    _grow(key_of_part, range(c + 1), links)
                    if c not in key_of_part:
                        break
            if len(key_of_part) == n:
                _grow(key_of_part, range(n_parts), links)
            if len(key_of_part) == n_parts:
                items = set(key_of_part.items())
                replaced = {
                    e.condition for e in equalities if e.as_float == as_float and items >= set(e.ends)
                }
                return key_of_part, as_float, replaced
    return None


def _grow(key_of_part: dict[int, Term], parts: range, links: Sequence[tuple]) -> None:
    """Add each of ``parts`` that an equality links to the term of a part with a key."""
    n_before = -1
    while n_before < len(key_of_part):
        n_before = len(key_of_part)
        for left, right in links:
            for (part, term), (other, other_term) in ((left, right), (right, left)):
                if part in parts and part not in key_of_part and key_of_part.get(other) == other_term:
                    key_of_part[part] = term


def _equality(number: int, joining: BoundCondition, bound: BoundBranch) -> _Equality | None:
    """Return a condition as an equality of two parts, or None."""
    condition, n = joining.condition, len(bound.branch.components)

    def part_of(leaf: Term) -> int:
        return dict(condition.components).get(leaf.data[0], n + (condition.absence or 0))

    leaves = [leaf for leaf in joining.term.walk() if leaf.op in ("element", "group")]
    if not condition.each or any(leaf.op == "group" or leaf.data[1] != EACH for leaf in leaves):
        return None
    tests = tests_by_side([joining.term], part_of)
    if isinstance(tests, str) or len(tests) != 1:
        return None
    [((part, other), same)] = tests.items()
    if part == other or len(same) != 1 or same[0].other is None or same[0].sign != "==":
        return None
    [test] = same
    if test.one.kind not in _KINDS or test.other.kind not in _KINDS:
        return None
    ends = (part, without_variable(test.one)), (other, without_variable(test.other))
    return _Equality(number, FLOAT in (test.one.kind, test.other.kind), ends)


# The events.


class _KeyValues(NamedTuple):
    codes: np.ndarray  # int32, (n_events,)
    is_known: np.ndarray  # bool, (n_events,)


def keyed_events(
    keyed: KeyedProgram, program: SequenceProgram, events: Events
) -> tuple[Events, np.ndarray | None]:
    """Return the events by key, and the position of each among ``events``; None if it is its own."""
    # An event with several keys has a copy for each.
    inputs, n = program.inputs(events.columns), events.n_events
    n_threads = threads_for(n) if program.compiled and program.pure else 1
    accept = accepted(InStreamOrder(program, inputs, n), threads=n_threads).view(np.bool_)
    values, n_codes = _codes_of_keys(keyed.keys, constants_of(program, inputs), inputs.columns, n)
    plays = [
        accept[role.test] if role.takes_null else accept[role.test] & values[role.key].is_known
        for role in keyed.roles
    ]
    plays_of_key: list[list[np.ndarray]] = [[] for _ in keyed.keys]
    for is_played, role in zip(plays, keyed.roles, strict=True):
        plays_of_key[role.key].append(is_played)
    serves = [reduce(np.logical_or, of_key) for of_key in plays_of_key]
    codes, position = values[0].codes, None
    for (others, _), is_served in zip(values[1:], serves[1:], strict=True):
        codes = np.where(is_served, others, codes)
    if any(
        (is_served & (of_key != codes)).any() for (of_key, _), is_served in zip(values, serves, strict=True)
    ):
        position, codes = _copies(values, serves)
        plays = [
            is_played[position] & (values[role.key].codes[position] == codes)
            for is_played, role in zip(plays, keyed.roles, strict=True)
        ]
    copies = events if position is None else events.at(position)
    truth = ColumnType(BOOLEAN)
    columns = {_column_of(i): Column(truth, is_played.view(np.int8)) for i, is_played in enumerate(plays)}
    partition, n_partitions = _partitions(copies, codes, n_codes)
    return Events(
        copies.n_events, {**copies.columns, **columns}, partition, n_partitions, copies.row_of_event
    ), position


def _codes_of_keys(
    keys: Sequence[Key], constants: tuple, columns: Any, n: int
) -> tuple[list[_KeyValues], int]:
    """Return codes of the values of each key, which are equal where the values are; null has its own."""
    scalars = {name: values for name, values in columns.items() if values.ndim == 1}
    numbers, valid = np.empty((len(keys), n), np.int64), np.empty((len(keys), n), np.bool_)
    with np.errstate(all="ignore"):
        for rows, reader in chunk_readers(scalars, n, constants):
            size = len(numbers[0, rows])
            for k, key in enumerate(keys):
                numbers[k, rows], valid[k, rows] = ordered_numbers(reader, key.term, key.as_float, size)
    used = [row if is_known.all() else row[is_known] for row, is_known in zip(numbers, valid, strict=True)]
    bounds = [(int(row.min()), int(row.max())) for row in used if len(row)] or [(0, -1)]
    low, n_codes = min(low for low, _ in bounds), max(high for _, high in bounds)
    n_codes = n_codes - low + 1
    if n_codes > _WIDEST * n + 1:
        factors, uniques = pd.factorize(np.concatenate(used))
        numbers[valid], low, n_codes = factors, 0, len(uniques)
    codes = [(row - low).astype(np.int32) for row in numbers]
    for row, is_known in zip(codes, valid, strict=True):
        row[~is_known] = n_codes
    return [_KeyValues(*pair) for pair in zip(codes, valid, strict=True)], n_codes + 1


def _copies(values: Sequence[_KeyValues], serves: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the rising positions of copies, and the code of each; no event has one code twice."""
    position = np.concatenate([np.flatnonzero(is_served) for is_served in serves])
    codes = np.concatenate(
        [of_key.codes[is_served] for of_key, is_served in zip(values, serves, strict=True)]
    )
    order = np.lexsort((codes, position))
    position, codes = position[order], codes[order]
    is_new = np.ones(len(position), np.bool_)
    is_new[1:] = (position[1:] != position[:-1]) | (codes[1:] != codes[:-1])
    return position[is_new], codes[is_new]


def _partitions(events: Events, codes: np.ndarray, n_codes: int) -> tuple[np.ndarray, int]:
    """Return the partition of each event by its old partition and its code, and their number."""
    n_partitions = max(1, events.n_partitions)
    if n_partitions > 1:
        codes, n_codes = events.partition_of_event.astype(np.int64) * n_codes + codes, n_codes * n_partitions
    if n_codes > _WIDEST * len(codes) + 2:
        codes, uniques = pd.factorize(codes)
        n_codes = len(uniques)
    return np.ascontiguousarray(codes, np.int32), n_codes


# The matches.


class MatchesByKey(FoundElsewhere):
    """The matches that an engine finds in the partitions by key."""

    def __init__(self, search: Search, program: SequenceProgram, keyed: KeyedProgram, events: Events):
        self.events, self._search, self._program, self._keyed = events, search, program, keyed

    @cached_property
    def _searched(self) -> tuple[SequenceSet, np.ndarray | None]:
        events, position = keyed_events(self._keyed, self._program, self.events)
        return self._search(self._keyed.program, events), position

    @property
    def by_key(self) -> SequenceSet:
        """The matches among the events by key."""
        return self._searched[0]

    @property
    def position(self) -> np.ndarray | None:
        """The position of each event by key, int64; None if it is its own."""
        return self._searched[1]

    @cached_property
    def _found(self) -> SequenceSet:
        by_key, position = self._searched
        return by_key if position is None else _FoundInCopies(self.events, by_key, position)

    @property
    def run(self) -> Any:
        return getattr(self.by_key, "run", None)


class _FoundInCopies(FoundElsewhere):
    """Matches of events that have a copy for each of their keys; ``position`` has the event of each copy."""

    # The order of the copies differs from that of the events.
    first, glance, take = SequenceSet.first, SequenceSet.glance, SequenceSet.take
    blocks, whole_blocks = SequenceSet.blocks, SequenceSet.whole_blocks

    def __init__(self, events: Events, by_key: SequenceSet, position: np.ndarray):
        self.events, self._found, self._position = events, by_key, position

    def _block(self, block: MatchBlock) -> MatchBlock:
        return MatchBlock(
            self._position[block.event_of_item], block.component_of_item, block.first_item_of_match,
            block.branch_of_match,
        ).sorted()  # fmt: skip

    def ends(self) -> tuple[np.ndarray, list[int] | np.ndarray]:
        positions, counts = self._found.ends()
        if not len(positions):
            return positions, counts
        positions = self._position[positions]
        first = np.flatnonzero(np.diff(positions, prepend=-1))  # the first of equal positions
        return positions[first], np.add.reduceat(np.asarray(counts), first)

    def ending(self, low: int, high: int) -> MatchBlock:
        return self._block(self._found.ending(*np.searchsorted(self._position, [low, high]).tolist()))

    def sample(self, n: int, seed: int = 0) -> MatchBlock:
        return self._block(self._found.sample(n, seed))


def match_by_key(search: Search, program: SequenceProgram, events: Events) -> SequenceSet:
    keyed = keyed_program(program)
    if not events.n_events:
        return KnownMatches(events, EMPTY)
    if keyed is None:
        return search(program, events)
    return MatchesByKey(search, program, keyed, events)
