"""Calls with hostile texts and odd values, and their outcome: an answer, a refusal, or a fault."""

from __future__ import annotations

import contextlib
import io
import re
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd

import cepkit as cep
from tests.support.hostile_texts import ODD, WORDS, hostile_text

LONGEST_S = 5.0
N_ROWS = 24
TARGETS = ("sase", "regex", "python", "match_recognize", "siddhi", "flink_cep_java", "sql", "")


class TooSlow(BaseException):
    """A case took longer than ``LONGEST_S``."""


class NeedsKernel(BaseException):
    """The case needs a kernel of its own, and this run compiles none."""


@dataclass
class Outcomes:
    """What became of the cases of a run."""

    n_of: Counter = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    def __str__(self) -> str:
        said = ", ".join(f"{n:,} {name}" for name, n in sorted(self.n_of.items()))
        return f"{said}; {len(self.faults)} faults"


@cache
def frame() -> pd.DataFrame:
    """Return events with columns of every type; a third of the values of ``y`` and ``s`` are missing."""
    rng = np.random.default_rng(5)
    n = N_ROWS
    when = pd.date_range("2026-03-28 23:00", periods=n, freq="17min", tz="Europe/Berlin")
    return pd.DataFrame({
        "kind": rng.choice(list("ABCD"), n), "k": rng.integers(0, 2, n), "ts": np.arange(n),
        "x": rng.integers(0, 6, n),
        "y": np.where(rng.random(n) < 0.3, np.nan, rng.random(n)), "price": rng.random(n) * 9,
        "size": rng.integers(1, 4, n),
        "f": rng.random(n) < 0.5, "s": rng.choice(["x", "y", "a'b", None], n), "when": when,
        "d": pd.to_timedelta(rng.integers(0, 99, n), unit="s"), "odd `name": np.arange(n) % 3,
    })  # fmt: skip


@contextlib.contextmanager
def without_kernels() -> Iterator[None]:
    """Interpret every query that can be interpreted, and raise `NeedsKernel` for the others."""
    from cepkit.compile.shared import loading

    def refuse(*_: Any, **__: Any) -> Any:
        raise NeedsKernel

    if loading.reason_not_to_interpret() == "numba is switched off":  # kernels are Python
        yield
        return
    instead: dict[str, Callable] = {
        "reason_to_compile": lambda *_: None,
        "compile_if_it_pays": lambda *_: None,
        "is_ready": lambda *_: False,
        "load": refuse,
    }
    for name in _ENGINES:
        import_module(name)
    changed = []
    for module in [
        one for name, one in sys.modules.items() if name.startswith("cepkit.") and one is not loading
    ]:
        for name, own in instead.items():
            if getattr(module, name, None) is getattr(loading, name):
                changed.append((module, name))
                setattr(module, name, own)
    try:
        yield
    finally:
        for module, name in changed:
            setattr(module, name, getattr(loading, name))


# The modules that compile or interpret; they must be there before the functions that they import change.
_ENGINES = (
    "cepkit.engines.shared.places", "cepkit.engines.search",
    "cepkit.engines.regex", "cepkit.engines.regex", "cepkit.engines.counting.anchored",
    "cepkit.engines.counting.layout", "cepkit.engines.counting.counts", "cepkit.insight.funnels",
    "cepkit.compile.regex_program", "cepkit.engines.shared.python_kernels",
)  # fmt: skip


# --- the calls


def _regex(draw: Random) -> Any:
    text = hostile_text(draw, "regex", ("expression", "sequence"))
    names = dict.fromkeys(re.findall(r"[^\W\d]\w*", text)[:50])
    define = {name: f"x > {i % 6}" for i, name in enumerate(names or "p")}
    found = cep.match(frame(), text, define=define)
    return found.count(), found.head(3)


def _define(draw: Random) -> Any:
    text = hostile_text(draw, "expression", ("measure", "where"))
    found = cep.match(
        frame(), ". p q?", define={"p": text, "q": "x > 2"}, params=_params(text), order_by="ts"
    )
    return found.count(), found.head(3)


def _measure(draw: Random) -> Any:
    text = hostile_text(draw, "measure", ("expression",))
    found = cep.match(frame(), ". p", define={"p": "x > 1"}, measures={"v": text}, params=_params(text))
    return found.head(3)


