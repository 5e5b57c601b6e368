"""The funnel of a query, of either kind, as a widget draws it: how many reach which part of the pattern."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cepkit.compile.regex.program import compile_regex
from cepkit.engines.funnel import count_funnel
from cepkit.engines.regex.matching import match_regex
from cepkit.funnels import FunnelResult
from cepkit.language.regex.patterns import Sequence, seq, variables
from cepkit.language.regex.positions import is_nullable

if TYPE_CHECKING:
    from cepkit.explorer.running.result import Result

STAGES = 8  # of a regex


def stages_of(result: Result) -> list[dict[str, Any]]:
    """Return the stages of a result's funnel: ``label``, ``n``, ``share``, ``selectivity``, ``note``.

    Of a sequence they are the partial matches that reach each step, see `cepkit.funnel`; of a regex the
    matches of longer and longer beginnings of the pattern. ``share`` is that of the largest stage.
    """
    return _of_sequence(result) if result.is_sequence else _of_regex(result)


def _of_sequence(result: Result) -> list[dict[str, Any]]:
    made = FunnelResult(
        result.program.query, count_funnel(result.program, result.events, result.matches.engine.run)
    )
    best = max(made.branches, key=lambda branch: branch.complete.n)
    most = max([1, *(step.partial.n for step in best.steps), best.complete.n])
    stages = []
    for step in best.steps:
        kind = "any event" if step.event_type is None else str(step.event_type)
        tried = f"{step.passed:,} of {step.looked_at:,} events tried pass" if step.looked_at else ""
        alone = f"{step.n_alone:,} of {step.n_of_type:,} events fit alone"
        share = step.passed / step.looked_at if step.looked_at else None
        stages.append(
            _stage(f"{step.variable} ({kind})", str(step.partial), step.partial.n / most, share,
                   "; ".join(part for part in (alone, tried) if part))
        )  # fmt: skip
    of_branch = "" if len(made.branches) == 1 else f" of the alternative with most, of {len(made.branches)}"
    last = best.complete if best.reported is None else best.reported
    words = "; ".join(made.words())
    return [*stages, _stage(f"matches{of_branch}", str(last), last.n / most, None, words)]


def _of_regex(result: Result) -> list[dict[str, Any]]:
    """Return the matches of longer and longer beginnings of the pattern, each a pattern of its own."""
    query, n_rows = result.program.query, result.events.n_events
    parts = query.pattern.parts if isinstance(query.pattern, Sequence) else ()
    cuts = [i for i in range(1, len(parts)) if not is_nullable(seq(*parts[:i]))]
    counted: list[tuple[str, int]] = []
    for i in cuts[: STAGES - 1]:
        part = seq(*parts[:i])
        used = {variable.name for variable in variables(part)}
        define = tuple((name, tree) for name, tree in query.define if name in used)
        shorter = replace(query, pattern=part, define=define, measures=None, sources=())
        program = compile_regex(shorter, result.data.schema)
        found = match_regex(program, result.events)  # with all columns that a beginning looks at
        counted.append((str(part), len(found)))
    counted.append((str(query.pattern), result.matches.count()))
    most = max(1, *(n for _, n in counted))
    before, stages = n_rows, []
    for label, n in counted:
        note = f"matches of this beginning alone; {n_rows:,} rows" if label != counted[-1][0] else ""
        stages.append(_stage(label, f"{n:,}", n / most, n / before if before else None, note))
        before = n
    return stages


def _stage(label: str, n: str, share: float, selectivity: float | None, note: str = "") -> dict[str, Any]:
    return {"label": label, "n": n, "share": share, "selectivity": selectivity, "note": note}
