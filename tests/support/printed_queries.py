"""Texts of random queries: what is printed is read as an equal query, also in saved streams."""

from __future__ import annotations

import warnings
from dataclasses import replace
from random import Random
from typing import Any

import cepkit as cep
from cepkit.errors import CepError
from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.regex import parse_pattern
from cepkit.language.sequences.printing import sase_text
from cepkit.language.siddhi.printing import parse_siddhi
from cepkit.streaming.saved import query_as_json, query_of_json
from tests.oracle import generate, generate_sequences
from tests.oracle.generate_match_recognize import random_late_query, random_query, random_window
from tests.oracle.generate_siddhi import random_query as random_siddhi
from tests.support.window_cases import random_join_case, random_window_case


def check_regex(seed: int) -> bool:
    """Check the printed pattern, the printed conditions and a saved query. Return whether it is a query."""
    random, case = Random(f"print {seed}"), generate.case(seed, n_events=0)
    pattern = generate.pattern(random, "abcde", depth=random.choice([1, 2, 3, 4]))
    for tree in (pattern, case.pattern):
        assert parse_pattern(str(tree)) == tree, str(tree)
        text = loose_text(tree, random)
        assert parse_pattern(text) == tree, text
    for tree in case.define.values():
        assert parse_expression(str(tree)) == tree, str(tree)
        nested = nest(tree, random)
        assert parse_expression(str(nested)) == nested, str(nested)
    define = {name: nest(tree, random) for name, tree in case.define.items()}
    given = {name: value for name, value in case.keywords().items() if value}
    measures = random.choice([None, {"n": "count()", "top": "max(x) - -1.5"}])
    query = cep.regex_query(loose_text(case.pattern, random), define=define, measures=measures, **given)
    _check_saved(query)
    return True


def loose_text(tree: pt.Pattern, random: Random) -> str:
    """Return a pattern with needless parentheses."""
    match tree:
        case pt.Sequence(parts=parts):
            inner = [
                f"({loose_text(part, random)})"
                if isinstance(part, pt.Alternative)
                else loose_text(part, random)
                for part in parts
            ]
            text = _grouped(inner, " ", random)
        case pt.Alternative(options=options):
            text = _grouped([loose_text(option, random) for option in options], " | ", random)
        case pt.Repeat(body=body, low=low, high=high):
            inner = loose_text(body, random)
            single = isinstance(body, pt.Variable | pt.AnyEvent | pt.Empty)
            inner = inner if single else f"({inner})"
            times = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
            bounds = f"{low}" if low == high else f"{low},{'' if high is None else high}"
            text = inner + (times if times and random.random() < 0.7 else f"{{{bounds}}}")
        case _:
            text = str(tree)
    return f"({text})" if random.random() < 0.15 else text


def _grouped(texts: list[str], sign: str, random: Random) -> str:
    """Return texts joined by a sign, with parentheses around some neighbours."""
    while len(texts) > 2 and random.random() < 0.4:
        at = random.randrange(len(texts) - 1)
        texts = [*texts[:at], f"({texts[at]}{sign}{texts[at + 1]})", *texts[at + 2 :]]
    return sign.join(texts)


def nest(tree: ex.Expression, random: Random) -> ex.Expression:
    """Return a condition with AND in AND, OR in OR, and NOT before NOT."""
    if isinstance(tree, ex.And | ex.Or):
        operands = [nest(operand, random) for operand in tree.operands]
        while len(operands) > 2 and random.random() < 0.5:
            at = random.randrange(len(operands) - 1)
            operands = [*operands[:at], type(tree)(tuple(operands[at : at + 2])), *operands[at + 2 :]]
        return type(tree)(tuple(operands))
    return ex.Not(ex.Not(tree)) if random.random() < 0.05 else tree


def check_sequences(seed: int) -> bool:
    """Check a printed and a saved sequence query. Return whether the language has the query."""
    drawn = generate_sequences.random_query(seed)
    try:
        query = cep.sequence_query(drawn)
    except CepError:
        return False
    policy, variable = query.after_match
    again = cep.sequence_query(
        sase_text(query), scope=query.scope, strict_time=query.strict_time, order_by=query.order_by,
        event_type=query.event_type, params=dict(query.params) or None,
        after_match=policy if variable is None else f"{policy}({variable})",
        complete_until=query.complete_until,
    )  # fmt: skip
    assert again == query, sase_text(query)
    _check_saved(query)
    measures = {"n": f"{query.variables[0]}.x", "later": f"{query.variables[0]}.t - 1"}
    try:
        measured = cep.sequence_query(replace(query, sources=()), measures=measures)
    except CepError:
        return True
    _check_saved(measured)
    return True


def check_match_recognize(seed: int) -> bool:
    """Check a printed query of MATCH_RECOGNIZE, or a SELECT with a WINDOW."""
    random = Random(f"print rows {seed}")
    make = random.choice([random_query, random_query, random_late_query, random_window])
    query = make(random)
    assert parse_match_recognize(str(query)) == query, str(query)
    return True


def check_siddhi(seed: int) -> bool:
    """Check a printed query of SiddhiQL."""
    app = parse_siddhi(random_siddhi(seed))
    assert parse_siddhi(str(app)) == app, str(app)
    return True


def check_windows(seed: int) -> bool:
    """Check saved windows and joins."""
    _check_saved(random_window_case(seed, 2).window)
    _check_saved(random_join_case(seed, 2).join)
    return True


def _check_saved(query: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cep.CepWarning)
        again = query_of_json(query_as_json(query))
    assert str(again) == str(query)
    assert again == query, f"{query!r}\n{again!r}"


LANGUAGES = {
    "regex": check_regex,
    "sequences": check_sequences,
    "match_recognize": check_match_recognize,
    "siddhi": check_siddhi,
    "windows": check_windows,
}


def check(language: str, seeds: range) -> int:
    """Check random queries, and return how many of them are queries of the language."""
    n_checked = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cep.CepWarning)
        for seed in seeds:
            try:
                n_checked += LANGUAGES[language](seed)
            except BaseException as error:
                error.add_note(f"{LANGUAGES[language].__name__}({seed})")
                raise
    return n_checked