def _sequence(draw: Random) -> Any:
    text = hostile_text(draw, "sequence", ("where", "regex"))
    found = cep.match(frame(), text, event_type="kind", order_by="ts")
    return found.count(), found.head(3)


def _where(draw: Random) -> Any:
    text = hostile_text(draw, "where", ("expression",))
    query = f"PATTERN SEQ(A a, B+ b[], C c) WHERE {text} WITHIN 12"
    found = cep.match(frame(), query, event_type="kind", order_by="ts", params=_params(text))
    return found.count(), found.head(3)


def _sequence_measure(draw: Random) -> Any:
    text = hostile_text(draw, "where", ("measure",))
    found = cep.match(
        frame(), "PATTERN SEQ(A a, B+ b[], C c) WITHIN 6", event_type="kind", order_by="ts",
        measures={"v": text}, params=_params(text),
    )  # fmt: skip
    return found.head(3)


def _sql(draw: Random) -> Any:
    text = hostile_text(draw, "sql", ("expression",))
    params = _params(text)
    if text.lstrip()[:6].upper() == "SELECT":
        return cep.sql(text, t=frame(), params=params).to_frame()
    found: Any = cep.match(
        frame(), text if "MATCH_RECOGNIZE" in text else f"MATCH_RECOGNIZE ({text})", params=params
    )
    return found.to_frame()


def _siddhi(draw: Random) -> Any:
    text = hostile_text(draw, "siddhi")
    result = cep.siddhi(text, T=frame(), order_by="ts")
    return result.to_frame()


def _window(draw: Random) -> Any:
    text = hostile_text(draw, "aggregate", ("expression", "measure"))
    where = hostile_text(draw, "expression") if draw.random() < 0.2 else None
    size: dict[str, Any] = draw.choice(
        ({"length": 3}, {"time": 5}, {"tumbling": 4}, {"length": 5, "group_by": "k"})
    )
    if draw.random() < 0.1:
        size = {"time": hostile_text(draw, "duration")}
    order_by = "when" if "time" in size and isinstance(size["time"], str) else "ts"
    return cep.window(
        frame(), {"v": text}, **size, where=where, order_by=order_by, params=_params(text + (where or ""))
    )


def _join(draw: Random) -> Any:
    text = hostile_text(draw, "pair", ("expression", "where"))
    measures = {"v": hostile_text(draw, "aggregate")} if draw.random() < 0.3 else None
    return cep.join(
        frame(), frame(), left=cep.Window(length=3), right=cep.Window(length=2), where=text, order_by="ts",
        measures=measures, params=_params(text),
    )  # fmt: skip


def _translate(draw: Random) -> Any:
    kind = draw.choice(("regex", "sequence", "sql", "siddhi"))
    text = hostile_text(draw, kind, ("where",))
    keywords: dict[str, Any] = {"params": _params(text)}
    if kind == "regex":
        keywords |= {"define": {name: "x > 1" for name in "pqrs"}, "order_by": "ts"}
        if draw.random() < 0.5:
            keywords["define"]["p"] = hostile_text(draw, "expression")
            keywords["params"] = _params(text + keywords["define"]["p"])
    elif kind == "sequence":
        keywords |= {"event_type": "kind", "order_by": "ts"}
    return cep.translate(text, draw.choice(TARGETS), **keywords)


def _explain(draw: Random) -> Any:
    kind = draw.choice(("regex", "sequence", "sql"))
    text = hostile_text(draw, kind)
    if kind == "regex":
        return str(cep.explain(frame(), text, define={name: "x > 1" for name in "pqrs"}))
    keywords = {"event_type": "kind", "order_by": "ts"} if kind == "sequence" else {}
    return str(cep.explain(frame(), text, **keywords))


def _idioms(draw: Random) -> Any:
    if draw.random() < 0.3:
        return cep.sessions(frame(), gap=hostile_text(draw, "duration"), order_by=draw.choice(("ts", "when")))
    text = hostile_text(draw, "expression")
    if draw.random() < 0.5:
        return cep.runs(frame(), text, order_by="ts", params=_params(text))
    return cep.funnel(frame(), "p q", define={"p": text, "q": "x > 1"}, params=_params(text))


def _params(text: str) -> dict[str, Any] | None:
    return {"limit": 2} if ":limit" in text else None


@cache
def _csv() -> str:
    import tempfile

    path = Path(tempfile.mkdtemp()) / "events.csv"
    frame().drop(columns=["when", "d"]).to_csv(path, index=False)
    return str(path)


