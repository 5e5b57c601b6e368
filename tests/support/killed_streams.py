"""Processes with a stream that are killed while they push and save, and start again from what they saved.

A process is a fork of a warm one, so it starts in a millisecond. It pushes random batches, writes the results
of each batch to a file of its own, and saves the stream. Results of batches after the saved state do not
count: the process that starts again writes them again. As a program it runs until there are enough kills::

    python -m tests.support.killed_streams --kills 500
"""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd

import cepkit as cep

N_ROWS = 600
MOST_KILLS = 30  # of one stream
_MOST_WAIT_S = 5  # for a process that writes no more
_MOST_RESTARTS = 400  # of one stream; a stream that never ends is an error


def frame_of(seed: int, n: int = N_ROWS) -> pd.DataFrame:
    """Return events of four types and three keys, with ties of time, missing values and new texts."""
    rng = np.random.default_rng([18, seed])
    y = rng.integers(0, 40, n) / 4
    y[rng.random(n) < 0.1] = np.nan
    texts = np.array([f"w{i // 40}{j}" for i, j in enumerate(rng.integers(0, 3, n))], object)
    return pd.DataFrame(
        {"kind": rng.choice(list("ABCD"), n), "k": rng.choice(list("pqr"), n),
         "t": np.cumsum(rng.integers(0, 3, n)), "x": rng.integers(0, 9, n), "y": y, "s": texts,
         "n": np.arange(n)}
    )  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A kind of stream: how it is opened, and the answer for all rows at once.

    ``in_order`` says whether the results come in the order of the answer. ``sides`` says that the stream is a
    join of the even rows with the odd ones.
    """

    open: Callable[[pd.DataFrame], Any]
    answer: Callable[[pd.DataFrame], pd.DataFrame]
    in_order: bool = True
    sides: bool = False
    finishes: bool = False  # whether a buffer gives its rows before the stream is closed
    clock: bool = False  # whether it takes a clock when it is loaded


def _of_query(query: Any, rows: str = "all", **options: Any) -> Kind:
    return Kind(
        lambda frame: cep.stream(query, frame.head(0), rows=rows, **options),
        lambda frame: cep.match(frame, query).to_frame(rows),
    )


def _sequence(text: str, **options: Any) -> Any:
    return cep.sequence_query(f"PATTERN {text}", event_type="kind", order_by=("t", "n"), **options)


def _regex(text: str, **options: Any) -> Any:
    define = {
        "up": "x > prev(x)", "down": "x < prev(x)", "low": "y < avg(y) - 1", "same": "s == prev(s)",
        "high": "x >= first(x) + 4",
    }  # fmt: skip
    used = {name: text_of for name, text_of in define.items() if name in text}
    return cep.regex_query(text, define=used, partition_by="k", order_by=("t", "n"), **options)


ROW_PATTERN = (
    "SELECT * FROM e MATCH_RECOGNIZE (PARTITION BY k ORDER BY t, n MEASURES FIRST(n) AS a, LAST(n) AS b,"
    " COUNT(*) AS c PATTERN (S U+ D?) DEFINE U AS x > PREV(x), D AS x < PREV(x))"
)
WINDOW = cep.Window(
    {"total": "sum(y)", "n_rows": "count()", "top": "max(x)"}, time=15, group_by="k", order_by="t"
)
_EVEN, _ODD = (lambda frame: frame[frame["n"] % 2 == 0]), (lambda frame: frame[frame["n"] % 2 == 1])


def _join() -> Kind:
    windows = {"left": cep.Window(time=8), "right": cep.Window(length=5)}
    value = cep.Join(**windows, on="k", how="left", order_by="t", where="left.x < right.x + 4")

    def opened(frame: pd.DataFrame) -> Any:
        return cep.stream(value, {"left": frame.head(0), "right": frame.head(0)})

    def answer(frame: pd.DataFrame) -> pd.DataFrame:
        return cep.join(
            _EVEN(frame),
            _ODD(frame),
            **windows,
            on="k",
            how="left",
            order_by="t",
            where="left.x < right.x + 4",
        )

    return Kind(opened, answer, sides=True)


def _chain() -> Kind:
    rise = cep.sequence_query(
        "PATTERN SEQ(_ a, _ b) WHERE b.total > a.total + 6 AND [k] WITHIN 3", order_by="t"
    )

    def answer(frame: pd.DataFrame) -> pd.DataFrame:
        return cep.match(cep.window(frame, WINDOW), rise).to_frame()

    return Kind(lambda frame: cep.stream([WINDOW, rise], frame.head(0)), answer)


def _bounded() -> Kind:
    query = _sequence("SEQ(A a, B b, !D d, C c) WHERE b.x > a.x AND [k] WITHIN 25")

    def opened(frame: pd.DataFrame) -> Any:
        return cep.stream(
            query, frame.head(0), rows="all", latency_bound=1e6, warm_up=100,
            shedding=cep.Darling(drift=False), clock=cep.shedding.VirtualClock(),
        )  # fmt: skip

    return Kind(opened, lambda frame: cep.match(frame, query).to_frame("all"), in_order=False, clock=True)


def _buffered() -> Kind:
    query = _sequence("SEQ(A a, B b) WHERE b.x > a.x AND [k] WITHIN 10")

    def opened(frame: pd.DataFrame) -> Any:
        return cep.stream([cep.KSlack(5, order_by="t"), query], frame.head(0), rows="all")

    return Kind(opened, lambda frame: cep.match(frame, query).to_frame("all"), finishes=True)


KINDS: dict[str, Kind] = {
    "regex": _of_query(_regex("up+ down")),
    "regex with sums": _of_query(_regex(". up* low", measures={"a": "first(n)", "b": "last(n)"}), "one"),
    "regex on threads": _of_query(_regex(". same* high"), threads=2, pulse_every=7),
    "sequence, any": _of_query(_sequence("SEQ(A a, B b, C c) WHERE c.x > a.x AND [k] WITHIN 20")),
    "sequence, next, loop": _of_query(
        _sequence("SEQ(A a, B+ b[], C c) WHERE b[i].y >= b[i-1].y AND [k] WITHIN 30", strategy="next")
    ),
    "sequence that waits": _of_query(_sequence("SEQ(A a, B b, !C c) WHERE c.x > a.x AND [k] WITHIN 12")),
    "sequence after match": _of_query(
        _sequence("SEQ(A a, B b) WHERE [k] WITHIN 15", after_match="past_last")
    ),
    "sequence in rows": _of_query(_sequence("SEQ(!D d, A a, B b) WHERE [k] AND d.x = a.x WITHIN 10 GAP 4")),
    "row pattern": Kind(
        lambda frame: cep.stream(ROW_PATTERN, frame.head(0)),
        lambda frame: cep.match(frame, ROW_PATTERN).to_frame(),
        in_order=False,
    ),
    "window": Kind(lambda frame: cep.stream(WINDOW, frame.head(0)), lambda frame: cep.window(frame, WINDOW)),
    "join": _join(),
    "chain": _chain(),
    "latency bound": _bounded(),
    "after a buffer": _buffered(),
}  # fmt: skip


# --- the process that is killed


def schedule(name: str, frame: pd.DataFrame, seed: int) -> list[Any]:
    """Return random batches; those of a join have a side, and those after a buffer come late."""
    random, kind = Random(f"{name} {seed}"), KINDS[name]
    if kind.finishes:
        late = [t + random.random() * 4 for t in frame["t"]]
        frame = frame.iloc[sorted(range(len(frame)), key=late.__getitem__)]
    places, at = [0], 0
    while at < len(frame):
        at = min(at + random.choice([1, 2, 5, 12, 30]), len(frame))
        places.append(at)
    batches: list[Any] = [frame.iloc[begin:end] for begin, end in pairwise(places)]
    if not kind.sides:
        return batches
    sides = [[{"left": _EVEN(own)}, {"right": _ODD(own)}] for own in batches]
    return [side for pair in sides for side in pair if len(next(iter(side.values())))]


def _rows_in(batch: Any) -> int:
    return sum(map(len, batch.values())) if isinstance(batch, dict) else len(batch)


def load(name: str, path: Path) -> Any:
    """Open the stream of a kind from a file."""
    options = {"clock": cep.shedding.VirtualClock()} if KINDS[name].clock else {}
    return cep.stream.load(path, **options)


def events_of(stream: Any) -> int:
    """Return the number of rows that a stream has read, with those that wait in a buffer."""
    slack = getattr(stream, "slack", None)
    return stream.events if slack is None else slack.before.n


def work(name: str, frame: pd.DataFrame, seed: int, folder: Path, state: Path | None) -> None:
    """Push the batches that the saved state does not have, and write and save after each."""
    kind, batches = KINDS[name], schedule(name, frame, seed)
    random = Random(f"{name} {seed} {os.getpid()}")
    stream = kind.open(frame) if state is None else load(name, state)
    done, n_rows = 0, events_of(stream)
    while n_rows:
        n_rows -= _rows_in(batches[done])
        done += 1
    for number, batch in enumerate(batches[done:], done):
        made = [stream.push(**batch) if isinstance(batch, dict) else stream.push(batch)]
        if random.random() < 0.4 and number + 1 < len(batches):
            _write(folder / f"{number:05}.results", made)
            continue
        made.append(stream.flush())
        _write(folder / f"{number:05}.results", made)
        stream.save(folder / "state")
        if random.random() < 0.1:
            shutil.copy(folder / "state", folder / "old.part")
            os.replace(folder / "old.part", folder / "old")
    made = [stream.finish()] if kind.finishes else []
    _write(folder / f"{len(batches):05}.results", [*made, stream.close()])
    _write(folder / "end", [])


def _write(path: Path, made: Sequence[pd.DataFrame]) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(pickle.dumps(list(made)))
    os.replace(part, path)


def fork(task: Callable[[], None], log: Path) -> int:
    """Run a task in a fork of this process, and return its number. The fork ends without cleaning up."""
    number = os.fork()
    if number:
        return number
    status = 1
    try:
        task()
        status = 0
    except BaseException:
        with open(log, "a", encoding="utf-8") as file:
            file.write(traceback.format_exc())
    finally:
        os._exit(status)


# --- the process that kills


@dataclass
class Outcome:
    """What happened to streams: kills, restarts by the state that they used, and faults."""

    kills: Counter[str] = field(default_factory=Counter)
    streams: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    restarts: Counter[str] = field(default_factory=Counter)
    damages: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def table(self) -> str:
        """Return the counts as text."""
        lines = [f"{'kind of stream':<24}{'streams':>9}{'kills':>9}{'results':>11}"]
        for name in self.streams:
            own = (self.streams[name], self.kills[name], self.rows[name])
            lines.append(f"{name:<24}{own[0]:>9,}{own[1]:>9,}{own[2]:>11,}")
        total = [sum(one.values()) for one in (self.streams, self.kills, self.rows)]
        lines.append(f"{'all':<24}{total[0]:>9,}{total[1]:>9,}{total[2]:>11,}")
        lines.append("restarts: " + ", ".join(f"{n:,} {what}" for what, n in sorted(self.restarts.items())))
        lines.append(
            "damaged states: " + ", ".join(f"{n:,} {what}" for what, n in sorted(self.damages.items()))
        )
        lines.append(f"{len(self.faults)} faults")
        return "\n".join(lines)


def run_stream(name: str, seed: int, outcome: Outcome, most_kills: int, most_pause_s: float = 0.25) -> None:
    """Run one stream to its end through kills, and compare its results with the answer for all rows.

    After ``most_kills`` kills, a process runs to the end.
    """
    most_kills += outcome.kills[name]
    random, frame = Random(f"kills {name} {seed}"), frame_of(seed)
    with tempfile.TemporaryDirectory() as path, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(path)
        for _ in range(_MOST_RESTARTS):
            state = _state_for_restart(name, folder, random, outcome)
            started = time.time_ns()
            child = fork(lambda state=state: work(name, frame, seed, folder, state), folder / "log")
            ended = status = 0
            if outcome.kills[name] < most_kills:
                _wait(folder, started, random)
                ended, status = os.waitpid(child, os.WNOHANG)
            else:
                ended, status = os.waitpid(child, 0)
            if not ended:
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                outcome.kills[name] += os.WIFSIGNALED(status)
            if (folder / "end").exists():
                break
            if os.WIFEXITED(status) and os.WEXITSTATUS(status):
                outcome.faults.append(f"{name}, seed {seed}\n{(folder / 'log').read_text()}")
                return
        else:
            outcome.faults.append(f"{name}, seed {seed}: no end after {_MOST_RESTARTS} starts")
            return
        outcome.streams[name] += 1
        fault = _compare(name, frame, folder, outcome)
        if fault:
            outcome.faults.append(f"{name}, seed {seed}: {fault}")


def _wait(folder: Path, started: int, random: Random) -> None:
    """Wait until a process has written the results of some batches, and a moment more."""
    wanted, end = random.choice([0, 1, 3, 6, 10]), time.monotonic() + _MOST_WAIT_S
    while time.monotonic() < end and not (folder / "end").exists():
        written = [path.stat().st_mtime_ns for path in folder.glob("*.results")]
        if sum(time_of > started for time_of in written) >= wanted:
            break
        time.sleep(0.002)
    time.sleep(random.choice([0, 0.002, 0.01, 0.03]) * random.random())


def _state_for_restart(name: str, folder: Path, random: Random, outcome: Outcome) -> Path | None:
    """Return the state to start from, now and then an old one; first, some damage to a copy must be said."""
    if not (folder / "state").exists():
        outcome.restarts["from the beginning"] += 1
        return None
    chosen, kind = folder / "state", "from the last state"
    if (folder / "old").exists() and random.random() < 0.2:
        shutil.copy(folder / "old", folder / "old.part")
        os.replace(folder / "old.part", chosen)
        kind = "from an old state"
    outcome.restarts[kind] += 1
    if random.random() < 0.5:
        damaged, what = folder / "damaged", random.choice([*DAMAGES])
        damaged.write_bytes(DAMAGES[what](chosen.read_bytes(), random))
        said = answer_to_damage(name, damaged)
        is_harmless = said == NO_ERROR and members_of(damaged) == members_of(chosen)
        outcome.damages["without effect" if is_harmless else "refused"] += 1
        if said is not None and not is_harmless:
            outcome.faults.append(f"{name}, {what}: {said}")
    return chosen


def _compare(name: str, frame: pd.DataFrame, folder: Path, outcome: Outcome) -> str | None:
    parts = [
        part
        for file in sorted(folder.glob("*.results"))
        for part in pickle.loads(file.read_bytes())
        if len(part)
    ]
    expected = KINDS[name].answer(frame)
    found = pd.concat(parts) if parts else expected.head(0)
    outcome.rows[name] += len(found)
    if len(expected) < 10:
        return f"only {len(expected)} results"
    found, expected = found[[*expected.columns]], expected.reset_index(drop=True)
    if not KINDS[name].in_order:
        numbers = ["match"] if "match" in expected else []
        found, expected = (_sorted(one.drop(columns=numbers)) for one in (found, expected))
    try:
        pd.testing.assert_frame_equal(found.reset_index(drop=True), expected, check_dtype=False)
    except AssertionError as error:
        return f"{len(found)} rows, expected {len(expected)}\n{error}"
    return None


def _sorted(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values([*frame.columns], ignore_index=True)


# --- damage


def _cut(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content))]


def _zeroed(content: bytes, random: Random) -> bytes:
    begin = random.randrange(len(content))
    end = min(len(content), begin + random.choice([16, 200, 4096]))
    return content[:begin] + bytes(end - begin) + content[end:]


def _replaced(content: bytes, random: Random) -> bytes:
    begin = random.randrange(len(content))
    end = min(len(content), begin + random.choice([16, 200, 4096]))
    return content[:begin] + random.randbytes(end - begin) + content[end:]


def _flipped(content: bytes, random: Random) -> bytes:
    made = bytearray(content)
    for _ in range(random.choice([1, 1, 3])):
        made[random.randrange(len(made))] ^= 1 << random.randrange(8)
    return bytes(made)


DAMAGES: dict[str, Callable[[bytes, Random], bytes]] = {
    "cut short": _cut,
    "zeros inside": lambda content, random: _zeroed(content, random),
    "random bytes inside": _replaced,
    "bits flipped": _flipped,
    "nothing but zeros": lambda content, _: bytes(len(content)),
    "random bytes": lambda content, random: random.randbytes(len(content)),
    "empty": lambda content, _: b"",
}


NO_ERROR = "no error"


def answer_to_damage(name: str, path: Path) -> str | None:
    """Return what is wrong with the answer to a damaged file; None if one short error says so."""
    try:
        load(name, path)
    except cep.CepError as error:
        return None if len(str(error)) < 600 else f"a text of {len(str(error))} characters"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return NO_ERROR


def members_of(content: Path) -> dict[str, bytes]:
    """Return the members of a state file by their names."""
    with zipfile.ZipFile(content) as members:
        return {name: members.read(name) for name in members.namelist()}


def write_members(path: Path, contents: dict[str, bytes]) -> None:
    """Write a state file of these members."""
    with zipfile.ZipFile(path, "w") as members:
        for name, content in contents.items():
            members.writestr(name, content)


def run(n_kills: int, seed: int = 0, kinds: Sequence[str] = (*KINDS,)) -> Outcome:
    """Run streams of all kinds in turn until there were enough kills, or a fault."""
    outcome, number = Outcome(), seed
    for name in kinds:  # what a fork needs is compiled and imported here
        frame = frame_of(0, 60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stream = KINDS[name].open(frame)
            for batch in schedule(name, frame, 0)[:3]:
                stream.push(**batch) if isinstance(batch, dict) else stream.push(batch)
            if "threads" not in name:
                KINDS[name].answer(frame)
            with tempfile.TemporaryDirectory() as folder:
                stream.save(Path(folder) / "state")
            with stream:
                pass
    while (left := n_kills - sum(outcome.kills.values())) > 0 and not outcome.faults:
        for name in kinds:
            run_stream(name, number, outcome, most_kills=min(-(-left // len(kinds)), MOST_KILLS))
        number += 1
    return outcome


def main() -> None:
    """Read the arguments, run, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", default=[*KINDS])
    given = parser.parse_args()
    outcome = run(given.kills, given.seed, given.kinds)
    print("\n\n".join(outcome.faults[:10]))
    print(outcome.table())
    sys.exit(bool(outcome.faults))


if __name__ == "__main__":
    main()
