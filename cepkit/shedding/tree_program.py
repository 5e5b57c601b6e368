"""A sequence query as left-deep evaluation trees: leaves, inner nodes, and conditions as low as they can be.

Source: ZStream (Mei and Madden, SIGMOD 2009), left-deep trees; DARLING, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from cepkit.compile.instructions import NotInterpretedError, reading_unsupported
from cepkit.compile.interpreted_walk import BranchWriter, ConditionCode, table_of_rows
from cepkit.compile.sequence_program import EARLIER, LAST, PREVIOUS, BoundBranch, SequenceProgram
from cepkit.compile.sequence_source import without_variable
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.compile.shared.terms import Term
from cepkit.errors import CepError
from cepkit.events import FLOAT
from cepkit.kernels.wings import tree_layout as kernel
from cepkit.language.sequences.branches import Absence, Condition
from cepkit.values import dataclass, field

KILLS_IF, ALLOWED_IF = "kills_if", "allowed_if"
READINGS = (KILLS_IF, ALLOWED_IF)
ANY_TYPE = "any type"
_MOST_LEAVES = 4096
# A role is a leaf and whether the event is the one before in the same Kleene closure, as in ``b[i-1].x``.
Role = tuple[int, bool]


@dataclass(frozen=True)
class LeafCondition:
    """A condition as it is bound, with the leaf of each of its variables."""

    term: Term
    leaf_of_variable: Mapping[str, int]

    @property
    def roles(self) -> tuple[Role, ...]:
        """The events that the condition reads."""
        return tuple(dict.fromkeys(self.role(part) for part in leaves_of_term(self.term)))

    def role(self, part: Term) -> Role:
        """Return the event that a leaf of the term means."""
        if part.op == "group":
            return self.leaf_of_variable[part.data[1]], part.data[2] == EARLIER
        return self.leaf_of_variable[part.data[0]], part.data[1] == PREVIOUS

    @property
    def reason_unknown(self) -> str | None:
        """Why single events have no share of this condition, to complete "it …", or None."""
        if _counts(self.term):
            return "counts events"
        return reading_unsupported(self.term)


@dataclass(frozen=True, slots=True)
class TreeCondition:
    """A condition at its node."""

    text: str  # as the user wrote it
    leaves: tuple[int, ...]  # numbers of the leaves whose events it reads, ascending
    # Where it is evaluated: the number of a leaf, or of an inner node. Inner node k has the number ``n_leaves
    # + k``. A condition on an absent event belongs to the leaf of that event.
    node: int
    bound: LeafCondition  # as it is bound
    is_between: bool  # whether it compares the events of one Kleene closure with one another
    is_closing: bool  # whether it is evaluated for complete sets of a Kleene closure


@dataclass(frozen=True, slots=True)
class TreeLeaf:
    """A leaf: the events of one type that one component of a pattern takes, or that must be absent."""

    variable: str  # name of the component
    type: int  # number of its event type in ``TreeProgram.types``
    tree: int  # number of its tree. A query with alternatives has several trees.
    is_absent: bool = False  # whether its events must be absent
    # low, high: how many events it takes; -1 for ``high``: no limit
    low: int = 1
    high: int = 1
    is_group: bool = False  # whether it can take several events


@dataclass(frozen=True, slots=True)
class TreeNode:
    """An inner node: partial matches of the node ``left`` with one of the leaf ``right``."""

    left: int
    right: int
    tree: int
    leaves: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class TreeProgram:
    """A bound sequence query as left-deep trees; made by `TreeProgram.of`.

    A query without alternatives has one tree. ``all_of`` is one tree without an order between its events if
    every part is a single event. Every other alternative has a tree of its own.
    """

    program: SequenceProgram  # the bound query
    # ``"kills_if"``: an absent event forbids a match when its conditions hold. ``"allowed_if"``: it forbids a
    # match unless they hold.
    negation: str
    # Names of the event types, in the order of the leaves. In a sequence of different types, type i belongs
    # to leaf i.
    types: tuple[str, ...]
    # The leaves of all trees. In each tree, those of absent events follow the others.
    leaves: tuple[TreeLeaf, ...]
    nodes: tuple[TreeNode, ...]  # the inner nodes of all trees. Node k has the number ``n_leaves + k``.
    conditions: tuple[TreeCondition, ...]  # in the order of the query at each node
    code: TreeCode = field(repr=False)

    @property
    def n_leaves(self) -> int:
        return len(self.leaves)

    @property
    def n_states(self) -> int:
        """The most components that a match has; a partial match of state s has s of them."""
        return int(self.code.trees[:, kernel.N_COMPONENTS].max(initial=1))

    @classmethod
    def of(
        cls, program: BoundQuery, *, negation: str = KILLS_IF, order: Sequence[str] | None = None
    ) -> TreeProgram | str:
        """Return a bound query as trees, or the reason why it cannot run, to complete "it …"."""
        check_reading(negation)
        if reason := _unsupported(program):
            return reason
        try:
            return _TreeWriter(program, negation, _checked_order(program, order)).write()
        except NotInterpretedError as error:
            return str(error)


@dataclass(frozen=True, eq=False)
class TreeCode(ConditionCode):
    """What the kernel reads of a program; see `cepkit.kernels.wings.tree.advance`."""

    tests: tuple[Term, ...]  # tests of single events. Their terms name no variable.
    type_tests: tuple[int | None, ...]  # for each event type, its row among the tests; None for any type
    # nodes, listed, unary, orders, trees, absences, groups: int64: the trees
    nodes: np.ndarray
    listed: np.ndarray
    unary: np.ndarray
    orders: np.ndarray
    trees: np.ndarray
    absences: np.ndarray
    groups: np.ndarray
    walk: tuple[np.ndarray, ...]  # conditions, loops, loads, groups and instructions
    # For each tree, the number of the branch that has its components in an order.
    branch_of_order: tuple[dict[tuple[int, ...], int], ...]
    leaf_of_component: tuple[tuple[int, ...], ...]  # for each tree, the leaf of every component

    def types_of(self, n: int, holds: Callable[[int], np.ndarray]) -> np.ndarray:
        """Return the number of the type of each of ``n`` events, by the truth of each test; -1: no type."""
        kinds = np.full(n, -1, np.int64)
        # A type that any event has comes first, so that the others replace it.
        for number, test in sorted(enumerate(self.type_tests), key=lambda pair: pair[1] is not None):
            kinds[slice(None) if test is None else holds(test)] = number
        return kinds


def check_reading(negation: str) -> None:
    """Refuse what is no reading of conditions on absent events."""
    if negation not in READINGS:
        raise CepError(f"negation={negation!r}: expected one of {', '.join(map(repr, READINGS))}")


# --- what the tree runs -------------------------------------------------------------------------------------


def tree_unsupported(program: BoundQuery) -> str | None:
    """Return why the tree cannot run a query, to complete "it …", or None."""
    tree = TreeProgram.of(program)
    return tree if isinstance(tree, str) else None


def _unsupported(program: BoundQuery) -> str | None:
    if not isinstance(program, SequenceProgram):
        return "it runs event sequences only"
    window, clock = program.window, program.clock
    is_timed = window.within is not None or window.gap_within is not None or window.strict_time
    if is_timed and clock in program.schema and program.schema[clock].kind == FLOAT:
        return f"it counts whole ticks, and the clock {clock!r} is of floating point"
    components = [(bound, c) for bound in program.branches for c in range(len(bound.branch.components))]
    if len(components) + sum(len(bound.branch.absences) for bound in program.branches) > _MOST_LEAVES:
        return f"its trees would have more than {_MOST_LEAVES:,} leaves"
    for bound, c in components:
        component = bound.branch.components[c]
        if component.until is not None:
            return f"until ends the loop {component.variable!r}, and it builds sets of events only"
        if (c and component.step != "any") or (component.is_group and component.inner != "any"):
            return "it finds matches by skip-till-any-match only"
        if component.preference != "all":
            return f"the loop {component.variable!r} has a preference"
    return next(filter(None, map(reading_unsupported, program.terms())), None)


def _checked_order(program: SequenceProgram, order: Sequence[str] | None) -> tuple[str, ...] | None:
    if order is None:
        return tuple(program.query.evaluation_order) or None
    if sorted(order) != sorted(program.query.variables):
        raise CepError(
            f"order={list(order)!r}: expected every variable once: {', '.join(program.query.variables)}"
        )
    return tuple(order)


# --- branches that share a tree -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    """One tree: a branch, and the branches that it stands for by the order of its components."""

    bound: BoundBranch
    branch_of_order: dict[tuple[int, ...], int]
    precedes: np.ndarray  # bool, (n, n): whether component i must end before component j begins


def _shapes(program: SequenceProgram) -> list[_Shape]:
    """Return the trees of a program. Branches that differ only in their order share one if they can."""
    alike: dict[tuple, list[int]] = {}
    for number, bound in enumerate(program.branches):
        key: tuple = (number,)
        if _may_share(program, bound):
            names = frozenset(component.variable for component in bound.branch.components)
            key = names, bound.branch.options
        alike.setdefault(key, []).append(number)
    shapes = []
    for numbers in alike.values():
        shared = _shared(program, numbers) if len(numbers) > 1 else None
        if shared is not None:
            shapes.append(shared)
        else:
            shapes += [_alone(program.branches[number], number) for number in numbers]
    return shapes


def _may_share(program: SequenceProgram, bound: BoundBranch) -> bool:
    branch, window = bound.branch, program.window
    if branch.absences or window.strict_time or window.gap_within is not None:
        return False
    return all(not c.is_group and not c.rounds for c in branch.components)


def _alone(bound: BoundBranch, number: int) -> _Shape:
    n = len(bound.branch.components)
    return _Shape(bound, {tuple(range(n)): number}, np.triu(np.ones((n, n), np.bool_), 1))


def _shared(program: SequenceProgram, numbers: list[int]) -> _Shape | None:
    """Return one tree for several branches, if they are all orders that some precedences allow."""
    bound = program.branches[numbers[0]]
    place = {component.variable: c for c, component in enumerate(bound.branch.components)}
    n = len(place)
    branch_of_order, precedes = {}, np.ones((n, n), np.bool_)
    wanted = sorted(condition.conjunct for condition in bound.branch.conditions)
    for number in numbers:
        branch = program.branches[number].branch
        order = tuple(place[component.variable] for component in branch.components)
        if sorted(condition.conjunct for condition in branch.conditions) != wanted:
            return None
        branch_of_order[order] = number
        rank = np.argsort(order)
        precedes &= rank[:, None] < rank[None, :]
    if len(branch_of_order) != len(numbers) or _n_orders(precedes) != len(numbers):
        return None
    return _Shape(bound, branch_of_order, precedes)


def _n_orders(precedes: np.ndarray) -> int:
    """Return how many orders some precedences allow."""
    n = len(precedes)
    before = [sum(1 << i for i in range(n) if precedes[i, j]) for j in range(n)]
    ways = {0: 1}
    for _ in range(n):
        longer: dict[int, int] = {}
        for done, count in ways.items():
            for j in range(n):
                if not done >> j & 1 and before[j] & ~done == 0:
                    longer[done | 1 << j] = longer.get(done | 1 << j, 0) + count
        ways = longer
    return sum(ways.values())


# --- trees as tables ----------------------------------------------------------------------------------------


@dataclass
class _Own:
    """The numbers of the conditions of a node by what the kernel does with them."""

    unary: list[tuple[int, int]] = field(default_factory=list)
    taken: list[tuple[int, int]] = field(default_factory=list)
    closing: list[tuple[int, int]] = field(default_factory=list)
    joined: list[tuple[int, int]] = field(default_factory=list)


class _TreeWriter(BranchWriter):
    """Writes the tables of all trees of a program."""

    def __init__(self, program: SequenceProgram, negation: str, order: tuple[str, ...] | None):
        super().__init__(program, program.branches[0])
        self.negation, self.order = negation, order
        self.tests: dict[Term, int] = {}
        self.types: dict[str, int | None] = {}  # name: row of its test
        self.leaves: list[TreeLeaf] = []
        self.inner: list[TreeNode] = []
        self.listed_conditions: list[TreeCondition] = []
        self.listed, self.unary, self.orders, self.trees, self.absences = ([] for _ in range(5))

    def write(self) -> TreeProgram:
        shapes = _shapes(self.program)
        plans, n_leaves = [], 0
        for tree, shape in enumerate(shapes):
            plans.append(self._plan(tree, shape))
        n_leaves = len(self.leaves)
        width = max((len(shape.bound.branch.components) for shape in shapes), default=1)
        groups = np.zeros((max(1, len(shapes)), max(1, width)), np.int64)
        nodes = np.full((n_leaves + 2 * n_leaves + 1, kernel.N_NODE_COLUMNS), -1, np.int64)
        leaf_of_component = []
        for tree, (shape, (order, leaf_of)) in enumerate(zip(shapes, plans, strict=True)):
            self.bound, self.of = shape.bound, shape.bound.branch.components
            self.n = len(self.of)
            groups[tree, : self.n] = [component.is_group for component in self.of]
            self._tree(tree, shape, order, leaf_of, nodes)
            leaf_of_component.append(tuple(leaf_of[: self.n]))
        nodes = nodes[: n_leaves + len(self.inner)]
        widths = (
            (self.listed, 2), (self.unary, 2), (self.orders, 4), (self.trees, 4), (self.absences, 7),
        )  # fmt: skip
        code = TreeCode(
            *self.values_read(), tuple(self.tests), tuple(self.types.values()), nodes,
            *(table_of_rows(rows, width) for rows, width in widths), groups, self.tables_of_conditions(),
            tuple(shape.branch_of_order for shape in shapes), tuple(leaf_of_component),
        )  # fmt: skip
        return TreeProgram(
            self.program, self.negation, tuple(self.types), tuple(self.leaves), tuple(self.inner),
            tuple(self.listed_conditions), code,
        )  # fmt: skip

    # --- leaves

    def _test(self, term: Term) -> int:
        return self.tests.setdefault(without_variable(term), len(self.tests))

    def _type(self, event_type: object, terms: tuple[Term, ...]) -> int:
        name = ANY_TYPE if event_type is None else str(event_type)
        self.types.setdefault(name, None if event_type is None else self._test(terms[0]))
        return list(self.types).index(name)

    def _plan(self, tree: int, shape: _Shape) -> tuple[list[int], list[int]]:
        """Add the leaves of a tree. Return its components in order, and the leaves of all its parts."""
        bound = shape.bound
        components, absences = bound.branch.components, bound.branch.absences
        order = list(range(len(components)))
        if self.order is not None:
            order.sort(key=lambda c: (self.order.index(components[c].variable), c))
        leaf_of = [0] * len(components)
        for c in order:
            part = components[c]
            leaf_of[c] = len(self.leaves)
            high = -1 if part.high is None else part.high
            kind = self._type(part.event_type, bound.accepts[c])
            self.leaves.append(TreeLeaf(part.variable, kind, tree, False, part.low, high, part.is_group))
        for a, part in enumerate(absences):
            leaf_of.append(len(self.leaves))
            kind = self._type(part.event_type, bound.absent_accepts[a])
            self.leaves.append(TreeLeaf(part.variable, kind, tree, True))
        return order, leaf_of

    # --- one tree

    def _tree(
        self, tree: int, shape: _Shape, order: list[int], leaf_of: list[int], nodes: np.ndarray
    ) -> None:
        n_leaves, bound = len(self.leaves), shape.bound
        absences = bound.branch.absences
        joins: list[int] = []  # node after each component of the order
        for t, c in enumerate(order):
            if t == 0:
                joins.append(leaf_of[c])
                continue
            joins.append(n_leaves + len(self.inner))
            leaves = tuple(leaf_of[x] for x in order[: t + 1])
            self.inner.append(TreeNode(joins[-2], leaf_of[c], tree, leaves))
        if self.of[order[0]].is_group and len(order) == 1:
            joins.append(n_leaves + len(self.inner))
            self.inner.append(TreeNode(joins[0], -1, tree, (joins[0],)))
        node_of = {c: joins[t] for t, c in enumerate(order)}
        rank = {c: t for t, c in enumerate(order)}
        of_node = self._conditions(bound, leaf_of, node_of, rank)
        # Nodes.
        for t, c in enumerate(order):
            self._leaf(nodes, leaf_of[c], tree, c, of_node.get(leaf_of[c], _Own()))
            if t:
                self._join(nodes, joins[t - 1], leaf_of[c], joins[t], order[:t], c, shape)
                self._span(nodes[joins[t]], kernel.FIRST_JOIN, of_node.get(joins[t], _Own()).joined)
                nodes[joins[t], kernel.STATE] = t + 1
                nodes[joins[t], kernel.TREE] = tree
        for column in (kernel.IS_ROOT, kernel.KEEPS, kernel.TRIES, kernel.IS_GROUP, kernel.IS_RIGHT):
            of_tree = [*leaf_of, *joins]
            nodes[of_tree, column] = np.maximum(nodes[of_tree, column], 0)
        root = joins[-1]
        nodes[root, kernel.IS_ROOT], nodes[root, kernel.TREE] = 1, tree
        if len(order) == 1 and len(joins) == 2:
            nodes[joins[0], [kernel.PARENT, kernel.PEER, kernel.KEEPS]] = root, -1, 1
            nodes[root, kernel.STATE] = 1
        first_absence = len(self.absences)
        for a, absence in enumerate(absences):
            self._absent(nodes, leaf_of[self.n + a], tree, absence, of_node)
        waits = any(absence.before >= self.n and not absence.spanning for absence in absences)
        self.trees.append([self.n, first_absence, len(self.absences), int(waits)])

    def _span(self, row: np.ndarray, column: int, numbers: list[tuple[int, int]]) -> None:
        row[column], row[column + 1] = len(self.listed), len(self.listed) + len(numbers)
        self.listed += numbers

    def _leaf(self, nodes: np.ndarray, leaf: int, tree: int, c: int, own: _Own) -> None:
        component, row = self.of[c], self._row_of_leaf(nodes, leaf, own)
        row[kernel.TREE], row[kernel.STATE], row[kernel.COMPONENT] = tree, 1, c
        row[kernel.IS_GROUP], row[kernel.LOW] = component.is_group, component.low
        row[kernel.HIGH], row[kernel.IS_ABSENT] = self.leaves[leaf].high, kernel.NOT_ABSENT
        if component.is_group:
            row[kernel.KEEPS] = 1
        self._span(row, kernel.FIRST_OWN, own.taken)
        self._span(row, kernel.FIRST_CLOSE, own.closing)

    def _row_of_leaf(self, nodes: np.ndarray, leaf: int, own: _Own) -> np.ndarray:
        """Return the row of a leaf, with its type and the conditions on single events."""
        row, test = nodes[leaf], list(self.types.values())[self.leaves[leaf].type]
        row[kernel.TYPE_TEST] = -1 if test is None else test
        row[kernel.FIRST_UNARY], row[kernel.LAST_UNARY] = len(self.unary), len(self.unary) + len(own.unary)
        self.unary += own.unary
        return row

    def _join(
        self, nodes: np.ndarray, left: int, right: int, node: int, before: list[int], c: int, shape: _Shape
    ) -> None:
        """Write what a join needs: its sides, who tries whom, and the order of their events."""
        precedes = shape.precedes
        left_first = [x for x in before if precedes[x, c]]
        right_first = [x for x in before if precedes[c, x]]
        for side, other, is_right in ((left, right, 0), (right, left, 1)):
            nodes[side, kernel.PARENT], nodes[side, kernel.PEER] = node, other
            nodes[side, kernel.IS_RIGHT] = is_right
        # A side is kept if events of the other side can complete it later.
        left_waits, right_waits = not right_first, len(left_first) < len(before)
        nodes[left, kernel.KEEPS] = max(nodes[left, kernel.KEEPS], int(left_waits))
        nodes[right, kernel.KEEPS] = max(nodes[right, kernel.KEEPS], int(right_waits))
        nodes[right, kernel.TRIES], nodes[left, kernel.TRIES] = int(left_waits), int(right_waits)
        nodes[node, kernel.FIRST_ORDER] = len(self.orders)
        whole = len(shape.branch_of_order) == 1
        for x in before:
            if x in left_first:
                if whole and x != max(left_first):
                    continue  # an earlier component ends before a later one
                self.orders.append([x, c, kernel.LEFT_FIRST, int(whole and x + 1 == c)])
            elif x in right_first:
                if whole and x != min(right_first):
                    continue
                self.orders.append([x, c, kernel.RIGHT_FIRST, int(whole and c + 1 == x)])
            else:
                self.orders.append([x, c, kernel.DIFFERENT, 0])
        nodes[node, kernel.LAST_ORDER] = len(self.orders)

    def _absent(
        self, nodes: np.ndarray, leaf: int, tree: int, absence: Absence, own: dict[int, _Own]
    ) -> None:
        conditions = own.get(leaf, _Own())
        row = self._row_of_leaf(nodes, leaf, conditions)
        row[kernel.TREE], row[kernel.STATE], row[kernel.COMPONENT] = tree, 0, 0
        row[[kernel.PEER, kernel.KEEPS, kernel.TRIES, kernel.IS_GROUP]] = -1, 1, 0, 0
        for column in (kernel.FIRST_OWN, kernel.FIRST_CLOSE):
            self._span(row, column, [])
        row[kernel.IS_ABSENT] = kernel.KILLS
        if self.negation == ALLOWED_IF and (conditions.unary or conditions.joined):
            row[kernel.IS_ABSENT] = kernel.ALLOWED_BESIDE if conditions.joined else kernel.ALLOWED_ALONE
        begin, end = absence.after, absence.before
        limits = (begin, 0, end, 1) if absence.spanning else (begin, 1, -1 if end >= self.n else end, 0)
        self.absences.append([leaf, *limits, len(self.listed), len(self.listed) + len(conditions.joined)])
        self.listed += conditions.joined

    # --- conditions

    def _conditions(
        self, bound: BoundBranch, leaf_of: list[int], node_of: dict[int, int], rank: dict[int, int]
    ) -> dict[int, _Own]:
        of_node: dict[int, _Own] = {}
        alone: dict[tuple[bool, int], Iterator[Term]] = {}
        for is_absent, every, parts in (
            (False, bound.accepts, bound.branch.components),
            (True, bound.absent_accepts, bound.branch.absences),
        ):
            for i, (terms, part) in enumerate(zip(every, parts, strict=True)):
                alone[is_absent, i] = iter(terms[part.event_type is not None :])
        joint = iter(bound.conditions)
        following = next(joint, None)
        for condition in bound.branch.conditions:
            absence = condition.absence
            if following is None or following.condition is not condition:
                at = condition.decided_at if absence is None else absence
                leaf = leaf_of[at if absence is None else self.n + at]
                term = next(alone[absence is not None, at])
                leaf_condition = LeafCondition(term, {self.leaves[leaf].variable: leaf})
                number = self._number(condition, leaf, leaf_condition)
                of_node.setdefault(leaf, _Own()).unary.append((self._test(term), number))
                continue
            current, following = following, next(joint, None)
            of_variable = current.component_of_variable
            components = sorted(set(of_variable.values()))
            leaf_of_variable = {name: leaf_of[c] for name, c in of_variable.items()}
            leaf_condition = LeafCondition(current.term, leaf_of_variable)
            if absence is not None:
                leaf = leaf_of[self.n + absence]
                leaf_of_variable[bound.branch.absences[absence].variable] = leaf
                number = self._number(condition, leaf, leaf_condition)
                beside = bound.branch.absences[absence].variable
                self.condition(current.term, of_variable, -1, beside=beside)
                of_node.setdefault(leaf, _Own()).joined.append((len(self.conditions) - 1, number))
                continue
            at = condition.decided_at
            components = components or [at]
            if len(components) == 1:
                [at] = components  # not ``decided_at``: a condition on the end of the data is decided later
                leaf, is_taken = leaf_of[at], _is_of_each(condition) and self.of[at].is_group
                number = self._number(condition, leaf, leaf_condition)
                self.condition(current.term, of_variable, -1, taking=at if is_taken else None)
                of_leaf = of_node.setdefault(leaf, _Own())
                is_closing = self.of[at].is_group and not is_taken
                conditions = of_leaf.closing if is_closing else of_leaf.taken
                conditions.append((len(self.conditions) - 1, number))
                continue
            if condition.each and self.of[at].is_group and _reads_whole(current.term, of_variable, at):
                raise NotInterpretedError(
                    f"condition {condition.conjunct + 1} compares events of a loop with the whole loop and "
                    "with others"
                )
            node = node_of[max(components, key=rank.__getitem__)]
            number = self._number(condition, node, leaf_condition)
            self.condition(current.term, of_variable, -1)
            of_node.setdefault(node, _Own()).joined.append((len(self.conditions) - 1, number))
        return of_node

    def _number(self, condition: Condition, node: int, bound: LeafCondition) -> int:
        """Add a condition at a node, and return its number."""
        leaves = tuple(sorted({node, *bound.leaf_of_variable.values()} & {*range(len(self.leaves))}))
        is_alone = len(leaves) == 1 and self.leaves[leaves[0]].is_group
        is_between = is_alone and any(is_previous for _, is_previous in bound.roles)
        is_closing = is_alone and not _is_of_each(condition)
        text = str(condition.expression)
        self.listed_conditions.append(TreeCondition(text, leaves, node, bound, is_between, is_closing))
        return len(self.listed_conditions) - 1


def _is_of_each(condition: Condition) -> bool:
    """Return whether a condition is tested with each event of the last component that it names."""
    places = [place for _, place in condition.components]
    return condition.each and (not places or max(places) == condition.decided_at)


def _reads_whole(term: Term, of_variable: dict[str, int], c: int) -> bool:
    """Return whether a term reads a component as a whole, or a certain one of its events."""
    for leaf in term.walk():
        if leaf.op == "group" and of_variable.get(leaf.data[1]) == c and leaf.data[2] != EARLIER:
            return True
        if leaf.op == "element" and of_variable.get(leaf.data[0]) == c:
            which = leaf.data[1]
            if which == LAST or isinstance(which, int):
                return True
    return False


def leaves_of_term(term: Term) -> Iterator[Term]:
    """Yield the values of events and the aggregates in a term."""
    if term.op in ("element", "group"):
        yield term
    else:
        for arg in term.args:
            yield from leaves_of_term(arg)


def _counts(term: Term) -> bool:
    """Return whether a term reads a number of events. A mean does not, although it divides by one."""
    if term.op == "group":
        return term.data[0] in ("count", "count_of")
    if term.op == "/" and _is_sum(term.args[0]) and _is_aggregate(term.args[1], "count_of"):
        return False
    return any(map(_counts, term.args))


def _is_sum(term: Term) -> bool:
    return _is_aggregate(term, "sum") or term.op == "joined"


def _is_aggregate(term: Term, name: str) -> bool:
    return term.op == "group" and term.data[0] == name