def _cli(draw: Random) -> Any:
    from cepkit.commands.cli import main

    kind = draw.choice(("regex", "sequence", "sql"))
    text = hostile_text(draw, kind)
    arguments = [draw.choice(("match", "match", "explain")), _csv(), text, "--limit", "2"]
    if kind == "regex":
        for name in "pqr":
            said = hostile_text(draw, "expression") if draw.random() < 0.2 else "x > 1"
            arguments += ["--define", f"{name}={said}"]
    elif kind == "sequence":
        arguments += ["--event-type", "kind", "--order-by", "ts"]
    for option in (
        "--within",
        "--measure",
        "--param",
        "--partition-by",
        "--order-by",
        "--after-match",
        "--strategy",
    ):
        if draw.random() < 0.05:
            odd = draw.choice((draw.choice(ODD), draw.choice(WORDS), hostile_text(draw, "duration")))
            arguments += [option, f"v={odd}" if option in ("--measure", "--param") else odd]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(arguments)
    except SystemExit as stop:  # argparse refuses
        code = stop.code
    if code:
        raise cep.CepError(said.getvalue()[-200:])
    return said.getvalue()


class _Strange:
    """An object of a type that no call takes."""


ODD_VALUES = (
    None, True, False, 0, 1, -1, 2, 10**30, -(10**30), 2**63, 2**63 - 1, -(2**63), 0.5, -0.0, float("nan"),
    float("inf"), -float("inf"), 1e308, b"x", b"\xff", "", " ", "x", "a.x", "a\0b", "\ud800", "x" * 100_000,
    Decimal("1.5"), Decimal("NaN"), Fraction(1, 3), 1j, np.int64(3), np.uint64(2**64 - 1), np.float32(1.5),
    np.bool_(True), np.datetime64("2026-01-01"), np.timedelta64(5, "s"), np.array([1, 2]), np.array(3),
    pd.NaT, pd.NA, pd.Timestamp("2026-01-01"), pd.Timestamp.max, pd.Timedelta("5 min"), pd.Timedelta.max,
    timedelta(seconds=5), timedelta.max, timedelta(days=-1), date(2026, 1, 1), [], [1], ["x"], ["x", "x"], (),
    ("x",), {}, {"x": 1}, {1: 2}, set(), {"x"}, object, _Strange(), len, ..., range(3), "5 min", "-5 min",
    "1e400 s", "9" * 5000 + " s", "5 parsecs",
)  # fmt: skip


def _odd_keyword(draw: Random) -> Any:
    value = draw.choice(ODD_VALUES)
    sequence: dict[str, Any] = {"event_type": "kind", "order_by": "ts"}
    if draw.random() < 0.4:
        name = draw.choice(
            ("define", "params", "partition_by", "order_by", "within", "within_closed", "measures", "engine",
             "latency_bound", "warm_up", "seed", "weights", "shedding", "trace")
        )  # fmt: skip
        found = cep.match(frame(), "p q?", **{"define": {"p": "x > 1", "q": "x > 2"}, name: value})
        return found.count(), found.head(2)
    if draw.random() < 0.2:
        found = cep.match(frame(), "PATTERN SEQ(A a, B b) WHERE b.x > :v", **sequence, params={"v": value})
        return found.count(), found.head(2)
    if draw.random() < 0.2:
        return cep.match(
            frame(), "p", define={"p": "x = :v or s = :v or when < :v or y < :v"}, params={"v": value}
        ).count()
    if draw.random() < 0.2:
        keywords = {"define": {"p": value}} if draw.random() < 0.5 else {"measures": {"v": value}}
        return cep.match(frame(), "p", **{"define": {"p": "x > 1"}, **keywords}).head(2)
    name = draw.choice(
        ("params", "partition_by", "order_by", "within", "within_closed", "measures", "event_type",
         "strategy", "scope", "strict_time", "after_match", "evaluation_order", "engine")
    )  # fmt: skip
    found = cep.match(frame(), "PATTERN SEQ(A a, B b)", **sequence | {name: value})
    return found.count(), found.head(2)


