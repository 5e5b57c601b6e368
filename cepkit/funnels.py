"""The funnel of a sequence query as users hold it: where its partial matches are lost, step by step."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from cepkit.engines.funnel import BranchFunnel, Count, StepCount
from cepkit.language.sequence_query import SequenceQuery

if TYPE_CHECKING:
    import plotly.graph_objects as go

_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class FunnelResult:
    """How many events and partial matches reach each step of each branch; made by ``df.cep.funnel``."""

    query: SequenceQuery
    branches: tuple[BranchFunnel, ...]

    def to_frame(self) -> pd.DataFrame:
        """Return a row per step of each branch, then one for its matches and one for those reported.

        Returns
        -------
        pandas.DataFrame
            ``branch`` (number), ``step`` (the variable, ``matches`` or ``reported``), ``event_type``;
            ``events`` of the type and those ``passing`` the conditions on the event alone; ``partial``:
            matches of the pattern cut off behind this step, with ``exact`` False where it is a lower bound;
            ``tried``: events looked at behind a partial match; ``passed``: those that fulfil the conditions
            decided here; ``selectivity``: their share; ``absent``: partial matches that an absent event
            ended. Null where a number has no meaning.
        """
        rows = []
        for b, branch in enumerate(self.branches):
            rows += [_row(b, step) for step in branch.steps]
            rows.append({"branch": b, "step": "matches", **_number(branch.complete)})
            rows.append({"branch": b, "step": "reported", **_number(branch.reported)})
        names = ["branch", "step", "event_type", "events", "passing", "partial", "exact", "tried", "passed"]
        frame = pd.DataFrame(rows, columns=[*names, "selectivity", "absent"])
        for name in ("events", "passing", "partial", "tried", "passed", "absent"):
            frame[name] = _integers(frame[name])
        frame["exact"] = frame["exact"].astype("boolean")
        frame["selectivity"] = frame["selectivity"].astype("float64")
        return frame

    def conditions(self) -> pd.DataFrame:
        """Return a row per condition of each step.

        Returns
        -------
        pandas.DataFrame
            ``branch``, ``step``, ``condition`` (its text), ``alone`` (whether it is on the event alone),
            ``tried`` and ``passed``, and ``selectivity``, each condition by itself.
        """
        rows = [
            (
                b,
                step.variable,
                one.text,
                one.alone,
                one.looked_at,
                one.passed,
                _share(one.passed, one.looked_at),
            )
            for b, branch in enumerate(self.branches)
            for step in branch.steps
            for one in step.conditions
        ]
        names = ["branch", "step", "condition", "alone", "tried", "passed", "selectivity"]
        return pd.DataFrame(rows, columns=names).astype({"selectivity": "float64"})

    def count(self) -> Count:
        """Return the number of matches over all branches, before any after-match policy."""
        every = [branch.complete for branch in self.branches]
        return Count(sum(one.n for one in every), all(one.exact for one in every))

    # --- words

    def words(self) -> list[str]:
        """Return sentences that say where most partial matches are lost."""
        return [line for b, branch in enumerate(self.branches) for line in self._words(b, branch)]

    def _words(self, b: int, branch: BranchFunnel) -> list[str]:
        name = f"branch {b}: " if len(self.branches) > 1 else ""
        losses = list(_losses(branch))
        if not losses:
            if not branch.complete.exact:
                return [f"{name}{_matches(branch.complete)}; counting was cut short"]
            return [f"{name}nothing is lost: {_matches(branch.complete)}"]
        text = min(losses, key=lambda loss: loss[0])[1]
        head = "no match" if branch.complete.n == 0 and branch.complete.exact else _matches(branch.complete)
        return [f"{name}{head}; most is lost here: {text}"]

    # --- pictures and reprs

    def plot(self) -> go.Figure:
        """Draw the partial matches that reach each step as bars, on a logarithmic axis.

        Returns
        -------
        plotly.graph_objects.Figure
            A trace per branch.
        """
        import plotly.graph_objects as go

        figure = go.Figure()
        for b, branch in enumerate(self.branches):
            counts = [step.partial for step in branch.steps]
            counts += [branch.complete] + ([branch.reported] if branch.reported else [])
            figure.add_bar(
                y=[*(step.variable for step in branch.steps), "matches", "reported"][: len(counts)],
                x=[float(one.n) for one in counts],
                text=[str(one) for one in counts],
                name=f"branch {b}",
                orientation="h",
            )
        figure.update_layout(
            title=str(self.query.pattern),
            xaxis={"title": "partial matches", "type": "log"},
            yaxis={"autorange": "reversed"},
            showlegend=len(self.branches) > 1,
        )
        return figure

    def _shown(self) -> pd.DataFrame:
        frame = self.to_frame().astype({"partial": object, "absent": object})
        counts = [
            count
            for branch in self.branches
            for count in (*(step.partial for step in branch.steps), branch.complete, branch.reported)
        ]
        frame["partial"] = ["" if count is None else str(count) for count in counts]
        frame["selectivity"] = ["" if x != x else f"{x:.3g}" for x in frame["selectivity"]]
        columns = ["event_type", "events", "passing", "tried", "passed", "absent"]
        for name in columns:
            frame[name] = ["" if pd.isna(x) else x if isinstance(x, str) else f"{x:,}" for x in frame[name]]
        return frame.drop(columns=["exact"] + ([] if len(self.branches) > 1 else ["branch"]))

    def _notes(self) -> list[str]:
        partly = [branch.share for branch in self.branches if branch.share < 1]
        note = (
            f"tried and passed: in full behind {min(partly, default=1):.2%} of the possible first events only"
        )
        return [*self.words(), *([note] if partly else [])]

    def __repr__(self) -> str:
        return "\n".join([str(self.query.pattern), self._shown().to_string(index=False), *self._notes()])

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(line)}</p>" for line in self._notes())
        head = f"<p><b>{html.escape(str(self.query.pattern))}</b></p>"
        return head + self._shown().to_html(index=False, border=0) + notes


def _row(b: int, step: StepCount) -> dict:
    return {
        "branch": b,
        "step": step.variable,
        "event_type": step.event_type,
        "events": step.n_of_type,
        "passing": step.n_alone,
        **_number(step.partial),
        "tried": step.looked_at,
        "passed": step.passed,
        "selectivity": _share(step.passed, step.looked_at),
        "absent": None if step.absent is None else step.absent.n,
    }


def _number(count: Count | None) -> dict:
    return {} if count is None else {"partial": count.n, "exact": count.exact}


def _share(passed: int, looked_at: int) -> float:
    return passed / looked_at if looked_at else float("nan")


def _integers(values: pd.Series) -> pd.Series:
    """Return the values as nullable integers, as objects where one is too large."""
    whole = [None if pd.isna(value) else int(value) for value in values]
    if any(value is not None and value > _LARGEST for value in whole):
        return pd.Series(whole, index=values.index, dtype=object)
    return pd.Series(whole, index=values.index, dtype="Int64")


def _matches(count: Count) -> str:
    return f"{count} match" + ("es" if count.n != 1 or not count.exact else "")


def _losses(branch: BranchFunnel):
    """Yield (share that is kept, sentence) of everything that stops events or partial matches."""
    before: StepCount | None = None
    for step in branch.steps:
        kind = "event" if step.event_type is None else f"{step.event_type} event"
        if step.n_of_type == 0:
            yield -1.0, f"there is no {kind} for {step.variable}"
            return
        conditions = sorted(step.conditions, key=lambda one: _share(one.passed, one.looked_at))
        if step.n_alone < step.n_of_type:
            worst = next((f" ({_said(one)})" for one in conditions if one.alone), "")
            yield (
                step.n_alone / step.n_of_type,
                f"{step.n_alone:,} of {step.n_of_type:,} {kind}s can be {step.variable}{worst}",
            )
        if step.n_alone == 0:
            return
        if before is not None and before.partial.n and step.looked_at == 0 and branch.share == 1:
            behind = f"{_partials(before.partial)} up to {before.variable}"
            yield 0.0, f"no {kind} that could be {step.variable} follows in the window of {behind}"
            return
        if step.passed < step.looked_at:
            worst = next((f" ({_said(one)})" for one in conditions if not one.alone), "")
            yield (
                step.passed / step.looked_at,
                f"{step.passed:,} of {step.looked_at:,} events tried as {step.variable} pass{worst}",
            )
        if step.absent is not None and step.absent.n:
            total = step.absent.n + step.partial.n
            text = f"an absent event ends {_partials(step.absent)} of {total:,} in front of {step.variable}"
            yield step.partial.n / total, text
        if step.partial.n == 0:
            return
        before = step
    if branch.reported is not None and branch.complete.n and branch.reported.n < branch.complete.n:
        text = f"after_match reports {branch.reported} of {_matches(branch.complete)}"
        yield branch.reported.n / branch.complete.n, text


def _said(one) -> str:
    return f"{one.text}: {one.passed:,} of {one.looked_at:,}"


def _partials(count: Count) -> str:
    return f"{count} partial match" + ("es" if count.n != 1 or not count.exact else "")
