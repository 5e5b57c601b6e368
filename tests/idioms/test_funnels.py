"""Funnels of users equal the oracle, which tries all choices of rows, and the matches of sequences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, CepWarning, UnsupportedQueryError
from tests.oracle import idioms as oracle
from tests.support.sizes import seeds

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
        assert found.to_frame()["step"].tolist() == steps
        assert found.to_frame()["reached"].tolist() == reached, (steps, settings)
        assert found.to_frame()["lost"].tolist() == (-np.diff([len(wanted), *reached])).tolist()


@pytest.mark.filterwarnings("ignore:no row has the event type")
@pytest.mark.parametrize("seed", seeds(3, 10))
def test_funnels_with_rules_between_steps_equal_the_oracle(seed, full):
    """Exclusions, optional steps, a window for each step, and steps in any order."""
    for case in range(500 if full else 20):
        rng = np.random.default_rng([seed, case, 7])
        frame = random_frame(rng, int(rng.integers(1, 22)))
        mode = str(rng.choice(["any", "strict", "any order"], p=[0.6, 0.1, 0.3]))
        n = int(rng.integers(2, 5))
        names = [str(name) for name in rng.choice(KINDS, n)]
        within = int(rng.integers(0, 20)) if rng.random() < 0.4 else None
        texts, steps, limits = [names[0]], [(is_kind(names[0]), False, [], None)], []
        for place, name in enumerate(names[1:], 1):
            excluded, is_optional, limit = [], False, None
            if mode != "any order":
                was_optional = steps[-1][1]
                if rng.random() < 0.3 and not was_optional:
                    excluded = [str(rng.choice(KINDS))]
                elif rng.random() < 0.4 and place < n - 1:
                    is_optional = True
                if within is None and rng.random() < 0.5:
                    limit = int(rng.integers(0, 12))
            limits.append(limit)
            texts += [f"!{kind}" for kind in excluded] + [name + "?" * is_optional]
            steps.append((is_kind(name), is_optional, [is_kind(kind) for kind in excluded], limit))
        settings = {"mode": mode, "event_type": "kind", "partition_by": "user", "order_by": "ts"}
        settings["within"] = limits if any(limit is not None for limit in limits) else within
        wanted = oracle.reached(frame.to_dict("records"), steps, "user", "ts", mode, within)
        found = cep.funnel(frame, texts, **settings)
        assert found.to_frame()["reached"].tolist() == wanted, (texts, settings)
        check_times_and_groups(frame, texts, steps, settings, within)


def check_times_and_groups(frame, texts, steps, settings, within):
    """Compare the funnel of each group, and the quantiles of its times, with those of the oracle."""
    mode = settings["mode"]
    users = oracle.conversions(frame.to_dict("records"), steps, "user", "ts", mode, within, "amount")
    found = cep.funnel(frame, texts, by="amount", **settings)
    table = found.to_frame()
    groups = sorted({group for group, _ in users})
    assert table["amount"].dropna().unique().tolist() == groups
    assert found.count().n == sum(times[-1] is not None for _, times in users)
    if mode == "any order" or not groups:
        return
    quantiles = {tuple(row[:3]): row for row in found.times([0.3, 1]).itertuples(index=False)}
    for group in groups:
        of_group = [times for value, times in users if value == group]
        rows = table[table["amount"] == group].to_dict("records")
        for i, (text, row) in enumerate(zip([t for t in texts if t[0] != "!"], rows, strict=True)):
            reached = [times[i] for times in of_group if times[i] is not None]
            assert (row["step"], row["reached"]) == (text, len(reached)), (texts, settings)
            if not i or not reached:
                continue
            for name, values in zip(("from_first", "from_previous"), zip(*reached, strict=True), strict=True):
                assert row[name] == np.quantile(values, 0.5), (texts, settings)
                if texts.count(text) == 1:
                    row_of = {share: getattr(quantiles[group, text, share], name) for share in (0.3, 1.0)}
                    assert row_of == {0.3: pytest.approx(np.quantile(values, 0.3)), 1.0: max(values)}


def test_the_funnel_of_product_analysts():
    # PostHog 25492 and 4992, ClickHouse 63732: how long conversions take, and where users differ.
    minutes = [0, 3, 9, 0, 20, 0, 1, 2, 50]
    clicks = pd.DataFrame({
        "user": [1, 1, 1, 2, 2, 3, 3, 3, 3],
        "ts": pd.Timestamp("2026") + pd.to_timedelta(minutes, unit="min"),
        "kind": ["view", "cart", "buy", "view", "cart", "view", "cart", "remove", "buy"],
        "device": list("aaabbcccc"),
    })  # fmt: skip
    settings = {"event_type": "kind", "partition_by": "user", "order_by": "ts", "within": "1 h"}
    found = clicks.cep.funnel(["view", "cart", "buy"], **settings)
    table = found.to_frame()
    assert table["from_first"].iloc[1:].tolist() == [pd.Timedelta("3 min"), pd.Timedelta("29.5 min")]
    assert table["from_previous"].iloc[2] == pd.Timedelta("27.5 min")
    assert found.users.shown()["from_previous"].tolist() == ["", "3 min", "27 min 30 s"]
    assert "buy        2     1    66.7%" in repr(found) and "66.7%" in found._repr_html_()
    assert found.plot().data[0].text[2] == "2 (66.7%)"
    assert found.words() == ["2 of 3 users reach the last step (66.7%); most are lost before buy: 1"]
    by_device = clicks.cep.funnel(["view", "cart", "buy"], by="device", **settings)
    assert by_device.to_frame()["reached"].tolist() == [1, 1, 1, 1, 1, 0, 1, 1, 1]
    assert [trace.name for trace in by_device.plot().data] == ["a", "b", "c"]
    with pytest.raises(CepError, match="by='device' is for a list of steps"):
        clicks.cep.funnel("PATTERN SEQ(view a, buy b)", event_type="kind", by="device")
    with pytest.raises(CepError, match="by='step': expected a column"):
        clicks.cep.funnel(["view", "buy"], by="step", **settings)
    with pytest.raises(CepError, match="devise"):
        clicks.cep.funnel(["view", "buy"], by="devise", **settings)
    with pytest.raises(CepError, match=r"quantiles=\[50\]: expected shares from 0 to 1"):
        found.times([50])
    with pytest.raises(CepError, match="a funnel has times if order_by names a clock"):
        clicks.cep.funnel(["view", "buy"], event_type="kind", partition_by="user").times()


def test_an_optional_step_is_no_condition_of_the_next():
    clicks = pd.DataFrame({"user": list("aaabb"), "kind": ["view", "coupon", "buy", "view", "buy"]})
    found = clicks.cep.funnel(["view", "coupon?", "buy"], event_type="kind", partition_by="user")
    assert found.to_frame()["step"].tolist() == ["view", "coupon?", "buy"]
    assert found.to_frame()[["reached", "lost", "share_of_previous"]].values.tolist() == [
        [2, 0, 1],
        [1, 1, 0.5],
        [2, 0, 1],
    ]


def test_steps_and_exclusions_may_be_conditions():
    rows = pd.DataFrame({"user": list("aaabbb"), "x": [1, 5, 9, 1, 0, 9]})
    found = rows.cep.funnel(["x = :a", "!x = 0", "x = 9"], partition_by="user", params={"a": 1})
    assert found.to_frame()["reached"].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("steps", "more", "message"),
    [
        (["!help", "view", "cart"], {}, "no step is before it"),
        (["view", "cart", "!help"], {}, "no step is after it"),
        (["view", "cart?"], {}, "the first and the last step"),
        (["view", "!help", "cart?", "buy"], {}, "beside an optional step"),
        (["view", "cart?", "!help", "buy"], {}, "beside an optional step"),
        (["view", "cart"], {"within": ["1 h", "2 h"]}, "1 for 2 steps"),
        (["view", "!help", "cart"], {"mode": "any order"}, "have no meaning"),
    ],
)
def test_rules_of_a_funnel_that_do_not_fit(steps, more, message):
    frame = random_frame(np.random.default_rng(1), 5)
    with pytest.raises(CepError, match=message):
        cep.funnel(frame, steps, event_type="kind", partition_by="user", order_by="ts", **more)


@pytest.mark.parametrize("types", ["int64", "int8", "Int64"])
def test_steps_may_be_numbers(types):
    frame = pd.DataFrame({"user": [1, 1, 1, 2, 2], "ts": range(5), "kind": [3, 1, 5, 3, 3]})
    found = cep.funnel(frame.astype({"kind": types}), [3, 1, 5], event_type="kind", partition_by="user",
                       order_by="ts")  # fmt: skip
    assert found.to_frame()["step"].tolist() == ["3", "1", "5"] and found.to_frame()["reached"].tolist() == [
        2,
        1,
        1,
    ]


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
        assert found.to_frame()["reached"].iloc[-1] == of["user"].nunique()


def test_a_repeated_first_step_does_not_hide_a_success():
    # ClickHouse/ClickHouse 27469 and 37177: the event that repeats a step ended the count there.
    clicks = pd.DataFrame({"user": "u", "kind": ["install", "start", "install", "start", "login"]})
    for mode in ("any", "strict"):
        found = clicks.cep.funnel(
            ["install", "start", "login"], mode=mode, event_type="kind", partition_by="user"
        )
        assert found.to_frame()["reached"].tolist() == [1, 1, 1]


def test_one_row_is_one_step():
    # ClickHouse/ClickHouse 21835: one event counted for two steps.
    clicks = pd.DataFrame({"user": ["u"], "kind": ["view"]})
    found = clicks.cep.funnel(["view", "view"], event_type="kind", partition_by="user")
    assert found.to_frame()["reached"].tolist() == [1, 0]


def test_funnels_on_spark_equal_pandas(spark, full):
    """Each user has random rows, so that it is a frame of its own."""
    n_users = 5000 if full else 100
    frame = random_frame(np.random.default_rng(2), 8 * n_users)
    frame["user"] = np.random.default_rng(3).integers(0, n_users, len(frame))
    frame["ts"] = pd.Timestamp("2024-01-31") + pd.to_timedelta(frame["ts"], unit="min")
    on_spark = spark.createDataFrame(frame.astype({"kind": object}))
    for mode, steps, event_type in (
        ("any", ["view", "cart", "buy"], "kind"),
        ("strict", ["amount > 0", "amount > prev(amount)"], None),
        ("any", ["view", "!help", "cart", "help?", "buy"], "kind"),
        ("any order", ["view", "cart", "buy"], "kind"),
    ):
        settings = {
            "mode": mode, "within": "1 h", "event_type": event_type, "partition_by": "user", "order_by": "ts",
        }  # fmt: skip
        for by in (None, "amount"):
            found, wanted = (cep.funnel(of, steps, by=by, **settings) for of in (on_spark, frame))
            pd.testing.assert_frame_equal(found.to_frame(), wanted.to_frame(), check_dtype=False)
            if mode != "any order":
                pd.testing.assert_frame_equal(found.times(), wanted.times(), check_dtype=False)


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
    with pytest.raises(CepError, match=r"step: column 'view' not found\..* event_type='kind'"):
        cep.funnel(frame, ["view", "cart"], partition_by="user")
    with pytest.raises(UnsupportedQueryError, match="without event_type a step is a condition"):
        cep.funnel(frame, [1, 2], partition_by="user")
    with pytest.warns(CepWarning, match=r"no row has the event type 'veiw'.*Did you mean 'view'"):
        cep.funnel(frame.assign(kind="view"), ["view", "veiw"], **known)
    with pytest.raises(CepError, match=r"'define'.: a funnel of steps takes"):
        cep.funnel(frame, ["view", "cart"], define={"a": "amount > 1"}, **known)
