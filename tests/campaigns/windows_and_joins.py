"""Windows and joins on random rows: in one frame, and in streams that are saved on the way."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd

import cepkit as cep
from tests.campaigns.tally import KERNELS, Tally, cuts_of
from tests.support.window_cases import (
    found_by_join,
    join_result,
    joined,
    plain,
    random_join_case,
    random_window_case,
    rows_of,
)

SCHEMA = {"ts": "int64", "x": "float64", "k": "int64", "g": "string"}


def check_windows(seed: int, n_streams: int, tally: Tally, *, compiled: bool = False) -> None:
    """Compare random windows, each on rows of its own."""
    for number in range(n_streams):
        own = n_streams * seed + number
        case, random = random_window_case(10**6 + own), Random(own)
        names = [*SCHEMA, *dict(case.window.aggregates)] + ["status"] * (case.window.emit == "all")
        expected = {0: plain(case.expected, names)}

        def say(_: int, case: Any = case, own: int = own) -> str:
            return f"random_window_case({10**6 + own})\n{case.window!r}\n{rows_of(case.frame)}"

        tally.add("windows", [*expected.values()])
        found = rows_of(cep.window(case.frame, case.window))
        tally.compare("windows", "frame", KERNELS, expected, {0: plain(found, names)}, say)
        frame = case.frame
        if case.window.order_by:
            frame = frame.sort_values("ts", kind="stable")
        stream = cep.stream(case.window, SCHEMA)
        rows = _pushed(
            stream, [frame.iloc[slice(*bounds)] for bounds in cuts_of(random, len(frame), 3)], random
        )
        tally.compare("windows", "stream", KERNELS, expected, {0: plain(rows, names)}, say)


def check_joins(seed: int, n_streams: int, tally: Tally, *, compiled: bool = False) -> None:
    """Compare random joins, each on rows of its own."""
    for number in range(n_streams):
        own = n_streams * seed + number
        case, random = random_join_case(10**6 + own), Random(own)
        expected = {0: join_result(case)}

        def say(_: int, case: Any = case, own: int = own) -> str:
            sides = f"{rows_of(case.left)}\n{rows_of(case.right)}"
            return f"random_join_case({10**6 + own})\n{case.join!r}\n{sides}"

        tally.add("joins", [*expected.values()])
        found = found_by_join(joined(case), case.join)
        tally.compare("joins", "frame", KERNELS, expected, {0: found}, say)
        batches = []
        for side in ("left", "right"):
            frame = getattr(case, side).sort_values("ts", kind="stable")
            batches.append([{side: frame.iloc[slice(*b)]} for b in cuts_of(random, len(frame), 3)])
        mixed = []
        while any(batches):
            mixed.append(random.choice([own for own in batches if own]).pop(0))
        stream = cep.stream(case.join, {"left": SCHEMA, "right": SCHEMA})
        frame = pd.DataFrame(_pushed(stream, mixed, random))
        tally.compare("joins", "stream", KERNELS, expected, {0: found_by_join(frame, case.join)}, say)


def _pushed(stream: Any, batches: list[Any], random: Random) -> list[dict[str, Any]]:
    rows = []
    save_at = random.randrange(4 * len(batches))  # one of four streams is saved
    for number, batch in enumerate(batches):
        if number == save_at:
            with tempfile.TemporaryDirectory() as folder:
                stream.save(Path(folder) / "state")
                stream = cep.stream.load(Path(folder) / "state")
        rows += rows_of(stream.push(**batch) if isinstance(batch, dict) else stream.push(batch))
    return rows + rows_of(stream.close())
