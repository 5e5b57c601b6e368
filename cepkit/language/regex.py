"""A regex query as a value, and how it is made from text, trees and functions and checked without columns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cepkit.errors import (
    CepError,
    PatternSyntaxError,
    PredicateError,
    UnsupportedQueryError,
    nearest,
    short_text,
    truth,
    warn,
)
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import positive_duration
from cepkit.language.expressions.mistakes import PATTERN_WORDS, forgotten_brackets
from cepkit.language.expressions.parsing import (
    Refusal,
    check_built,
    check_tree,
    fields_of_structs,
    make_parser,
    parse,
    parse_expression,
    span_of,
)
from cepkit.language.expressions.printing import (
    join_words,
    print_expression,
    say_condition,
    say_duration,
    with_article,
)
from cepkit.language.query_parts import (
    AfterMatch,
    Duration,
    Query,
    as_columns,
    as_mapping,
    listed,
    read_after_match,
    refuse_clash_with_partition,
    refuse_parameters,
)
from cepkit.language.row_patterns import (
    AnyEvent,
    Pattern,
    PatternBuilder,
    PatternWords,
    Repeat,
    first_names,
    is_nullable,
    print_pattern,
    reported_form,
    say_pattern,
    seq,
    variables,
)
from cepkit.values import dataclass, field, replace

if TYPE_CHECKING:
    from lark import Lark


KEEPS = ("shortest", "longest")
_PAST_LAST: AfterMatch = ("past_last", None)
_AFTER_MATCH = ("past_last", "to_last", "to_next_row", "to_first(x)", "to_last(x)")


@dataclass(frozen=True, eq=False)
class Mask:
    """A condition of a frame: whether it holds in each row."""

    truths: Any  # bool, (n_rows,)


# A regex query as a value: a pattern over predicates, with columns, window and measures; and in words.


@dataclass(frozen=True, slots=True)
class RegexQuery(Query):
    """A regex over predicates with its columns, window and measures; made by `regex_query`.

    Parameters
    ----------
    pattern : Pattern
        Its names are in ``define``; the others are boolean columns (`undefined_variables`).
    define, measures : tuple of (str, Expression)
        Predicates and output columns by name; None for ``measures`` means the default measures.
    partition_by, order_by : tuple of str
        Columns.
    within : str or timedelta or int or None
        Longest duration of a match, as text or in ticks of the first column of ``order_by``.
    within_closed : bool
        Whether a match may last exactly ``within``.
    params : tuple of (str, value)
        The values of the parameters, ``:name`` in text.
    functions : tuple of (str, RegisteredFunction)
        The user functions that the predicates and measures call, if they were registered when the query
        was made. The query carries them to other processes, where nothing is registered.
    after_match : (str, str or None) or None
        Where the search continues after a match, and the name whose row that is. None is ``"past_last"``,
        with a warning of matches that it leaves out.
    keep : str
        ``"shortest"`` or ``"longest"``: which of the matches with one first row counts.
    masks : tuple of (str, Mask)
        Predicates whose truth values are known for each row of the frame of a call.
    sources : tuple of (str, str)
        The texts of the trees by role (``"pattern"``, ``"predicate 'rise'"``, ``"measure 'top'"``), for
        error messages.

    Examples
    --------
    >>> import cepkit as cep
    >>> print(cep.regex_query("up+ down", define={"up": "price > 12", "down": "price <= 12"}))
    pattern: up+ down
    define:
      up: price > 12
      down: price <= 12
    """

    pattern: Pattern
    define: tuple[tuple[str, ex.Expression], ...] = ()
    measures: tuple[tuple[str, ex.Expression], ...] | None = None
    partition_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    within: Duration | None = None
    within_closed: bool = True
    params: tuple[tuple[str, Any], ...] = ()
    functions: tuple[tuple[str, fn.RegisteredFunction], ...] = ()
    after_match: AfterMatch | None = None
    keep: str = "shortest"
    masks: tuple[tuple[str, Mask], ...] = ()
    sources: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    @property
    def skips_by_default(self) -> bool:
        """Whether the match that ends first is reported, and the search continues after it."""
        return self.keep == "shortest" and (self.after_match or _PAST_LAST) == _PAST_LAST

    def skip_keywords(self) -> dict[str, str | None]:
        """Return ``after_match`` and ``keep`` as keywords of a call; None where they are left out."""
        kind, name = self.after_match or ("", None)
        kind = kind.replace("to_next", "to_next_row")
        keep = None if self.keep == KEEPS[0] else self.keep
        return {"after_match": f"{kind}({name})" if name else kind or None, "keep": keep}

    def refuse_skips(self, who: str) -> None:
        """Raise for rules that only the search of finished frames follows."""
        if not self.skips_by_default:
            rules = [f"{name}={value!r}" for name, value in self.skip_keywords().items() if value]
            raise UnsupportedQueryError(
                f"{who}: {' and '.join(rules)} of a regex run on finished frames, by match, tag, explain and "
                "funnel. Leave out what is not the default"
            )

    def undefined_variables(self) -> tuple[str, ...]:
        """Return the names in the pattern that ``define`` does not define, in reading order."""
        defined = dict((*self.define, *self.masks))
        return tuple(dict.fromkeys(v.name for v in variables(self.pattern) if v.name not in defined))

    def undefined_error(self, boolean_columns: Iterable[str] = ()) -> CepError:
        """Return the error to raise if an undefined name is not a boolean column either."""
        boolean_columns, defined = list(boolean_columns), list(dict(self.define))
        missing = [name for name in self.undefined_variables() if name not in boolean_columns]
        columns = f", and the boolean columns are {boolean_columns}" if boolean_columns else ""
        first = next(v for v in variables(self.pattern) if v.name == missing[0])
        word = " Alternatives are written with '|'." if first.name.lower() == "or" else ""
        cure = f"; it defines {defined}{columns}.{nearest(missing[0], defined + boolean_columns)}"
        if not defined:
            cure = (
                f"{columns}.{nearest(missing[0], boolean_columns)} Write a condition for each name, as in "
                f"define={{{missing[0]!r}: 'price > 10'}}, or event_type= and the column with these values"
            )
        return CepError(
            f"the pattern names {missing}, which define does not define{cure}{word}\n"
            f"{self.underlined('pattern', first)}"
        )

    def trees(self) -> Iterator[tuple[str, ex.Expression]]:
        yield from ((f"predicate {name!r}", tree) for name, tree in self.define)
        yield from ((f"measure {name!r}", tree) for name, tree in self.measures or ())

    def __str__(self) -> str:
        lines = [f"pattern: {self.pattern}", *listed("define", ": ", self.define)]
        lines += listed("measures", ": ", self.measures or ())
        lines += [f"partition_by: {', '.join(self.partition_by)}"] if self.partition_by else []
        lines += [f"order_by: {', '.join(self.order_by)}"] if self.order_by else []
        if self.within is not None:
            lines += [f"within: {self.within}{'' if self.within_closed else ', exclusive'}"]
        lines += [f"{name}: {value}" for name, value in self.skip_keywords().items() if value]
        lines += listed("params", " = ", ((name, repr(value)) for name, value in self.params))
        return "\n".join(lines)


# Say a regex query in one plain sentence.

# Names that take a plural. "at least 3 drops" reads well; other names need a noun: "at least 3 deep rows".
_NOUNS = frozenset(
    {"bounce", "change", "climb", "crash", "decline", "dip", "drop", "error", "event", "fall", "gain", "gap"}
    | {"increase", "jump", "loss", "order", "peak", "pulse", "rise", "scan", "spike", "start", "stop"}
    | {"sale", "surge", "top", "trade", "trough", "valley"}
)


def say_regex(query: RegexQuery) -> str:
    """Return a regex query in one plain sentence, without a full stop."""
    words = [say_pattern(query.pattern, _WORDS)]
    if query.within is not None:
        words.append(f"{'within' if query.within_closed else 'in less than'} {say_duration(query.within)}")
    if query.partition_by:
        words.append(f"per {join_words(query.partition_by)}")
    if query.keep == "longest":
        words.append("as many rows as possible")
    kind, name = query.after_match or _PAST_LAST
    row = f"{kind.removeprefix('to_')} row"
    if kind == "to_next":
        row = "row after the first one"
    ends = [f"the next match may begin on the {row}{f' of {name}' if name else ' of this one'}"]
    return "; ".join([", ".join(words), *(ends if kind != "past_last" else []), *_meanings(query)])


def _meanings(query: RegexQuery) -> list[str]:
    """Return what each name of the pattern means."""
    defined = dict(query.define)
    names = dict.fromkeys(variable.name for variable in variables(query.pattern))
    return [
        f"{name} means that {say_condition(defined[name])}"
        if name in defined
        else f"{name} means that the column {name} is true"
        for name in names
    ]


def _row(name: str) -> str:
    return with_article(name if name.lower() in _NOUNS else f"{name} row")


def _rows(name: str) -> str:
    if name.lower() not in _NOUNS:
        return f"{name} rows in a row"
    return f"{name}{'es' if name.endswith(('s', 'sh')) else 's'} in a row"


_WORDS = PatternWords(_row, _rows)


# Make regex queries from text, trees and functions, check them without columns, and print their patterns.


def parse_pattern(text: str) -> Pattern:
    """Return the tree of a regex pattern over predicate names."""
    # ``a b`` is a, then b on the next event; ``a | b`` is an alternative. ``a*``, ``a+``, ``a?``, ``a{2}``,
    # ``a{2,}``, ``a{2,5}`` and ``a{,5}`` repeat. ``.`` is any event, ``(a b)+`` a group, ``()`` no event.
    # Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, table 1.
    # Differs: bounded repetitions are added; a repetition after a blank is an error.
    tree = parse(text, _pattern_parser, PATTERN_WORDS, None)
    if not text.strip():
        raise PatternSyntaxError("expected a predicate name, '.' or '(', found an empty pattern", text, 0)
    check_tree(tree, Pattern.children, text, None)
    return tree


@cache
def _pattern_parser() -> Lark:
    return make_parser(Path(__file__).with_name("regex.lark"), _RegexBuilder())


class _RegexBuilder(PatternBuilder):
    """The callbacks of the rules and aliases that only ``regex.lark`` has."""

    def any_event(self, children):
        return AnyEvent(span=span_of(children))

    def repeat(self, children, low: int, high: int | None):
        """Return a repetition; raise for a second one without a group."""
        body = children[0]
        # The span of a group begins at its bracket, before its body.
        inner = body.body.span if isinstance(body, Repeat) else None
        if inner and body.span and body.span[0] == inner[0]:
            raise Refusal(_TWO_REPETITIONS, (inner[1], children[-1].end_pos))
        return super().repeat(children, low, high)


_TWO_REPETITIONS = (
    "repetitions have no reluctant or possessive form, and need none: a match ends as early as it can; write "
    "a+, or a group, as in (a b+)?"
)


# The checks of a regex query that need no schema, in the order in which they run.


def _refuse_no_event(query: RegexQuery) -> None:
    if reported_form(query.pattern) is None:
        raise CepError(f"pattern {str(query.pattern)!r} has no event; name at least one predicate, or '.'")


def _refuse_what_only_measures_have(query: RegexQuery) -> None:
    """Raise if a predicate makes a list, as collect(x) does."""
    for name, tree in query.define:
        for node in tree.walk(literals=False):
            if isinstance(node, ex.Aggregate) and node.function == "collect":
                role = f"predicate {name!r}"
                message = f"{role}: {node} makes a list, which only measures can have"
                raise PredicateError(f"{message}\n{query.underlined(role, node)}")


def _refuse_aggregate_at_first(query: RegexQuery) -> None:
    """Raise if the predicate of a first row has an aggregate: there are no rows before it to aggregate."""
    define = dict(query.define)
    for name in first_names(query.pattern):
        for node in define[name].walk(literals=False) if name in define else ():
            if isinstance(node, ex.Aggregate):
                role, cure = f"predicate {name!r}", str(seq(AnyEvent(), query.pattern))
                advice = ""
                if node.function == "last" and node.operand is not None:
                    advice = f", or use {ex.Previous(node.operand)}"
                raise PredicateError(
                    f"{role}: {node} ranges over the events matched before the current one, and {name!r} "
                    f"can be the first of a match; put '.' first: {cure!r}{advice}\n"
                    f"{query.underlined(role, node)}"
                )


def _check_variables(query: RegexQuery) -> None:
    """Raise for a measure that names an unknown row, a row by number, or the rows of two names at once."""
    names = [variable.name for variable in variables(query.pattern)]
    for name, tree in query.measures or ():
        role = f"measure {name!r}"
        for node in tree.walk(literals=False):
            problem = None
            if isinstance(node, ex.Reference) and node.variable not in names:
                problem = f"the pattern has no {node.variable!r}.{nearest(node.variable, names)}"
            elif isinstance(node, ex.Reference) and node.index is not None:
                problem = f"{node}: write first({node.variable}.x) or last({node.variable}.x)"
            elif isinstance(node, ex.Aggregate) and node.operand is not None:
                leaves = [
                    part for part in node.operand.walk(literals=False)
                    if isinstance(part, ex.Reference | ex.Attribute)
                ]  # fmt: skip
                kinds = {leaf.variable if isinstance(leaf, ex.Reference) else None for leaf in leaves}
                if len(kinds) > 1:
                    problem = f"{node} mixes rows; an aggregate has the rows of the match or of one name"
            if problem:
                raise PredicateError(f"{role}: {problem}\n{query.underlined(role, node)}")


def _refuse_column_outside_aggregate(query: RegexQuery) -> None:
    """Raise if a measure names a column as if all rows of a match had one value of it."""
    for name, tree in query.measures or ():
        for node in _outside_aggregates(tree):
            role, problem = f"measure {name!r}", None
            if isinstance(node, ex.Previous):
                if any(isinstance(part, ex.Reference) for part in node.walk()):
                    problem = f"{node} looks back from the last row of the match, and takes no names"
            elif isinstance(node, ex.Attribute) and node.name not in query.partition_by:
                problem = f"column {node.name!r} has one value for each event of a match"
            elif isinstance(node, ex.Reference):
                problem = f"{node} has one value for each row of {node.variable}"
            if problem:
                column = node.operand if isinstance(node, ex.Previous) else node
                cure = f"write {ex.Aggregate('first', column)} or {ex.Aggregate('last', column)}"
                cure = forgotten_brackets(column) or cure
                raise PredicateError(f"{role}: {problem}; {cure}\n{query.underlined(role, node)}")


def _outside_aggregates(tree: ex.Expression) -> Iterator[ex.Expression]:
    yield tree
    if not isinstance(tree, ex.Aggregate | ex.Previous):
        for child in tree.children():
            yield from _outside_aggregates(child)


def _check_after_match(query: RegexQuery) -> None:
    """Raise if `keep` is unknown, or if the search is to skip to a variable outside the pattern."""
    if query.keep not in KEEPS:
        hint = nearest(str(query.keep), KEEPS)
        raise CepError(f"keep: {query.keep!r} is not known; there are 'shortest' and 'longest'.{hint}")
    names = [variable.name for variable in variables(query.pattern)]
    if query.after_match and (name := query.after_match[1]) and name not in names:
        raise CepError(f"after_match: the pattern has no {name!r}.{nearest(name, names)}")


def _refuse_within_without_order(query: RegexQuery) -> None:
    if query.within is not None and not query.order_by:
        raise CepError("within: a duration needs a clock; name its column first in order_by")


def _warn_of_unused_predicates(query: RegexQuery) -> None:
    used = {variable.name for variable in variables(query.pattern)}
    unused = [name for name, _ in (*query.define, *query.masks) if name not in used]
    if unused:
        warn(f"define: the pattern {short_text(str(query.pattern))!r} does not use {unused}")


def _warn_of_dead_parts(query: RegexQuery) -> None:
    """Warn of parts of the pattern that have no effect, such as a loop at its end."""
    form, text = reported_form(query.pattern), short_text(str(query.pattern))
    is_longest = query.keep == "longest"
    if is_nullable(query.pattern):
        message = f"pattern {text!r} can match without any event, but no empty match is reported"
        warn(message if is_longest else f"{message}; it equals {short_text(str(form))!r}")
    elif form != query.pattern and not is_longest:
        warn(
            f"the end of pattern {text!r} has no effect: a match is reported with the first event that "
            "completes it, and keep='longest' takes as many events as it can; the pattern equals "
            f"{short_text(str(form))!r}"
        )


CHECKS: tuple[Callable[[RegexQuery], None], ...] = (
    _refuse_no_event, _refuse_what_only_measures_have, _refuse_aggregate_at_first,
    refuse_clash_with_partition, _check_variables, _refuse_column_outside_aggregate, refuse_parameters,
    _check_after_match, _refuse_within_without_order, _warn_of_unused_predicates, _warn_of_dead_parts,
)  # fmt: skip


# Meaning of a prefix of an argument name, for a Python function that serves as a predicate.
ARGUMENT_PREFIXES: dict[str, Callable[[ex.Attribute], ex.Expression]] = {
    "first_": lambda attribute: ex.Aggregate("first", attribute),
    "last_": lambda attribute: ex.Aggregate("last", attribute),
    "prev_": ex.Previous,
}


def regex_query(
    pattern: str | Pattern, *, define: Mapping[str, str | ex.Expression | Callable] | None = None,
    measures: Mapping[str, str | ex.Expression] | None = None,
    partition_by: str | Iterable[str] | None = None, order_by: str | Iterable[str] | None = None,
    within: Duration | None = None, within_closed: bool = True, params: Mapping[str, Any] | None = None,
    after_match: str | AfterMatch | None = None, keep: str = "shortest",
) -> RegexQuery:  # fmt: skip
    """Return a regex query over predicates, checked as far as possible without columns.

    Parameters
    ----------
    pattern : str or Pattern
        Text of `parse_pattern`, or a tree.
    define : mapping of str to (str or Expression or callable), optional
        The predicates. A callable receives the values that its argument names mean: ``price`` is the
        current value, and ``first_price``, ``last_price`` and ``prev_price`` are ``first(price)``,
        ``last(price)`` and ``prev(price)``. If a column itself has such a name, register the function
        and call it in text: ``"f(last_price)"``.
    measures : mapping of str to (str or Expression), optional
        The output columns; None means the default ones. The result has the partition columns anyway.
    partition_by, order_by : str or iterable of str, optional
        Columns.
    within : str or timedelta or int, optional
        Longest duration of a match; needs ``order_by``.
    within_closed : bool
        Whether a match may last exactly ``within``.
    params : mapping of str to value, optional
        A value for every parameter that is used, and for no other.
    after_match : str, optional
        Where the next match may begin: ``"past_last"`` (default), ``"to_last"``, ``"to_next_row"``,
        ``"to_first(x)"`` or ``"to_last(x)"``; see `cepkit.match`.
    keep : str
        ``"shortest"`` or ``"longest"``: which of the matches with one first row counts.

    Raises
    ------
    PatternSyntaxError
        If a text cannot be parsed.
    PredicateError
        If a predicate that can hold at the first event of a match uses an aggregate (no event is
        matched yet), a predicate uses ``collect``, a measure uses a column outside an aggregate, or a
        parameter has no value.
    CepError
        If the pattern has no event, names clash, a parameter is not used, or an argument has no effect.

    Warns
    -----
    CepWarning
        If a predicate is not used, or if the end or the whole of the pattern may be empty. A match
        is reported with the first event that completes it.

    Notes
    -----
    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, section 3.3
    (safety checks). Time is linear in the size of the trees.

    Examples
    --------
    >>> query = regex_query(". rise+ drop", partition_by="symbol", params={"least": 5},
    ...                     define={"rise": "price >= prev(price)", "drop": "price < first(price) - :least"})
    >>> print(query)
    pattern: . rise+ drop
    define:
      rise: price >= prev(price)
      drop: price < first(price) - :least
    partition_by: symbol
    params:
      least = 5
    >>> regex_query("rise fall", define={"rise": "price > first(price)", "fall": "price < 1"})
    Traceback (most recent call last):
    cepkit.errors.PredicateError: predicate 'rise': first(price) ranges over the events matched before \
