"""`FunnelResult`: where the partial matches of a query are lost, step by step."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from cepkit.errors import CepError, short_text
from cepkit.events import ColumnType
from cepkit.language import row_patterns as pt
from cepkit.language.expressions.durations import count_text, format_duration
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.language.sequences.printing import duration_text
from cepkit.values import dataclass

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from cepkit.language.match_recognize.query import RowsQuery

_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Followed:
    """What follows ``n`` tested partial matches: for some a candidate comes too late, for some never."""

    n: int = 0
    n_late: int = 0
    n_never: int = 0


_NOTHING_FOLLOWED = Followed()


@dataclass(frozen=True, slots=True)
class Count:
    """A number, or a lower bound of it if ``exact`` is False."""

    n: int
    exact: bool = True

    def __str__(self) -> str:
        return count_text(self.n, exact=self.exact)


@dataclass(frozen=True, slots=True)
class ConditionCount:
    """How often a condition was tested and held; None if it reads the rows matched earlier."""

    conjunct: int
    text: str
    alone: bool
    looked_at: int | None
    passed: int | None


@dataclass(frozen=True, slots=True)
class StepCount:
    """The counts of one step: a component of a branch, or a part of a regex."""

    # variable, event_type: the component's variable and type, or the part's text and None
    variable: str
    event_type: Any
    n_of_type: int  # number of events of the type; for a regex, of all rows
    # Number of these events that fulfil the conditions on a single event; None if it is not defined.
    n_alone: int | None
    partial: Count  # matches of the branch, or of the regex, cut off after this step
    # Partial matches that an absent event ended here; None if this step decides no absence.
    absent: Count | None
    # looked_at, passed: events tried as this component after a partial match, and those that passed its
    # conditions. For a regex: the matches cut off before this step (for the first step all rows) and after
    # it.
    looked_at: int
    passed: int
    # Each condition on its own; conditions on a single event are counted over the events of the type.
    conditions: tuple[ConditionCount, ...]
    # What follows the partial matches that end with the previous component.
    followed: Followed = _NOTHING_FOLLOWED


@dataclass(frozen=True, slots=True)
class BranchFunnel:
    """The steps of a branch; ``share`` is that of the possible first events with all extensions tested."""

    steps: tuple[StepCount, ...]
    complete: Count
    reported: Count | None
    share: float


TIMES = ("from_first", "from_previous")
COLUMNS = ("step", "reached", "lost", "share", "share_of_previous", *TIMES, "quantile")  # of users


class UserSteps(Protocol):
    """The steps that users reach."""

    @property
    def n_users(self) -> int: ...

    @property
    def clock(self) -> ColumnType | None:
        """Return the type of the clock, or None without times."""
        ...

    def counts(self) -> pd.DataFrame:
        """Return ``n``, the number of users, for each number of a ``step`` and each ``group``."""
        ...

    def quantiles(self, shares: Sequence[float]) -> pd.DataFrame:
        """Return ticks since other steps for each ``step``, ``group`` and ``quantile``."""
        ...


@dataclass(frozen=True, eq=False)
class UserCounts:
    """How many users reach each step of a list, in groups by a column, and how long it takes them."""

    steps: tuple[str, ...]
    optional: tuple[bool, ...]
    by: str | None
    found: UserSteps

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each group and step."""
        tables = []
        for group, counts in self._groups(self.found.counts()):
            n_of_step = dict(zip(counts["step"], counts["n"], strict=True))
            reached = np.array([n_of_step.get(i, 0) for i in range(len(self.steps))], np.int64)
            before = [self.found.n_users if self.by is None else int(reached[0])]
            for is_optional, n in zip(self.optional, reached.tolist(), strict=True):
                before.append(before[-1] if is_optional else n)  # users of the last step that is not optional
            with np.errstate(invalid="ignore"):
                columns = {
                    "step": self.steps, "reached": reached, "lost": np.array(before[:-1]) - reached,
                    "share": reached / reached[0],
                    "share_of_previous": reached / np.array([reached[0], *before[1:-1]]),
                }  # fmt: skip
            number = np.arange(len(reached))
            tables.append(pd.DataFrame({**self._named(group), "number": number, **columns}))
        table = pd.concat(tables, ignore_index=True)
        if self.found.clock is not None:
            medians = self._times([0.5]).drop(columns=["step", "quantile"])
            table = table.merge(medians, how="left", on=[*self._named(None), "number"])
        return table.drop(columns="number")

    def times(self, shares: Sequence[float]) -> pd.DataFrame:
        """Return quantiles of the times for each group and step."""
        return self._times(shares).drop(columns="number")

    def _times(self, shares: Sequence[float]) -> pd.DataFrame:
        """Return quantiles of the times between steps, by group."""
        if self.found.clock is None:
            raise CepError("a funnel has times if order_by names a clock and the steps have an order")
        unit: Any = self.found.clock.unit
        found = self.found.quantiles(shares)
        found = found.sort_values(["step", "quantile"], ignore_index=True)
        parts = []
        for group, rows in self._groups(found):
            values = {name: rows[name].astype("float64") for name in TIMES}
            if unit is not None:
                values = {name: pd.to_timedelta(np.asarray(n), unit=unit) for name, n in values.items()}
            steps = {"number": rows["step"], "step": [self.steps[i] for i in rows["step"]]}
            named = {**self._named(group), **steps, "quantile": rows["quantile"].astype("float64")}
            parts.append(pd.DataFrame({**named, **values}))
        return pd.concat(parts, ignore_index=True)

    def _named(self, group: Any) -> dict[str, Any]:
        return {} if self.by is None else {self.by: group}

    def _groups(self, rows: pd.DataFrame) -> Iterator[tuple[Any, pd.DataFrame]]:
        """Yield each group with its rows; there is one without a column, and null comes last."""
        if self.by is None:
            yield None, rows
        elif rows.empty:
            yield pd.NA, rows
        else:
            yield from rows.groupby("group", dropna=False, observed=True)

    def words(self) -> list[str]:
        """Return a sentence for each group that says where most users are lost."""
        lines = []
        for group, rows in self.table.groupby(self.by, dropna=False) if self.by else [(None, self.table)]:
            first, last = int(rows["reached"].iloc[0]), int(rows["reached"].iloc[-1])
            line = f"{last:,} of {first:,} users reach the last step{_percent(last, first)}"
            lost = rows.iloc[1:][["lost", "step"]].sort_values("lost", ascending=False, kind="stable")
            if len(lost) and lost["lost"].iloc[0]:
                line += f"; most are lost before {lost['step'].iloc[0]}: {lost['lost'].iloc[0]:,}"
            lines.append(line if self.by is None else f"{self.by} {group}: {line}")
        return lines

    def shown(self) -> pd.DataFrame:
        """Return the table with shares in percent, and times in their two largest units."""
        texts = {name: [f"{x:.1%}" if x == x else "" for x in self.table[name]] for name in _SHARES}
        for name in TIMES:
            if name in self.table and self.table[name].dtype.kind == "m":
                texts[name] = [_duration(time) for time in self.table[name]]
        return self.table.assign(**texts).rename(columns=_SHARES)

    def bars(self) -> dict[str, list[tuple[str, int, bool]]]:
        """Return the bars of each group by its name."""
        groups = self.table.groupby(self.by, dropna=False) if self.by else [("users", self.table)]
        return {
            str(group): [(step, int(n), True) for step, n in zip(rows["step"], rows["reached"], strict=True)]
            for group, rows in groups
        }


