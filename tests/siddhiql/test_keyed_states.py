"""A state whose filter needs an equality asks only the partial matches with the key of its event."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.siddhiql.states import WaitingState

PATTERNS = {
    "two states": "every e1=S[x < 6] -> e2=S[{k} and x > 4]",
    "three states": "every e1=S[x < 6] -> e2=S[{k}] -> e3=S[e1.x < x and {again}]",
    "every in the middle": "e1=S[x < 6] -> every e2=S[{k}] -> e3=S[{k}]",
    "every around two": "every (e1=S[x < 6] -> e2=S[{k}]) -> e3=S[{again}]",
    "after a count": "every e1=S[x < 6] -> c=S[x > 2]<1:2> -> e2=S[{k}]",
    "after and": "every (e1=S[x < 6] and e0=S[x > 7]) -> e2=S[{k}]",
    "after or": "every (e1=S[x < 6] or e0=S[x > 7]) -> e2=S[{k}]",
    "before a wait": "every e1=S[x < 6] -> e2=S[{k}] -> not S[x > 8] for 2 sec",
}
EQUAL, SAME = "k == e1.k", "(k <= e1.k and k >= e1.k)"  # the second one has no key


def stream(seed: int, n: int = 120, n_keys: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    times = pd.Timestamp("2024-01-31") + pd.to_timedelta(np.arange(n), unit="s")
    keys = pd.array(rng.integers(0, n_keys, n), "Int64")
    keys[rng.random(n) < 0.1] = pd.NA
    return pd.DataFrame({"ts": times, "k": keys, "x": rng.integers(0, 10, n)})


def matches(frame: pd.DataFrame, pattern: str, condition: str, within: str) -> pd.DataFrame:
    names = [name for name in ("e0", "e1", "e2", "e3") if f"{name}=" in pattern]
    shown = ", ".join(f"{name}.ts as {name}_ts" for name in names)
    filled = pattern.format(k=condition, again=condition.replace("e1.", "e2."))
    text = f"from {filled}{within} select {shown} insert into Out"
    return cep.siddhi(text, S=frame, order_by="ts").to_frame()


@pytest.mark.parametrize("within", ["", " within 9 sec"])
@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("seed", range(5))
def test_keys_change_no_match(name: str, within: str, seed: int) -> None:
    frame = stream(seed)
    found = matches(frame, PATTERNS[name], EQUAL, within)
    pd.testing.assert_frame_equal(found, matches(frame, PATTERNS[name], SAME, within))


def test_the_patterns_match() -> None:
    assert all(len(matches(stream(0), pattern, EQUAL, "")) for pattern in PATTERNS.values())


@pytest.mark.parametrize("kind", ["text", "truth", "two keys"])
def test_keys_of_other_types(kind: str) -> None:
    frame = stream(3).dropna()
    names = np.array(["a", "b", "c", "d", "e"])[frame["k"].astype(int)]
    frame["k"] = {"text": names, "truth": names < "c", "two keys": frame["k"]}[kind]
    equal, same = "k == e1.k", "not (k != e1.k)"
    if kind == "two keys":
        frame["j"] = names
        equal, same = "e1.j == j and k == e1.k", "not (j != e1.j) and not (k != e1.k)"
    found = matches(frame, PATTERNS["two states"], equal, "")
    assert len(found) > 10
    pd.testing.assert_frame_equal(found, matches(frame, PATTERNS["two states"], same, ""))


def test_an_event_asks_few_partial_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, check = [0], WaitingState.check

    def counting(self: WaitingState, partial: object) -> None:
        asked[0] += 1
        check(self, partial)

    monkeypatch.setattr(WaitingState, "check", counting)
    frame, calls = stream(1, n=600, n_keys=100), []
    for condition in (EQUAL, SAME):
        asked[0] = 0
        matches(frame, PATTERNS["two states"], condition, " within 200 sec")
        calls.append(asked[0])
    assert calls[0] * 10 < calls[1]