@cache
def _results() -> dict[str, Any]:
    """One result of each class, all of the same events."""
    events, clock = frame(), {"event_type": "kind", "order_by": "ts"}
    pairs = "PATTERN SEQ(A a, B b) WITHIN 6"
    return {
        "sequence": cep.match(events, pairs, **clock),
        "regex": cep.match(events, "p q", define={"p": "x > 1", "q": "x > 2"}, order_by="ts"),
        "rows": cep.match(events, "MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE A AS x > 1)"),
        "sql": cep.sql(_SELECT.replace(":v", "1"), t=events),
        "siddhi": cep.siddhi("from T select x insert into O", T=events, order_by="ts"),
    }


def _odd_result(draw: Random) -> Any:
    kind = draw.choice(tuple(_results()))
    found, value, other = _results()[kind], draw.choice(ODD_VALUES), draw.choice(ODD_VALUES)
    if kind == "siddhi":
        ways = (
            lambda: found.count(value),
            lambda: found.to_frame(value),
            lambda: found.to_frame(time=value),
        )
        return draw.choice(ways)()
    ways: tuple[Callable[[], Any], ...] = (
        lambda: found.head(value),
        lambda: found.to_frame(value),
        lambda: found.sample(value),
        lambda: found.sample(2, value),
        lambda: found[value],
        lambda: found.lineage(value),
        lambda: found.plot(value),
        lambda: found.plot(partitions=value),
        lambda: found.plot(max_events=value),
        lambda: found.write_parquet(value if not isinstance(value, str) else f"{value}\0"),
    )
    if kind in ("sequence", "regex"):
        ways += (
            lambda: found.to_frame(limit=value),
            lambda: found.lineage(limit=value),
            lambda: found.take(value),
            lambda: found.take([value]),
            lambda: found[value:other],
            lambda: found[:: _step(value)],
            lambda: found.chunks(value),
            lambda: found.count(value),
            lambda: found.count("estimate", samples=value),
            lambda: found.count("estimate", seed=value),
            lambda: found.aggregate(v=value),
        )
    return draw.choice(ways)()


def _step(value: Any) -> Any:
    """Return a step of a slice; lists refuse a step of zero with a ValueError of Python."""
    return 1 if isinstance(value, int) and value == 0 else value


def _odd_engine(draw: Random) -> Any:
    value = draw.choice((*ODD_VALUES, 2**40, 2**70, 10**9, "9" * 400 + " GB"))
    clock: dict[str, Any] = {"event_type": "kind", "order_by": "ts"}
    name = draw.choice(("match", "match", "memory", "threads", "costs", "explorer"))
    if name == "memory":
        return cep.match(frame(), "PATTERN SEQ(A a, B b)", memory_limit=value, **clock).head(2)
    if name == "threads":
        with cep.stream("p", {"x": "int64"}, define={"p": "x > 1"}, partition_by="x", threads=value):
            return None
    if name == "costs":
        call = draw.choice((cep.replay, cep.simulate))
        return call(frame(), "PATTERN SEQ(A a, B b) WITHIN 6", costs=value, **clock)
    if name == "explorer":
        return _odd_explorer(draw, value)
    ways: tuple[Callable[[], Any], ...] = (
        lambda: cep.Hybrid(batch=value),
        lambda: cep.StateParallel(batch=value),
        lambda: cep.RIP(chunk=value),
        lambda: cep.RIP(multiple=value),
        lambda: cep.DataParallel(threads=value),
        lambda: cep.Hybrid(threads=value),
    )
    return repr(draw.choice(ways)())  # its threads need kernels


def _odd_explorer(draw: Random, value: Any) -> Any:
    """Call a method of an explorer that has no result yet: its arguments are checked first."""
    explorer = _explorer()
    ways: tuple[Callable[[], Any], ...] = (
        lambda: explorer.select(value),
        lambda: explorer.show_page(value),
        lambda: explorer.show_page(1, value),
        lambda: explorer.show_value(value),
        lambda: explorer.select_state(value),
        lambda: explorer.zoom(value),
        lambda: explorer.zoom([value, 1]),
        lambda: explorer.step_to(value),
        lambda: explorer.why_not(value),
        lambda: explorer.why_not([value]),
        lambda: explorer.drop_case(value),
        lambda: explorer.show_case(value),
        lambda: explorer.write_test(value),
        lambda: explorer.save(value if not isinstance(value, str) else f"{value}\0"),
        lambda: explorer.to_html(value if not isinstance(value, str) else f"{value}\0"),
        lambda: setattr(explorer, "filters", value),
        lambda: setattr(explorer, "hidden", value),
        lambda: setattr(explorer, "cases", value),
        lambda: explorer.choose(order_by=value if not isinstance(value, str) else [value, 1]),
        lambda: explorer.choose(measures=value if not isinstance(value, str) else [value]),
    )
    return draw.choice(ways)()