_SHARES = {"share": "of first", "share_of_previous": "of previous"}


def _duration(time: Any) -> str:
    return "" if pd.isna(time) else " ".join(format_duration(time.as_unit("ns").value, "ns").split()[:4])


def _percent(n: int, whole: int) -> str:
    return f" ({n / whole:.1%})" if whole else ""


@dataclass(frozen=True)
class FunnelResult:
    """How many events and partial matches reach each step of each branch; the result of ``df.cep.funnel``.

    A regex or MATCH_RECOGNIZE has one branch; its steps are the parts of the pattern. The funnel of a list of
    steps counts users: then ``users`` has the numbers, and there are no branches.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> events = pd.DataFrame({"kind": list("AABB"), "ts": range(4)})
    >>> query = "PATTERN SEQ(A a, B b) WHERE b.ts > a.ts + 1"
    >>> funnel = cep.funnel(events, query, event_type="kind", order_by="ts")
    >>> funnel.words()[0][:9]
    '3 matches'
    """

    query: Any  # of regex, sequence or MATCH_RECOGNIZE; for a list the steps as text
    branches: tuple[BranchFunnel, ...]
    users: UserCounts | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return a row per step of each branch, then one for its matches and one for the reported matches.

        Returns
        -------
        pandas.DataFrame
            Undefined numbers are null. The columns are:

            * ``branch`` (number), ``step`` (the variable or part of the pattern, ``matches`` or
              ``reported``) and ``event_type``;
            * ``events`` of the type, and ``passing``, those that fulfil the conditions on a single event;
            * ``partial``: matches of the pattern cut off after this step; ``exact`` is False for a lower
              bound;
            * ``tried``: events tested after a partial match (for a regex, matches cut off before this step,
              at the first step all rows); ``passed``: those that fulfil the conditions of this step (for a
              regex, ``partial``); ``selectivity``: passed / tried;
            * ``absent``: partial matches that an absent event ended;
            * ``share``: the share of possible first events for which ``tried`` and ``passed`` are complete.

            A list of steps has a row per step, after the group where there is ``by``: ``step``; ``reached``,
            the number of users; ``lost``, those who reach the step before it and not this one (for the first
            step: all without it); ``share`` of the users with the first step; ``share_of_previous``; and with
            a clock ``from_first`` and ``from_previous``, the median times, see `times`.

        Examples
        --------
        >>> import pandas as pd
        >>> events = pd.DataFrame({"kind": list("AABB"), "ts": range(4)})
        >>> funnel = events.cep.funnel("PATTERN SEQ(A a, B b) WHERE b.ts > a.ts + 1", event_type="kind")
        >>> funnel.to_frame()[["step", "tried", "passed"]].head(2)
          step  tried  passed
        0    a      2       2
        1    b      4       3
        """
        if self.users is not None:
            return self.users.table.copy()
        rows = []
        for b, branch in enumerate(self.branches):
            rows += [_row(b, step) | {"share": branch.share} for step in branch.steps]
            rows.append({"branch": b, "step": "matches", **_number(branch.complete)})
            rows.append({"branch": b, "step": "reported", **_number(branch.reported)})
        names = ["branch", "step", "event_type", "events", "passing", "partial", "exact", "tried", "passed"]
        frame = pd.DataFrame(rows, columns=[*names, "selectivity", "absent", "share"])
        for name in ("events", "passing", "partial", "tried", "passed", "absent"):
            frame[name] = _integers(frame, name)
        types = [row.get("event_type") for row in rows]
        if any(not isinstance(value, str | None) for value in types):
            frame["event_type"] = pd.Series(types, dtype=object)  # integers must not become floats
        frame["exact"] = frame["exact"].astype("boolean")
        return frame.astype({"selectivity": "float64", "share": "float64"})

    def times(self, quantiles: Sequence[float] = (0.25, 0.5, 0.75, 0.9)) -> pd.DataFrame:
        """Return how long users of a list of steps take.

        Parameters
        ----------
        quantiles : sequence of float
            Shares of the users from 0 to 1.

        Returns
        -------
        pandas.DataFrame
            A row per step and quantile, after the group where there is ``by``: the time since the first step,
            ``from_first``, and since the step before, ``from_previous``. Both belong to the first row with
            which a user reaches the step, and to the latest rows before it that lead there.

        Raises
        ------
        CepError
            For a query, without a clock, and for steps in any order.

        Examples
        --------
        >>> import pandas as pd
        >>> clicks = pd.DataFrame({"user": list("aabb"), "kind": ["view", "buy"] * 2, "ts": [0, 4, 5, 7]})
        >>> funnel = clicks.cep.funnel(["view", "buy"], event_type="kind", partition_by="user", order_by="ts")
        >>> funnel.times([0.5])["from_first"].tolist()
        [nan, 3.0]
        """
        if self.users is None:
            raise CepError("times: users have times, and they reach a list of steps, as in ['view', 'buy']")
        shares = [share for share in quantiles if isinstance(share, int | float) and 0 <= share <= 1]
        if len(shares) < len(quantiles) or not shares:
            raise CepError(f"quantiles={quantiles!r}: expected shares from 0 to 1, as in [0.5, 0.9]")
        return self.users.times(shares)

    def conditions(self) -> pd.DataFrame:
        """Return a row per condition of each step.

        Returns
        -------
        pandas.DataFrame
            ``branch``, ``step``, ``condition`` (its text), ``alone`` (whether it reads a single event; for a
            regex, a row and the rows before it), ``tried``, ``passed`` and ``selectivity`` of this condition,
            and ``share`` as in `to_frame`. The numbers are null for conditions of a regex that read the rows
            matched earlier.

        Examples
        --------
        >>> import pandas as pd
        >>> events = pd.DataFrame({"kind": list("AABB"), "ts": range(4)})
        >>> funnel = events.cep.funnel("PATTERN SEQ(A a, B b) WHERE b.ts > a.ts + 1", event_type="kind")
        >>> funnel.conditions()[["step", "condition", "selectivity"]]
          step        condition  selectivity
        0    b  b.ts > a.ts + 1         0.75
        """
        rows = [
            (b, step.variable, condition.text, condition.alone, condition.looked_at, condition.passed,
             _share(condition.passed, condition.looked_at), 1.0 if condition.alone else branch.share)
            for b, branch in enumerate(self.branches)
            for step in branch.steps
            for condition in step.conditions
        ]  # fmt: skip
        names = ["branch", "step", "condition", "alone", "tried", "passed", "selectivity", "share"]
        frame = pd.DataFrame(rows, columns=names)
        if any(row[names.index("tried")] is None for row in rows):
            frame = frame.assign(tried=_integers(frame, "tried"), passed=_integers(frame, "passed"))
        return frame.astype({"selectivity": "float64", "share": "float64"})

    def count(self) -> Count:
        """Return the number of matches over all branches, before any after-match policy.

        For a list of steps, it is the number of users that reach the last one.

        Examples
        --------
        >>> import pandas as pd
        >>> events = pd.DataFrame({"kind": list("AABB"), "ts": range(4)})
        >>> funnel = events.cep.funnel("PATTERN SEQ(A a, B b) WHERE b.ts > a.ts + 1", event_type="kind")
        >>> funnel.count()
        Count(n=3, exact=True)
        """
        if self.users is not None:
            return Count(sum(bars[-1][1] for bars in self.users.bars().values()))
        every = [branch.complete for branch in self.branches]
        return Count(sum(count.n for count in every), all(count.exact for count in every))

    # --- words

    def words(self) -> list[str]:
        """Return sentences that say where most partial matches are lost.

        Examples
        --------
        >>> import pandas as pd
        >>> events = pd.DataFrame({"kind": list("AABB"), "ts": range(4)})
        >>> funnel = events.cep.funnel("PATTERN SEQ(A a, B b) WHERE b.ts > a.ts + 1", event_type="kind")
        >>> print(funnel.words()[0].rpartition("; ")[2])
        the fewest events pass here: 3 of 4 events tried as b pass (b.ts > a.ts + 1: 3 of 4)
        """
        if self.users is not None:
            return self.users.words()
        lines = [line for b, branch in enumerate(self.branches) for line in self._words(b, branch)]
        if isinstance(self.query, RegexQuery | SequenceQuery):
            return lines
        from cepkit.language.match_recognize.query import SelectedRows, clauses_that_drop

        whole = self.query.whole
        clauses = clauses_that_drop(whole) if isinstance(whole, SelectedRows) else ""
        return [*lines, *([f"these are the matches before {clauses} of the SELECT"] if clauses else [])]

    def _words(self, b: int, branch: BranchFunnel) -> list[str]:
        """Return the text on a branch: how many matches it has, and where most are lost."""
        name = f"branch {b}: " if len(self.branches) > 1 else ""
        head = "no match" if branch.complete.n == 0 and branch.complete.exact else _matches(branch.complete)
        losses = list(_losses(branch, _limits(self.query)))
        if losses:
            return [f"{name}{head}; most is lost here: {min(losses, key=lambda loss: loss[0])[1]}"]
        if not branch.complete.exact:
            return [f"{name}{head}; counting was cut short"]
        refused = [(_share(s.passed, s.looked_at), s) for s in branch.steps[1:] if s.passed < s.looked_at]
        if refused:
            fewest = _tried_text(min(refused, key=lambda refusal: refusal[0])[1], branch.share)
            return [f"{name}{head}; no step loses partial matches; the fewest events pass here: {fewest}"]
        is_one = len(branch.steps) == 1
        return [f"{name}{head}; {'nothing is lost' if is_one else 'no step loses partial matches'}"]

    # --- pictures and reprs

    def plot(self) -> go.Figure:
        """Draw the partial matches or users that reach each step as bars, with percents of the first.

        Returns
        -------
        plotly.graph_objects.Figure
            One trace per branch or group. The axis is logarithmic if the numbers differ much; its title says
            so.

        Examples
        --------
        >>> import pandas as pd
        >>> events = pd.DataFrame({"kind": list("AABB"), "ts": range(4)})
        >>> funnel = events.cep.funnel("PATTERN SEQ(A a, B b) WHERE b.ts > a.ts + 1", event_type="kind")
        >>> import plotly.graph_objects as go
        >>> isinstance(funnel.plot(), go.Figure)
        True
        """
        from cepkit.plots.charts import funnel_figure

        if self.users is not None:
            bars = self.users.bars()
            return funnel_figure(self._title, [*bars.values()], [*bars], "users")
        drawn = []
        for branch in self.branches:
            counts = [(step.variable, step.partial) for step in branch.steps]
            counts += [("matches", branch.complete), ("reported", branch.reported)]
            drawn.append([(name, count.n, count.exact) for name, count in counts if count is not None])
        return funnel_figure(self._title, drawn)

    @property
    def _title(self) -> str:
        """The pattern, or the steps."""
        return self.query if isinstance(self.query, str) else short_text(str(self.query.pattern))

    def _shown(self) -> pd.DataFrame:
        """Return the frame that a notebook shows."""
        if self.users is not None:
            return self.users.shown()
        frame = self.to_frame()
        from cepkit.plots.charts import percents

        counts: list[Count | None] = []
        of_first = []
        for branch in self.branches:
            partial = [step.partial for step in branch.steps]
            counts += [*partial, branch.complete, branch.reported]
            is_exact = all(count.exact for count in partial)
            shares = percents([count.n for count in partial]) if is_exact else [""] * len(partial)
            of_first += [*shares, "", ""]
        if any(of_first):
            frame.insert(list(frame.columns).index("partial") + 1, "of first", of_first)
        frame["partial"] = ["" if count is None else str(count) for count in counts]
        frame["selectivity"] = ["" if pd.isna(x) else f"{x:.3g}" for x in frame["selectivity"]]
        frame["event_type"] = ["" if pd.isna(x) else str(x) for x in frame["event_type"]]
        for name in ("events", "passing", "tried", "passed", "absent"):
            frame[name] = ["" if pd.isna(x) else f"{x:,}" for x in frame[name]]
        return frame.drop(columns=["exact", "share"] + ([] if len(self.branches) > 1 else ["branch"]))

    def _notes(self) -> list[str]:
        """Return the lines below the table, with the share of events tried if that is not all."""
        words, partly = self.words(), [branch.share for branch in self.branches if branch.share < 1]
        if partly and not any(_share_text(min(partly)) in line for line in words):
            words.append(f"tried and passed: {_share_text(min(partly))}")
        return words

    def __repr__(self) -> str:
        return "\n".join([self._title, self._shown().to_string(index=False), *self._notes()])

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(line)}</p>" for line in self._notes())
        head = f"<p><b>{html.escape(self._title)}</b></p>"
        return head + self._shown().to_html(index=False, border=0) + notes


def beginnings(pattern: pt.Pattern, most: int | None = None) -> list[tuple[pt.Pattern, pt.Pattern]]:
    """Return the beginnings of a pattern that need a row, the shortest first, each with its newest parts."""
    parts = pattern.parts if isinstance(pattern, pt.Sequence) else (pattern,)
    ends = [i for i in range(1, len(parts)) if not pt.is_nullable(pt.seq(*parts[:i]))]
    ends = [*(ends if most is None else ends[: most - 1]), len(parts)]
    return [
        (pt.seq(*parts[:end]), pt.seq(*parts[begin:end]))
        for begin, end in zip([0, *ends], ends, strict=False)
    ]


def funnel_of_rows(
    n_rows: int, steps: Iterable[tuple[str, int, int | None, tuple[ConditionCount, ...]]],
    reported: int | None = None,
) -> tuple[BranchFunnel, ...]:  # fmt: skip
    """Return the funnel of contiguous rows; a step has its text, matches, rows alone and conditions."""
    counts: list[StepCount] = []
    n_before = n_rows
    for text, n, n_alone, conditions in steps:
        counts.append(StepCount(text, None, n_rows, n_alone, Count(n), None, n_before, n, conditions))
        n_before = n
    return (
        BranchFunnel(tuple(counts), Count(n_before), Count(n_before if reported is None else reported), 1.0),
    )


def _row(b: int, step: StepCount) -> dict:
    """Return a step as a row of the frame."""
    return {
        "branch": b, "step": step.variable, "event_type": step.event_type, "events": step.n_of_type,
        "passing": step.n_alone, **_number(step.partial), "tried": step.looked_at, "passed": step.passed,
        "selectivity": _share(step.passed, step.looked_at),
        "absent": None if step.absent is None else step.absent.n,
    }  # fmt: skip


def _number(count: Count | None) -> dict:
    return {} if count is None else {"partial": count.n, "exact": count.exact}


def _share(passed: int | None, looked_at: int | None) -> float:
    return passed / looked_at if passed is not None and looked_at else float("nan")


def _integers(frame: pd.DataFrame, name: str) -> pd.Series:
    """Return a column as nullable integers, or as objects if a value is too large."""
    values = pd.Series(frame[name])
    whole = [None if pd.isna(value) else int(value) for value in values]
    if any(value is not None and value > _LARGEST for value in whole):
        return pd.Series(whole, index=values.index, dtype=object)
    return pd.Series(whole, index=values.index, dtype="Int64")


def _matches(count: Count, noun: str = "match") -> str:
    return f"{count} {noun}" + ("es" if count.n != 1 or not count.exact else "")


def _losses(branch: BranchFunnel, limits: str) -> Iterator[tuple[float, str]]:
    """Yield (share that remains, sentence) for each cause that stops partial matches."""
    # Conditions on a single event select events; they stop partial matches only if no event remains.
    before: StepCount | None = None
    for step in branch.steps:
        if step.n_of_type == 0:
            yield -1.0, f"there is no {_kind(step)} for {step.variable}"
            return
        if step.n_alone == 0:
            worst = _worst([condition for condition in step.conditions if condition.alone])
            reason = "" if worst is None else f" ({_held_text(worst)})"
            yield 0.0, f"0 of {step.n_of_type:,} {_kind(step)}s can be {step.variable}{reason}"
            return
        lost = 0 if step.absent is None else step.absent.n
        is_exact = before is not None and before.partial.exact and step.partial.exact
        if before is not None and is_exact and step.partial.n + lost < before.partial.n:
            n = Count(step.partial.n + lost)
            why = _why(step, limits, branch.share)
            text = f"{_partials(before.partial)} up to {before.variable}, {n} up to {step.variable}{why}"
            yield n.n / before.partial.n, text
        if step.absent is not None and lost:
            total = Count(lost + step.partial.n)
            text = f"an absent event ends {_partials(step.absent)} of {total} before {step.variable}"
            yield step.partial.n / total.n, text
        if step.partial.n == 0:
            return
        before = step
    if branch.reported is not None and branch.complete.n and branch.reported.n < branch.complete.n:
        text = f"after_match reports {branch.reported} of {_matches(branch.complete)}"
        yield branch.reported.n / branch.complete.n, text


def _why(step: StepCount, limits: str, share: float) -> str:
    """Return the most frequent cause that stops partial matches before a step, in words."""
    n, late, never = step.followed.n, step.followed.n_late, step.followed.n_never
    if not n:
        return ""
    refused = 1 - step.passed / step.looked_at if step.looked_at else 0.0
    could = f"{_kind(step)} that could be {step.variable}"
    some = "" if share == 1 else f" ({_share_text(share)})"
    causes = [
        (late, f"for {late:,} of {n:,} the next {could} comes after the {limits}{some}"),
        (never, f"for {never:,} of {n:,} no {could} follows{some}"),
        ((n - late - never) * refused, _tried_text(step, share)),
    ]
    weight, text = max(causes, key=lambda cause: cause[0])
    return f": {text}" if weight > 0 else ""


def _tried_text(step: StepCount, share: float) -> str:
    """Return how many events tried at a step pass, and which condition refuses most."""
    worst = _worst(
        [condition for condition in step.conditions if not condition.alone and condition.looked_at],
        of_tried=True,
    )
    reason = "" if worst is None else f" ({_held_text(worst)})"
    some = "" if share == 1 else f", {_share_text(share)}"
    return f"{step.passed:,} of {step.looked_at:,} events tried as {step.variable} pass{reason}{some}"


def _worst(conditions: list[ConditionCount], *, of_tried: bool = False) -> ConditionCount | None:
    """Return the condition that the fewest events passed, or the smallest share of the tried events."""

    def passed(one: ConditionCount) -> float:
        n = one.passed or 0
        return n / one.looked_at if of_tried and one.looked_at else n

    return min(conditions, key=passed, default=None)


def _share_text(share: float) -> str:
    """Return in words which part of the data was counted, for incomplete numbers."""
    if share == 0:
        return "a sample, since there were too many events to test after every possible first event"
    part = f"{share:.2%}" if share >= 0.0001 else "less than 0.01%"
    return f"in full after {part} of the possible first events only"


def _limits(query: RegexQuery | SequenceQuery | RowsQuery) -> str:
    """Return the limits for the next event in words: ``window of 5 min``."""
    limits = []
    if query.within is not None:
        limits.append(f"window of {duration_text(query.within)}")
    if isinstance(query, SequenceQuery) and query.within_events is not None:
        limits.append(f"window of {query.within_events:,} events")
    if isinstance(query, SequenceQuery) and query.gap_within is not None:
        limits.append(f"gap of {duration_text(query.gap_within)}")
    return " or the ".join(limits) or "window"


def _kind(step: StepCount) -> str:
    return "event" if step.event_type is None else f"{step.event_type} event"


def _held_text(one: ConditionCount) -> str:
    return f"{one.text}: {one.passed:,} of {one.looked_at:,}"


def _partials(count: Count) -> str:
    return _matches(count, "partial match")
