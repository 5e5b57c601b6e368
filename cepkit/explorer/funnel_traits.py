"""The funnel of a query as traits of its widget."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from cepkit.insight.funnel import FunnelResult
from cepkit.insight.funnel_regex import beginnings, count_regex_funnel
from cepkit.insight.funnel_sequences import MOST_WORK, count_funnel, exact_count
from cepkit.insight.match_recognize.funnel import count_row_funnel

if TYPE_CHECKING:
    from cepkit.explorer.running.result import Result

STEPS = 8  # most steps of a regex
_LITTLE_WORK = 1 << 23  # events tested for one number of the first funnel
_TALLIED = 20_000  # events tested one by one


def funnels(result: Result) -> Iterator[tuple[list[dict[str, Any]], bool]]:
    """Yield the steps of a result's funnel, and whether they are final.

    The first funnel of a sequence takes a few tenths of a second; its numbers may be lower bounds. If they
    are, a second funnel follows, which looks at more events.

    """
    if not result.is_sequence:
        yield _of_rows(result) if result.is_rows else _of_regex(result), True
        return
    made = _count_sequence(result, _LITTLE_WORK)
    is_final = all(step.partial.exact for branch in made.branches for step in branch.steps)
    yield _of_sequence(made), is_final
    if not is_final:
        yield _of_sequence(_count_sequence(result, MOST_WORK)), True


def _count_sequence(result: Result, most_work: int) -> FunnelResult:
    program, engine = result.program, result.matches.engine
    n_matches = result.count() if program.query.after_match[0] == "none" else None
    branches = count_funnel(
        program, result.events, engine.run, count=partial(exact_count, most_work=most_work),
        n_matches=n_matches, most_tallied=_TALLIED,
    )  # fmt: skip
    return FunnelResult(program.query, branches)


def _of_sequence(made: FunnelResult) -> list[dict[str, Any]]:
    best = max(made.branches, key=lambda branch: branch.complete.n)
    most = max([1, *(step.partial.n for step in best.steps), best.complete.n])
    steps = []
    for step in best.steps:
        kind = "any event" if step.event_type is None else str(step.event_type)
        tried = f"{step.passed:,} of {step.looked_at:,} events tried pass" if step.looked_at else ""
        alone = f"{step.n_alone:,} of {step.n_of_type:,} events fulfil the conditions on single events"
        share = step.passed / step.looked_at if step.looked_at else None
        steps.append(
            _step(f"{step.variable} ({kind})", str(step.partial), step.partial.n / most, share,
                  "; ".join(part for part in (alone, tried) if part))
        )  # fmt: skip
    of_branch = "" if len(made.branches) == 1 else f" of the alternative with most, of {len(made.branches)}"
    last = best.complete if best.reported is None else best.reported
    words = "; ".join(made.words())
    return [*steps, _step(f"matches{of_branch}", str(last), last.n / most, None, words)]


def _of_regex(result: Result) -> list[dict[str, Any]]:
    program, n_rows = result.program, result.events.n_events
    [branch] = count_regex_funnel(
        program, result.events, result.matches.count(), STEPS, with_conditions=False
    )
    labels = [str(part) for part in beginnings(program.query.pattern, STEPS)]
    most = max(1, *(step.partial.n for step in branch.steps))
    steps = []
    for label, step in zip(labels, branch.steps, strict=True):
        note = f"matches of this beginning alone; {n_rows:,} rows" if label != labels[-1] else ""
        share = step.passed / step.looked_at if step.looked_at else None
        steps.append(_step(label, str(step.partial), step.partial.n / most, share, note))
    return steps


def _of_rows(result: Result) -> list[dict[str, Any]]:
    searched = result.data.searched(result.program)
    n_matches = result.count() + result.matches._found.n_empty
    [branch] = count_row_funnel(searched, n_matches, STEPS, with_conditions=False)
    most = max(1, n_matches, *(step.partial.n for step in branch.steps))
    steps = []
    for step in branch.steps:
        note = f"rows from which this beginning matches, of {step.n_of_type:,}"
        share = step.passed / step.looked_at if step.looked_at else None
        steps.append(_step(step.variable, str(step.partial), step.partial.n / most, share, note))
    words = "; ".join(FunnelResult(result.program.query, (branch,)).words())
    return [*steps, _step("matches", f"{n_matches:,}", n_matches / most, None, words)]


def _step(label: str, n: str, share: float, selectivity: float | None, note: str = "") -> dict[str, Any]:
    return {"label": label, "n": n, "share": share, "selectivity": selectivity, "note": note}
