"""Funnels of users equal the oracle, which tries all choices of rows, and the matches of sequences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, CepWarning, UnsupportedQueryError
from tests.oracle import idioms as oracle

KINDS = ("view", "cart", "buy", "help")


def random_frame(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "user": rng.choice(["u", "v", "w"], n),
            "kind": rng.choice(KINDS, n),
            "amount": rng.integers(0, 4, n),
            "ts": rng.permutation(2 * n)[:n],
        }
    )


def is_kind(kind):
    return lambda row: row["kind"] == kind


def counts(levels, n_steps):
    return [sum(level >= n for level in levels.values()) for n in range(1, n_steps + 1)]


@pytest.mark.parametrize("seed", range(10))
def test_funnels_equal_the_oracle(seed, full):
    for case in range(100 if full else 8):
        rng = np.random.default_rng([seed, case])
        frame = random_frame(rng, int(rng.integers(1, 22)))
        mode = str(rng.choice(["any", "strict"]))
        within = int(rng.integers(1, 20)) if rng.random() < 0.6 else None
        closed = bool(rng.random() < 0.5)
        settings = {
            "mode": mode, "within": within, "within_closed": closed, "partition_by": "user", "order_by": "ts",
        }  # fmt: skip
        rows = frame.to_dict("records")
        names = [str(name) for name in rng.choice(KINDS[:3], int(rng.integers(2, 4)))]
        if rng.random() < 0.5:
            steps, tests = names, [is_kind(name) for name in names]
            settings["event_type"] = "kind"
        else:
            least = [int(x) for x in rng.integers(0, 3, len(names))]
            steps = [f"amount > {x}" for x in least]
            tests = [lambda row, x=x: row["amount"] > x for x in least]
        wanted = oracle.levels(rows, tests, "user", "ts", mode, within, closed)
        of = frame if rng.random() < 0.5 else pa.Table.from_pandas(frame)
        with (
            pytest.warns(CepWarning)
            if set(names) - set(frame.kind) and "event_type" in settings
            else nothing()
        ):
            found = cep.funnel(of, steps, **settings)
        reached = counts(wanted, len(steps))
        assert found["step"].tolist() == steps
        assert found["reached"].tolist() == reached, (steps, settings)
        assert found["lost"].tolist() == (-np.diff([len(wanted), *reached])).tolist()


@pytest.mark.parametrize("types", ["int64", "int8", "Int64"])
def test_steps_may_be_numbers(types):
    frame = pd.DataFrame({"user": [1, 1, 1, 2, 2], "ts": range(5), "kind": [3, 1, 5, 3, 3]})
    found = cep.funnel(frame.astype({"kind": types}), [3, 1, 5], event_type="kind", partition_by="user",
                       order_by="ts")  # fmt: skip
    assert found["step"].tolist() == ["3", "1", "5"] and found["reached"].tolist() == [2, 1, 1]


class nothing:
    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


def test_a_step_is_reached_by_those_with_a_match_of_the_steps_so_far():
    frame = random_frame(np.random.default_rng(8), 60)
    for mode, strategy in (("any", "any"), ("strict", "partition")):
        found = cep.funnel(
            frame,
            list(KINDS[:3]),
            mode=mode,
            within=30,
            event_type="kind",
            partition_by="user",
            order_by="ts",
        )
        text = "PATTERN SEQ(view a, cart b, buy c) WITHIN 30"
        of = frame.cep.match(
            text, strategy=strategy, event_type="kind", partition_by="user", order_by="ts"
        ).to_frame()
        assert found["reached"].iloc[-1] == of["user"].nunique()


def test_a_repeated_first_step_does_not_hide_a_success():
    # ClickHouse/ClickHouse 27469 and 37177: the event that repeats a step ended the count there.
    clicks = pd.DataFrame({"user": "u", "kind": ["install", "start", "install", "start", "login"]})
    for mode in ("any", "strict"):
        found = clicks.cep.funnel(
            ["install", "start", "login"], mode=mode, event_type="kind", partition_by="user"
        )
        assert found["reached"].tolist() == [1, 1, 1]


def test_one_row_is_one_step():
    # ClickHouse/ClickHouse 21835: one event counted for two steps.
    clicks = pd.DataFrame({"user": ["u"], "kind": ["view"]})
    found = clicks.cep.funnel(["view", "view"], event_type="kind", partition_by="user")
    assert found["reached"].tolist() == [1, 0]


def test_funnels_on_spark_equal_pandas(spark):
    frame = random_frame(np.random.default_rng(2), 200)
    frame["user"] = np.random.default_rng(3).integers(0, 25, len(frame))
    frame["ts"] = pd.Timestamp("2024-01-31") + pd.to_timedelta(frame["ts"], unit="min")
    on_spark = spark.createDataFrame(frame.astype({"kind": object}))
    for mode, steps, event_type in (
        ("any", ["view", "cart", "buy"], "kind"),
        ("strict", ["amount > 0", "amount > prev(amount)"], None),
    ):
        settings = {
            "mode": mode, "within": "1 h", "event_type": event_type, "partition_by": "user", "order_by": "ts",
        }  # fmt: skip
        pd.testing.assert_frame_equal(
            cep.funnel(on_spark, steps, **settings), cep.funnel(frame, steps, **settings)
        )


def test_mistakes_are_said_at_once():
    frame = random_frame(np.random.default_rng(1), 5)
    known = {"event_type": "kind", "partition_by": "user"}
    with pytest.raises(CepError, match=r"mode='strictly'. Did you mean 'strict'"):
        cep.funnel(frame, ["view", "cart"], mode="strictly", **known)
    with pytest.raises(CepError, match="name their column, as in partition_by='user'"):
        cep.funnel(frame, ["view", "cart"], event_type="kind")
    with pytest.raises(CepError, match="two or more steps, got 1"):
        cep.funnel(frame, ["view"], **known)
    with pytest.raises(CepError, match="within='1 day' needs a clock"):
        cep.funnel(frame, ["view", "help"], within="1 day", **known)
    with pytest.raises(UnsupportedQueryError, match="without event_type a step is a condition"):
        cep.funnel(frame, [1, 2], partition_by="user")
    with pytest.warns(CepWarning, match=r"no row has the event type 'veiw'.*Did you mean 'view'"):
        cep.funnel(frame.assign(kind="view"), ["view", "veiw"], **known)
    with pytest.raises(CepError, match=r"'define'.: a funnel of steps takes"):
        cep.funnel(frame, ["view", "cart"], define={"a": "amount > 1"}, **known)
