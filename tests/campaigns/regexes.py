"""Random regex queries, each on many streams in one frame."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Any

import pandas as pd

import cepkit as cep
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.row_patterns import variables
from tests.campaigns.streams import Answer, Differs, Mixed, lineage_of, mixed, pushed, same
from tests.oracle import generate, naive
from tests.support.regex_runs import plain
from tests.support.regex_runs import same as same_value

MEASURES = ("count()", "first(x)", "last(y)", "max(y)", "sum(g)", "collect(x)", "distinct(s)", "min(s)")
KINDS = ("past_last", "to_last", "to_next_row", "to_first", "to_last of a name")


def answer(seed: int, n_streams: int) -> Answer:
    """Compare a query that reports the earliest end."""
    return _compared(seed, n_streams, {})


def answer_in_turn(seed: int, n_streams: int) -> Answer:
    """Compare a query with ``after_match`` and ``keep``."""
    random = Random(f"rule {seed}")
    kind = random.choice(KINDS)
    names = sorted({variable.name for variable in variables(generate.case(seed).pattern)})
    if not names:
        kind = "to_last"
    elif kind in ("to_first", "to_last of a name"):
        kind = f"{kind.removesuffix(' of a name')}({random.choice(names)})"
    return _compared(seed, n_streams, {"after_match": kind, "keep": random.choice(["shortest", "longest"])})


def _compared(seed: int, n_streams: int, rule: Mapping[str, str]) -> Answer:
    case, random = generate.case(seed), Random(f"streams {seed}")
    nulls, n_keys = random.random() < 0.75, 2 if case.partition_by else 1
    sizes = [0, 1, 3, *range(4, 13)]
    streams = [generate.stream(random, random.choice(sizes), n_keys, nulls=nulls) for _ in range(n_streams)]
    texts = random.sample(MEASURES, 2)
    options = {**case.keywords(), "partition_by": case.partition_by}
    if rule:
        kind, _, name = rule["after_match"].rstrip(")").partition("(")
        options |= {"after_match": (kind.removesuffix("_row"), name or None), "keep": rule["keep"]}
    oracle = partial(naive.matches, case.pattern, case.define, **options)
    asked = {**case.keywords(), "define": case.define, "partition_by": ["u", *case.partition_by], **rule}
    asked |= {"params": asked["params"] or None, "measures": {f"m{i}": text for i, text in enumerate(texts)}}
    if rule:
        streams = _without_errors(case, streams, oracle, asked)
    together = mixed(random, streams)
    found = cep.match(_frame(together), case.pattern, **asked)

    expected, n_with_match = [], 0
    measures = [parse_expression(text) for text in texts]
    for stream, places in zip(together.streams, together.places, strict=True):
        matches = oracle(stream)
        n_with_match += bool(matches)
        for match in matches:
            expected.append(_described(case, stream, places, match, measures))
    expected.sort(key=lambda match: (match[0][-1], match[0][0]))
    same(found.count(), len(expected), "count")
    wanted = [[*zip(places, names, strict=True)] for places, names, _ in expected]
    same(lineage_of(found), wanted, "matches")
    table = found.to_frame(limit=None)
    for i, text in enumerate(texts):
        pairs = zip(table[f"m{i}"].tolist(), (values[i] for _, _, values in expected), strict=True)
        for number, (value, other) in enumerate(pairs):
            if not same_value(plain(value), plain(other)):
                raise Differs(f"measure {text} of match {number}: {value!r}, expected {other!r}")
    if seed % 4 == 0:
        frame = _frame(together).sort_values("t", kind="stable", ignore_index=True)
        pushed(random, frame, case.pattern, found, **asked)
    return Answer(n_streams, n_with_match)


def _frame(together: Mixed) -> pd.DataFrame:
    return generate.to_frame(together.rows).assign(u=[row["u"] for row in together.rows])


def _without_errors(case: generate.Case, streams: list, oracle: Any, asked: Mapping[str, Any]) -> list:
    """Return the streams without an error; test that a match without a row to continue at is refused."""
    kept, refused = [], None
    for stream in streams:
        try:
            oracle(stream)
            kept.append(stream)
        except ValueError:
            refused = stream
    if refused is not None:
        try:
            cep.match(_frame(mixed(Random(0), [refused])), case.pattern, **asked).count()
        except cep.CepError as error:
            if "cannot continue" not in str(error) and "would be found again" not in str(error):
                raise
        else:
            raise Differs(f"no error for {refused}")
    return kept


def _described(case: generate.Case, stream: list, places: Any, match: tuple, measures: list) -> tuple:
    """Return the places of a match, its variables and its measures."""
    names = case.partition_by
    key = [plain(stream[match[0]][name]) for name in names]
    rows = [row for row, event in enumerate(stream) if [plain(event[name]) for name in names] == key]
    partition, first, last = [stream[row] for row in rows], rows.index(match[0]), rows.index(match[-1])
    labels = naive.labels(case.pattern, case.define, partition, first, last, params=case.params)
    values = [naive.evaluate_measure(tree, partition, first, last, case.params, None) for tree in measures]
    return [places[row] for row in match], labels, values