@cache
def _explorer() -> Any:
    made = cep.explore(frame(), "PATTERN SEQ(A a, B b) WITHIN 6", event_type="kind", order_by="ts")
    return made.wait(120)


_SELECT = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE A AS x > :v)"


def _odd_operator(draw: Random) -> Any:
    value = draw.choice(ODD_VALUES)
    ways: tuple[Callable[[], Any], ...] = (
        lambda: cep.window(frame(), {"v": "sum(x)"}, length=value),
        lambda: cep.window(frame(), {"v": "sum(x)"}, time=value, order_by="ts"),
        lambda: cep.window(frame(), {"v": "sum(x)"}, time=value, order_by="when"),
        lambda: cep.window(frame(), {"v": "sum(x)"}, tumbling=value, order_by="ts"),
        lambda: cep.window(frame(), value, length=3),
        lambda: cep.window(frame(), {"v": value}, length=3),
        lambda: cep.window(frame(), {"v": "sum(x) + :p"}, length=3, params={"p": value}),
        lambda: cep.window(frame(), {"v": "sum(x)"}, length=3, group_by=value),
        lambda: cep.window(frame(), {"v": "sum(x)"}, length=3, order_by=value),
        lambda: cep.window(frame(), {"v": "sum(x)"}, length=3, emit=value),
        lambda: cep.join(frame(), frame(), left=cep.Window(length=value), order_by="ts"),
        lambda: cep.join(frame(), frame(), left=cep.Window(length=2), on=value, order_by="ts"),
        lambda: cep.join(frame(), frame(), left=cep.Window(length=2), order_by=value),
        lambda: cep.join(frame(), frame(), left=cep.Window(length=2), how=value, order_by="ts"),
        lambda: cep.join(frame(), frame(), left=value, order_by="ts"),
        lambda: cep.sessions(frame(), gap=value, order_by="ts"),
        lambda: cep.sessions(frame(), gap=value, order_by="when"),
        lambda: cep.runs(frame(), value),
        lambda: cep.sql(_SELECT, t=frame(),
                        params={"v": value}).to_frame(),
        lambda: cep.sql(value, t=frame()),
        lambda: cep.siddhi(value, T=frame()),
        lambda: cep.siddhi("from T select x insert into O", T=frame(), order_by=value).to_frame(),
        lambda: cep.siddhi("from T select x insert into O", T=frame(), order_by="ts", start=value).to_frame(),
        lambda: cep.siddhi(
            "from T select x insert into O", T=frame(), order_by="ts", complete_until=value
        ).to_frame(),
        lambda: cep.translate(value, "sase"),
        lambda: cep.translate("p", value, define={"p": "x > 1"}),
        lambda: cep.match(frame(), value),
        lambda: cep.match(value, "p", define={"p": "x > 1"}),
    )  # fmt: skip
    return draw.choice(ways)()


def _builder(draw: Random) -> Any:
    value = draw.choice(ODD_VALUES)
    a, b = cep.event("a", "A"), cep.event("b", "B")
    ways: tuple[Callable[[], Any], ...] = (
        lambda: cep.event(value), lambda: cep.event("a", value), lambda: cep.event("a", "A").times(value),
        lambda: cep.event("a", "A").times(1, value), lambda: cep.seq(a, b).within(value),
        lambda: cep.seq(a, b).where(value), lambda: cep.seq(a, b).where(b["x"] > value),
        lambda: cep.seq(a, b).where(b["x"].isin([value, 1])), lambda: cep.seq(a, b).where(b["x"].isin(value)),
        lambda: cep.seq(a, b).where(b["s"].like(value)),
        lambda: cep.seq(a, b).where(b["x"].between(value, 3)),
        lambda: cep.seq(a, b).where(b["x"] + value > 1), lambda: cep.seq(a, b).where(b[value]),
        lambda: cep.seq(a, b).partition_by(value), lambda: cep.seq(a, value), lambda: cep.seq(value, value),
        lambda: cep.any_of(a, value), lambda: cep.all_of(a, value), lambda: cep.seq(a, b).after_match(value),
        lambda: cep.seq(a, b).measures(v=value), lambda: cep.seq(a, b).strategy(value),
        lambda: cep.param(value), lambda: cep.var(value), lambda: cep.var("p").times(value),
        lambda: cep.regex_query("p", define={"p": value}), lambda: cep.sequence_query(value),
        lambda: cep.sequence_query("PATTERN SEQ(A a, B b)", within_events=value),
        lambda: cep.sequence_query("PATTERN SEQ(A a, B b)", gap_within=value),
        lambda: cep.seq("p", "q").define(value),
    )  # fmt: skip
    try:
        made = draw.choice(ways)()
    except AttributeError as error:
        if "object has no attribute" in str(error) and not _in_package(error):
            raise cep.CepError(str(error)) from None  # the test asks for a method that this kind lacks
        raise
    str(made), repr(made)
    found = cep.match(frame(), made, event_type="kind", order_by="ts")
    return found.count(), found.head(2)