the current one, and 'rise' can be the first of a match; put '.' first: '. rise fall'
      price > first(price)
              ^^^^^^^^^^^^
    """
    sources: dict[str, str] = {}
    called: dict[str, fn.RegisteredFunction] = {}
    query = RegexQuery(
        pattern=_pattern(pattern, sources),
        define=_trees("define", "predicate", define, sources, called),
        measures=None if measures is None else _trees("measures", "measure", measures, sources, called),
        partition_by=as_columns("partition_by", partition_by),
        order_by=as_columns("order_by", order_by),
        within=None if within is None else positive_duration("within", within),
        within_closed=truth("within_closed", within_closed) or within is None,  # it belongs to a window
        params=tuple(as_mapping("params", params).items()),
        functions=tuple(called.items()),
        after_match=None if after_match is None else read_after_match(_AFTER_MATCH, after_match),
        keep=keep,
        masks=tuple((name, mask) for name, mask in (define or {}).items() if isinstance(mask, Mask)),
        sources=tuple(sources.items()),
    )
    query = _with_variables(query)
    for check in CHECKS:
        check(query)
    return query


def _with_variables(query: RegexQuery) -> RegexQuery:
    """Return a query whose measures read ``count(drop)`` as the rows of a name in ``define``."""
    # ``user.id`` is a field of structs unless the pattern has ``user``, or a name like it.
    names = {name for name, _ in query.define}
    known = {variable.name for variable in variables(query.pattern)}

    def read(node: ex.Expression) -> ex.Expression:
        column = node.operand if isinstance(node, ex.Aggregate) and node.function == "count" else None
        if isinstance(column, ex.Attribute) and column.name in names:
            return ex.Aggregate("count", ex.Reference(column.name, span=column.span), span=node.span)
        return node

    if query.measures is None:
        return query
    trees = {
        name: fields_of_structs(tree, lambda owner: owner in known or bool(nearest(owner, known)))
        for name, tree in query.measures
        if tree != ex.Attribute(name) or name not in query.partition_by  # the result has the key anyway
    }
    measures = ((name, ex.rebuilt(tree, ex.Expression, read)) for name, tree in trees.items())
    return replace(query, measures=tuple(measures))


# The arguments, converted to trees.


def _pattern(pattern: str | Pattern, sources: dict[str, str]) -> Pattern:
    """Return the tree of a pattern given as text or as a tree. Put its text into `sources`, for errors."""
    if not isinstance(pattern, str | Pattern):
        raise CepError(f"pattern: expected text or a pattern, got {type(pattern).__name__}")
    if isinstance(pattern, Pattern):
        check_built(pattern, Pattern.children, "pattern")
    # A tree is printed and parsed again, so it gets the same checks and error positions as text.
    sources["pattern"] = pattern if isinstance(pattern, str) else print_pattern(pattern)
    return parse_pattern(sources["pattern"])


def _trees(
    argument: str, noun: str, given: Mapping[str, Any] | None, sources: dict[str, str],
    called: dict[str, fn.RegisteredFunction],
) -> tuple[tuple[str, ex.Expression], ...]:  # fmt: skip
    trees: dict[str, ex.Expression] = {}
    spelling_of: dict[str, str] = {}
    for name, value in as_mapping(argument, given).items():
        if not isinstance(name, str) or not name or (noun == "predicate" and not name.isidentifier()):
            wanted = "an identifier" if noun == "predicate" else "text"
            raise CepError(f"{argument}: the name of a {noun} must be {wanted}, got {name!r}")
        twin = spelling_of.setdefault(name.lower(), name)
        if twin != name:
            raise CepError(f"{argument}: {twin!r} and {name!r} differ only in case; rename one")
        role = f"{noun} {name!r}"
        if isinstance(value, Mask) and noun == "predicate":
            continue
        if callable(value) and noun == "predicate":
            trees[name] = _call(value, name, called)
            sources[role] = print_expression(trees[name])
        else:
            sources[role] = _text(value, role)
            trees[name] = parse_expression(sources[role], role=role, references=noun == "measure")
        for node in trees[name].walk(literals=False):
            if isinstance(node, ex.Call) and node.function not in called and fn.is_registered(node.function):
                called[node.function] = fn.registered_function(node.function)
    return tuple(trees.items())


def _text(value: object, role: str) -> str:
    """Return the text of an expression given as text or as a tree. `role` says in errors what it is for."""
    if isinstance(value, str):
        return value
    if not isinstance(value, ex.Expression):
        wanted = (
            "text, an expression or a function" if role.startswith("predicate") else "text or an expression"
        )
        hint = ""
        if hasattr(value, "__len__") and role.startswith("predicate"):
            hint = ". Truth values belong to the rows of a frame in memory; elsewhere make them a column of "
            hint += "this name, and leave it out of define"
        raise PredicateError(f"{role}: expected {wanted}, got {type(value).__name__}{hint}")
    check_built(value, ex.Expression.children, role)
    try:
        return print_expression(value)
    except ValueError as error:
        raise PredicateError(f"{role}: {error}") from None


def _call(function: Callable, predicate: str, called: dict[str, fn.RegisteredFunction]) -> ex.Call:
    """Return the call of a Python function; the names of its arguments say which values it takes."""
    try:
        parameters = inspect.signature(getattr(function, "py_func", function)).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        message = f"predicate {predicate!r}: the function's arguments have no names to match with columns"
        raise PredicateError(f"{message}; register it and call it in text") from None
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise PredicateError(
                f"predicate {predicate!r}: argument {str(parameter)!r} of the function names no column; "
                "use plain arguments, named after columns"
            )
    described = fn.describe_function(function, _function_name(function, predicate, called))
    called[described.name] = described
    return ex.Call(described.name, tuple(_argument(p.name) for p in parameters if p.default is p.empty))


def _argument(name: str) -> ex.Expression:
    for prefix, wrap in ARGUMENT_PREFIXES.items():
        if name.startswith(prefix) and name != prefix:
            return wrap(ex.Attribute(name.removeprefix(prefix)))
    return ex.Attribute(name)


def _function_name(function: Callable, predicate: str, called: dict[str, fn.RegisteredFunction]) -> str:
    """Return the function's own name, or the predicate's name if another function has the same name."""
    for name in (getattr(function, "__name__", ""), predicate):
        namesakes = [fn.registered_function(name)] if fn.is_registered(name) else []
        namesakes += [called[name]] if name in called else []
        is_free = all(other.call is function for other in namesakes)
        if is_free and name.isidentifier() and name.lower() not in fn.BUILT_IN_NAMES:
            return name
    raise PredicateError(
        f"predicate {predicate!r}: give its function a name of its own, {predicate!r} is taken"
    )
