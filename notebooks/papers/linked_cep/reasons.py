"""Why each claim of the LinkedCEP paper holds or does not hold, with the numbers of a table of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd

from papers.claims import IN_PART, NO, ON_GENERATED, YES, Finding
from papers.linked_cep.claims import AARHUS, ABC, GROUPS, QUERIES, STICKY, TRAFFIC, WINDOWS
from papers.linked_cep.figures import SYSTEMS, WINDOWS_S

_COPYING = "deep"  # the paper copies deeply, so its claims are explained for deep copies
_STREAMS = {"abc": ABC, "sticky": STICKY, "traffic": TRAFFIC}


def with_reasons(findings: Iterable[Finding], results: pd.DataFrame) -> list[Finding]:
    """Return findings whose claims have a reason, by the verdict, with numbers of the results."""
    numbers = _numbers(results)
    made = []
    for one in findings:
        place = one.claim.place
        own = numbers["traffic" if place in ("figure 7", "figure 9", "figure 11") else "abc"]
        reason = _reason(one).format(own=own, **numbers)
        made.append(replace(one, claim=replace(one.claim, reason=reason)))
    return made


# --- reasons ----------------------------------------------------------------------------------------------

_MORE = "SASE makes {own.more_Q1:.1f} and {own.more_Q2:.1f} times as many partial matches in Q1 and Q2"
_VISITS = (
    "SASE also visits partial matches that an event cannot extend. LinkedCEP does not: in Q4 both make "
    "equally many, and LinkedCEP takes {own.below_sase_Q4:.0f} % less time."
)
_WORK = (
    "LinkedCEP does more for each event: it collects what the event extends, and looks for the chain that "
    "the event joins. In Q4 both make equally many partial matches, and LinkedCEP takes "
    "{own.above_siddhi_Q4:.0f} % more time."
)
_TOGETHER = "All five groups run together."
_JOIN = (
    "CoverMatch does the same search and only leaves out the joining of matches. Joining takes "
    "{own.joined:.0f} % of LinkedCEP's time over the five groups"
)
_ONE_RUN = "Each point is one run"
_STEPS = (
    "The part of copies that chains save grows at each step: the run engines make {own.more_by_window} times "
    "as many partial matches. The later steps are small, because a chain ends at the next event of another "
    "type. A longer window does not change that: a chain holds {own.chain_50:.1f} partial matches at 50 s "
    "and {own.chain_300:.1f} at 300 s. So the spread of the measured times decides the later steps."
)
_LONGER = (
    "A longer window holds more partial matches of each event, and chains save a greater part of them. SASE "
    "makes {own.more_50:.1f} times as many as LinkedCEP at 50 s, and {own.more_300:.1f} times as many at "
    "300 s."
)
_AT_200 = (
    "At 200 s, the run engines make {own.more_200:.1f} times as many partial matches as LinkedCEP, and each "
    "one is a deep copy."
)
_DRAWN = (
    "The saving depends on the conditions that a seed draws: the run engines make {own.least_more_200:.1f} "
    "to {own.most_more_200:.1f} times as many at 200 s, and LinkedCEP is slower where they make fewest."
)
_CANCEL = (
    f"{_TOGETHER} With deep copies, LinkedCEP takes {{own.extra_ms_Q1:+.1f}}, {{own.extra_ms_Q2:+.1f}}, "
    "{own.extra_ms_Q3:+.1f}, {own.extra_ms_Q4:+.1f} and {own.extra_ms_Q5:+.1f} ms more than Siddhi-like in "
    "Q1 to Q5, for a query and 100,000 events. So the gains and losses of the groups nearly cancel."
)
_DECIDES = (
    "Siddhi-like makes {own.more_Q1:.1f} and {own.more_Q2:.1f} times as many partial matches in Q1 and Q2, "
    "and each one is a deep copy. The copies decide: with pointers, LinkedCEP takes "
    "{own.with_pointers_Q1:.2f} and {own.with_pointers_Q2:.2f} times as long as Siddhi-like."
)
_REASONS = (
    # place, part of the statement, reason for each verdict; the first line that fits counts
    ("figures", "", {
        "no": "Chains save more on traffic: SASE makes {traffic.more_Q1:.1f} times as many partial "
        "matches in Q1 there, and {abc.more_Q1:.1f} times as many on ABC. More events of a query share a "
        "window of traffic. So SASE makes {traffic.per_event_Q1:.1f} partial matches per event, against "
        "{abc.per_event_Q1:.1f}.",
    }),
    ("figure", "less time than SASE in every group", {
        "no": "LinkedCEP is slower in {own.slower_than_sase}. Q5 splits the stream by key, so few events "
        "share a window: SASE makes only {own.more_Q5:.2f} times as many partial matches, and "
        "{own.per_event_Q5:.1f} per event. LinkedCEP links every event to its neighbours in any case. It "
        "needs {own.extra_ns_Q5:.0f} ns more per event there.",
    }),
    ("figure", "less time than Siddhi-like in every group", {
        "no": f"LinkedCEP is slower in {{own.slower_than_siddhi}}. {_WORK} Only saved copies can pay for "
        "this work, and Q4 and Q5 save none or few.",
    }),
    ("figure", "less time than SASE in groups", {"yes": f"{_MORE}, and each one is a deep copy. {_VISITS}"}),
    ("figure 6", "less time than SASE in group Q3", {
        "yes": f"{_VISITS} Copies explain little: one state of three has chains, and SASE makes "
        "{own.more_Q3:.2f} times as many partial matches.",
    }),
    ("figure 7", "less time than SASE in group Q2", {
        "yes": "SASE makes {own.more_Q2:.1f} times as many partial matches in Q2, and each one is a deep "
        f"copy. {_VISITS}",
    }),
    ("figure 6", "Siddhi-like in groups Q1", {
        "no": "The types of ABC are independent, so a chain holds only {own.chain_Q1:.1f} partial "
        f"matches. {_WORK} This weighs more in Q2, where SASE makes {{own.per_event_Q2:.1f}} partial "
        "matches per event, than in Q1, where it makes {own.per_event_Q1:.1f}.",
    }),
    ("figure 6", "Siddhi-like in group Q3", {
        "no": "A comparison ties two of three states to each other, so one state has chains. Siddhi-like "
        f"makes only {{own.more_Q3:.2f}} times as many partial matches. {_WORK}",
    }),
    ("figure 7", "Siddhi-like in group", {
        "yes": _DECIDES,
        "generated": f"{_DECIDES} The gain is small: {{own.below_siddhi_Q2:.0f}} % in Q2. On Aarhus, the "
        "copies saved are as many, but a single run shows {aarhus.below_siddhi_Q1:.0f} % less time in Q1 "
        "and {aarhus.above_siddhi_Q2:.0f} % more in Q2.",
    }),
    ("figure", "fewer temporary", {
        "yes": "No condition of Q1 and Q2 ties one state to another, so all states have chains. "
        "LinkedCEP extends a chain once for all its partial matches, {own.chain_Q1:.1f} on average in "
        "Q1.",
    }),
    ("figure", "gains more on S", {"yes": _LONGER, "part": _STEPS, "no": _STEPS}),
    ("figure", "less time than SASE at every window", {"yes": f"{_LONGER} {_VISITS}"}),
    ("figure 8", "less time than SASE at 200 s", {"yes": f"{_AT_200} {_VISITS}"}),
    ("figure 8", "less time than Siddhi-like at 200 s", {
        "yes": f"{_AT_200} There are {{own.per_event_200:.0f}} of them per event, so the work for each "
        "event weighs little.",
        "part": f"{_AT_200} {_DRAWN}",
    }),
    ("figure", "less time than Siddhi-like at every window", {
        "yes": "Siddhi-like makes {own.more_50:.1f} times as many partial matches already at 50 s, and "
        "each one is a deep copy.",
        "part": f"Siddhi-like makes {{own.more_50:.1f}} times as many partial matches at 50 s. {_DRAWN}",
        "no": "LinkedCEP is slower at {own.slow_windows}. A short window has few partial matches per "
        "event: SASE makes {own.per_event_50:.1f} at 50 s, and {own.per_event_300:.0f} at 300 s. "
        f"{_WORK}",
    }),
    ("figure", "more throughput than SASE with", {
        "yes": f"{_TOGETHER} LinkedCEP is slower in {{own.slower_than_sase}}, but this group is only "
        "{own.q5_of_sase:.0f} % of SASE's time.",
        "generated": f"{_TOGETHER} LinkedCEP is slower in {{own.slower_than_sase}}, but this group is "
        "only {own.q5_of_sase:.0f} % of SASE's time. Aarhus is a single run. Its worst point has "
        "{aarhus.least_over_sase:.2f} times the throughput, and its middle point "
        "{aarhus.over_sase:.2f} times.",
        "part": f"{_TOGETHER} LinkedCEP has {{own.over_sase:.2f}} times the throughput of SASE in the "
        f"middle. {_ONE_RUN}, and the ratio has a standard deviation of {{own.over_sase_spread:.2f}}. So "
        "one of five points is easily below 1.",
    }),
    ("figure 10", "more throughput than Siddhi-like with", {
        "no": f"{_TOGETHER} On ABC, LinkedCEP takes more time than Siddhi-like in "
        f"{{own.slower_than_siddhi}}. {_WORK}",
    }),
    ("figure 11", "more throughput than Siddhi-like with", {"yes": _CANCEL, "part": _CANCEL, "no": _CANCEL}),
    ("figure", "CoverMatch has more throughput than LinkedCEP", {
        "yes": f"{_JOIN}.",
        "part": f"{_JOIN}. {_ONE_RUN}, and the ratio has a standard deviation of "
        "{own.cover_spread:.2f}. So one of five points is easily below 1.",
    }),
    ("figure 10", "CoverMatch has more throughput than SASE", {
        "no": f"{_JOIN}. Without it, the search still takes longer than Siddhi-like in "
        "{own.cover_slower_than_siddhi}.",
    }),
    ("figure 11", "similar", {
        "yes": f"{_JOIN}.",
        "generated": f"{_JOIN}. Aarhus is a single run: its middle point has a ratio of "
        "{aarhus.cover:.2f}, and one point of five is above the limit.",
    }),
    ("section", "", {
        "yes": "A chain holds {sticky.chain_Q1:.1f} partial matches in Q1 at stay 0.5, and "
        "{abc.chain_Q1:.1f} at stay 0. So SASE makes {sticky.more_Q1:.1f} instead of {abc.more_Q1:.1f} "
        "times as many partial matches as LinkedCEP.",
    }),
)  # fmt: skip


def _reason(finding: Finding) -> str:
    """Return the reason of a finding, with places for numbers."""
    holds = {YES: "yes", ON_GENERATED: "generated", IN_PART: "part", NO: "no"}.get(finding.verdict, "")
    for place, part, reason_of in _REASONS:
        if finding.claim.place.startswith(place) and part in finding.claim.statement:
            return reason_of.get(holds, "")
    return ""


# --- numbers ----------------------------------------------------------------------------------------------


def _numbers(results: pd.DataFrame) -> dict[str, SimpleNamespace]:
    """Return what the reasons quote, by stream: medians over seeds, and those of the recorded traffic."""
    rows = results.assign(at=results["at"].astype(str))
    is_seed = rows["data"].str.startswith("seed ")
    streams = {
        **{key: rows[is_seed & (rows["stream"] == name)] for key, name in _STREAMS.items()},
        "aarhus": rows[rows["data"] == AARHUS],
    }
    return {
        key: SimpleNamespace(**_of_groups(own), **_of_windows(own), **_of_queries(own))
        for key, own in streams.items()
        if len(own)
    }


def _of_groups(rows: pd.DataFrame) -> dict[str, float | str]:
    times = rows[rows["experiment"] == GROUPS]
    deep = times[times["copying"] == _COPYING].set_index(["data", "at"])
    pointer = times[times["copying"] == "pointer"].set_index(["data", "at"])
    linked, cover, sase, siddhi = (deep[name] for name in ("LinkedCEP", "CoverMatch", "SASE", "Siddhi-like"))
    partial_matches = deep["partial matches, SASE"]
    made = {
        **_each("more", partial_matches / deep["partial matches, LinkedCEP"]),
        **_each("chain", deep["partial matches, LinkedCEP"] / deep["chains"]),
        **_each("per_event", partial_matches / deep["events"]),
        **_each("below_sase", 100 * (1 - linked / sase)),
        **_each("below_siddhi", 100 * (1 - linked / siddhi)),
        **_each("above_siddhi", 100 * (linked / siddhi - 1)),
        **_each("with_pointers", pointer["LinkedCEP"] / pointer["Siddhi-like"]),
        **_each("extra_ns", 1e6 * (linked - sase) / deep["events"]),
        **_each("extra_ms", linked - siddhi),
    }
    sums = deep[list(SYSTEMS)].groupby(level="data").sum()
    made["joined"] = (100 * (1 - sums["CoverMatch"] / sums["LinkedCEP"])).median()
    made["q5_of_sase"] = (100 * sase.xs("Q5", level="at") / sums["SASE"]).median()
    for name, ratio in (
        ("slower_than_sase", linked / sase),
        ("slower_than_siddhi", linked / siddhi),
        ("cover_slower_than_siddhi", cover / siddhi),
    ):
        made[name] = _listed(_above_one(ratio))
    return made


def _of_windows(rows: pd.DataFrame) -> dict[str, float | str]:
    deep = rows[(rows["experiment"] == WINDOWS) & (rows["copying"] == _COPYING)].set_index(["data", "at"])
    if deep.empty:
        return {}
    more = deep["partial matches, SASE"] / deep["partial matches, LinkedCEP"]
    middle = [more.xs(str(w), level="at").median() for w in WINDOWS_S]
    return {
        **_each("more", more),
        **_each("chain", deep["partial matches, LinkedCEP"] / deep["chains"]),
        **_each("per_event", deep["partial matches, SASE"] / deep["events"]),
        "more_by_window": _listed([f"{one:.2f}" for one in middle]),
        "least_more_200": more.xs("200", level="at").min(),
        "most_more_200": more.xs("200", level="at").max(),
        "slow_windows": _listed([f"{at} s" for at in _above_one(deep["LinkedCEP"] / deep["Siddhi-like"])]),
    }


def _of_queries(rows: pd.DataFrame) -> dict[str, float]:
    deep = rows[(rows["experiment"] == QUERIES) & (rows["copying"] == _COPYING)]
    over_sase, cover = deep["LinkedCEP"] / deep["SASE"], deep["CoverMatch"] / deep["LinkedCEP"]
    return {
        "over_sase": over_sase.median(),
        "least_over_sase": over_sase.min(),
        "over_sase_spread": over_sase.std(),
        "cover": cover.median(),
        "cover_spread": cover.std(),
    }


def _each(name: str, values: pd.Series) -> dict[str, float]:
    """Return the median over the data for each point: ``{"more_Q1": …}``."""
    return {f"{name}_{at}": value for at, value in values.groupby(level="at", sort=False).median().items()}


def _above_one(ratios: pd.Series) -> list[str]:
    middle = ratios.groupby(level="at", sort=False).median()
    return [str(at) for at in middle.index[middle > 1]]


def _listed(words: Sequence[str]) -> str:
    """Return words as an enumeration: ``"Q1, Q2 and Q3"``."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