def _in_package(error: BaseException) -> bool:
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    return "hostile_runs" not in last


CALLS: dict[str, tuple[Callable[[Random], Any], int]] = {
    "regex": (_regex, 8), "define": (_define, 12), "measure": (_measure, 6), "sequence": (_sequence, 12),
    "where": (_where, 10), "sequence measure": (_sequence_measure, 4), "sql": (_sql, 14),
    "siddhi": (_siddhi, 12),
    "window": (_window, 6), "join": (_join, 5), "translate": (_translate, 8), "explain": (_explain, 4),
    "idioms": (_idioms, 4), "cli": (_cli, 3), "odd keyword": (_odd_keyword, 6),
    "odd result": (_odd_result, 4), "odd engine": (_odd_engine, 3),
    "odd operator": (_odd_operator, 5), "builder": (_builder, 6),
}  # fmt: skip


def _too_slow(*_: object) -> None:
    raise TooSlow


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    """Raise `TooSlow` if the block takes longer than ``LONGEST_S`` of the processor, which others use."""
    before = signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _said(error: Exception) -> str:
    lines = traceback.extract_tb(error.__traceback__)[-3:]
    places = " < ".join(f"{Path(one.filename).name}:{one.lineno}" for one in reversed(lines))
    return f"{type(error).__name__}: {str(error)[:200]!r} at {places}"


def run_case(seed: int, outcomes: Outcomes, kinds: tuple[str, ...] | None = None) -> None:
    """Run the case of a seed and note its outcome."""
    draw = Random(seed)
    names = kinds or tuple(CALLS)
    kind = draw.choices(names, [CALLS[name][1] for name in names])[0]
    try:
        with in_time(), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", cep.CepWarning)
            CALLS[kind][0](draw)
        outcome = "answers"
    except cep.CepError as error:
        outcome = "refusals"
        if len(str(error)) > 4_200:
            outcomes.faults.append(f"seed {seed}, {kind}: an error text of {len(str(error)):,} characters")
    except NeedsKernel:
        outcome = "need a kernel"
    except TooSlow:
        outcome = "faults"
        outcomes.faults.append(f"seed {seed}, {kind}: longer than {LONGEST_S} s")
    except Exception as error:
        # Lists of Python raise IndexError, too, such as for matches[10**9].
        is_list = isinstance(error, IndexError) and "no match has number" in str(error)
        outcome = "refusals" if is_list else "faults"
        if not is_list:
            outcomes.faults.append(f"seed {seed}, {kind}: {_said(error)}")
    outcomes.n_of[outcome] += 1


@cache
def _load_kernels() -> None:
    """Run each kind of call once: the first one of a process loads modules and kernels."""
    events = frame()
    cep.window(events, {"v": "sum(x)", "w": "max(y)", "n": "distinct(s)"}, length=3)
    cep.window(events, {"v": "std(x)"}, time=5, order_by="ts")
    cep.join(events, events, left=cep.Window(length=3), order_by="ts", measures={"n": "count()"})
    cep.sessions(events, gap=2, order_by="ts")
    cep.runs(events, "x > 1", order_by="ts")
    cep.siddhi("from T select x insert into O", T=events, order_by="ts").to_frame()
    for kind, found in _results().items():
        found.to_frame()
        if kind != "siddhi":
            found.plot(), found[0]
    _explorer()


def run_cases(seeds: range, kinds: tuple[str, ...] | None = None) -> Outcomes:
    """Run the cases of many seeds."""
    outcomes = Outcomes()
    _load_kernels()
    with without_kernels():
        for seed in seeds:
            run_case(seed, outcomes, kinds)
    return outcomes
