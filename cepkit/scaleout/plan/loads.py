"""The load of one node of each stage as a formula: as the thesis prints it, and as it is."""

from __future__ import annotations

import pandas as pd

from cepkit.scaleout.plan.plans import ScatterPlan, Stage
from cepkit.scaleout.plan.routing import ByKey, RoundRobin, ToGroup

INPUT, MEMORY, WORK = "input", "memory", "CPU"
SYMBOLS = (
    "λ: events per second of the stage's stream; μ: partial matches per second that reach it; "
    "e: waiting partial matches, or events in a window; g: groups"
)
Formulas = tuple[tuple[str, str], tuple[str, str], tuple[str, str]]  # printed and corrected, by measure


def node_loads(plan: ScatterPlan) -> pd.DataFrame:
    """Return bandwidth, memory and work of a node of each stage, as printed and as corrected.

    Source: Suhothayan, 2019, section 3.1 and table 3.1. `cepkit.scaleout.model` has these formulas as
    functions, and `ScatterPlan.bandwidth` has numbers for given rates.
    """
    rows = []
    for k, stage in enumerate(plan.stages):
        formulas = _formulas(plan, stage, is_first=k == 0)
        rows += [
            (stage.name, stage.n_nodes, measure, *pair)
            for measure, pair in zip((INPUT, MEMORY, WORK), formulas or (), strict=False)
        ]
    return pd.DataFrame(rows, columns=["stage", "nodes", "measure", "printed", "corrected"])


def load_lines(plan: ScatterPlan) -> list[str]:
    """Return the loads as lines of text, one per stage."""
    made = []
    for name, own in node_loads(plan).groupby("stage", sort=False):
        parts = [
            f"{measure} {corrected}" + ("" if corrected == printed else f" (printed {printed})")
            for measure, printed, corrected in own[["measure", "printed", "corrected"]].values.tolist()
        ]
        made.append(f"{name}: {', '.join(parts)}")
    return made


def _formulas(plan: ScatterPlan, stage: Stage, *, is_first: bool) -> Formulas | None:
    n = stage.n_nodes
    if plan.kind == "window" and plan.layout == "windows":
        return _both(f"λ{_by(n)}"), (f"e{_by(n)}", f"e{_by(n)} + g"), (f"λ{_by(n)}", f"2λ{_by(n)}")
    if plan.kind == "join":
        return _of_join(plan, stage)
    if plan.kind == "pattern" and plan.layout in ("states", "replicated", "grouped", "keys"):
        return _of_state(plan.layout, stage, is_first=is_first)
    return None


def _of_state(layout: str, stage: Stage, *, is_first: bool) -> Formulas:
    n, routing = stage.n_nodes, stage.feeds[0].routing
    if is_first and len(stage.feeds) == 1:
        return _both(f"λ{_by(n)}"), ("1", "1"), _both(f"λ{_by(n)}")
    if isinstance(routing, ByKey):
        return (f"λ{_by(n)}", f"(λ + μ){_by(n)}"), _both(f"e{_by(n)}"), _both(f"λe{_by(n)}")
    if layout == "states":
        return ("λ", "λ + μ"), ("e/(s-1)", "e"), ("λe/s", "λe")
    groups, members = (routing.groups, routing.members) if isinstance(routing, ToGroup) else (1, n)
    printed = "λ" if layout == "replicated" else f"2λ{_by(n)}"
    return (
        (printed, f"λ{_by(groups)} + μ{_by(members)}"),
        (f"e{_by(n)}", f"e{_by(members)}"),
        _both(f"λe{_by(n)}"),
    )


def _of_join(plan: ScatterPlan, stage: Stage) -> Formulas | None:
    n, left = stage.n_nodes, stage.feeds[0].routing
    work = f"(λ_A e_B + λ_B e_A){_by(n)}"
    if plan.layout == "grouped" and isinstance(left, ToGroup):
        p, q = left.groups, left.members
        return (
            (f"(λ_A + λ_B){_by(n)}", f"λ_A{_by(p)} + λ_B{_by(q)}"),
            (f"(e_A + e_B){_by(n)}", f"e_A{_by(p)} + e_B{_by(q)}"),
            (work, work),
        )
    if plan.layout == "replicated":
        large, small = ("A", "B") if isinstance(left, RoundRobin) else ("B", "A")
        fewer = _by(n - 1) if n > 1 else ""
        return (
            (f"λ + λ{fewer}", f"λ_{large}{_by(n)} + λ_{small}"),
            (f"e + e{fewer}", f"e_{large}{_by(n)} + e_{small}"),
            (f"λe + λe{fewer}", work),
        )
    return None


def _both(formula: str) -> tuple[str, str]:
    """Return a formula that is right as printed."""
    return formula, formula


def _by(n: int) -> str:
    return f"/{n}" if n > 1 else ""
