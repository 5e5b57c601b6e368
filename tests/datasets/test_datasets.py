"""The generators against the figures they imitate (G2: trades, G3: tweets), and the bundled samples."""

import re
from datetime import datetime
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit import datasets
from cepkit.cache import shipped
from cepkit.datasets import PAPER_TRADES, trades, tweets
from cepkit.datasets.trades import GAP_MEANS, GAP_PROBABILITY, symbol_names
from cepkit.errors import ColumnNotFoundError
from tests.support import raw_formats

# G2, trades of one day (ticks: the share of moves by 1, 2, 3 ticks).
G2_TOP_1, G2_TOP_10 = 0.20, 0.54
G2_SAME_TIME = 0.47
G2_MEAN_GAP_MS = 208.2
G2_GAP_MS = {0.50: 2, 0.75: 98, 0.95: 612, 0.99: 1829}
G2_SIZES = {0.25: 100, 0.50: 300, 0.75: 800, 0.95: 2000, 0.99: 4500}
G2_ROUND_LOTS, G2_SIZE_100, G2_SIZE_1000 = 0.84, 0.23, 0.204
G2_FLAT, G2_REVERSAL, G2_TICKS = 0.78, 0.62, {1: 0.68, 2: 0.16, 3: 0.08}
# G3, tweets.
G3_TWEETS_OF_AUTHOR = {1: 0.82, 2: 0.10, 3: 0.03, 4: 0.016}
G3_5_TO_10, G3_11_OR_MORE, G3_MOST = 0.025, 0.0075, 90
G3_TAG_COUNT = {0: 0.24, 1: 0.24, 2: 0.22, 3: 0.14, 4: 0.08, 5: 0.04}
G3_TOP_TAGS = (0.55, 0.13, 0.10, 0.07)
G3_CHARACTERS = {0.01: 44, 0.05: 67, 0.25: 112, 0.50: 124, 0.75: 130, 0.95: 130, 0.99: 134}
G3_SAME_TAGS = 0.255

SEEDS = [0, 1, 2]


M_SHAPE = {
    "rise": "price > first(price) and price >= prev(price)",
    "drop": "price >= first(price) and price < prev(price)",
    "deep": "price < first(price) and price < prev(price)",
}


def m_shapes(frame):
    """Return the first and last rows of the M shapes of each symbol, counted in its rows."""
    frame = frame.assign(row=frame.groupby("symbol", observed=True).cumcount())
    measures = {"first": "first(row)", "last": "last(row)"}
    return cep.match(
        frame, ". rise+ drop+ rise+ drop* deep", define=M_SHAPE, partition_by="symbol", measures=measures
    ).to_frame()


# ---------------------------------------------------------------- trades


def test_columns_of_trades():
    frame = trades(1000, seed=4)
    assert frame["seq"].tolist() == list(range(1000))
    assert frame["price"].min() >= 100 and frame["size"].min() >= 1
    assert frame["ts"].iloc[0] == pd.Timestamp("2012-01-03 09:30:00")


def test_a_knob_of_prices_changes_prices_only():
    frame, other = trades(2000, seed=5), trades(2000, seed=5, **PAPER_TRADES)
    same = [name for name in frame if frame[name].equals(other[name])]
    assert same == ["ts", "symbol", "size", "seq"]


@pytest.fixture(scope="module", params=SEEDS)
def day(request):
    """300,000 trades at the rate of the measured day."""
    return trades(300_000, seed=request.param, rate_hz=1000 / G2_MEAN_GAP_MS)


def test_shares_of_the_symbols(day):
    shares = day["symbol"].value_counts(normalize=True)
    assert shares.iloc[0] == pytest.approx(G2_TOP_1, abs=0.01)
    assert shares.iloc[:10].sum() == pytest.approx(G2_TOP_10, abs=0.01)
    assert shares.index[0] == "AAA" and (shares > 0).sum() == 390


def test_gaps_between_trades(day):
    gap_ms = day["ts"].diff().dropna() / pd.Timedelta(milliseconds=1)
    assert (gap_ms == 0).mean() == pytest.approx(G2_SAME_TIME, abs=0.015)
    assert gap_ms.mean() == pytest.approx(G2_MEAN_GAP_MS, rel=0.01)
    assert gap_ms[gap_ms > 0].min() >= 0.9  # hence no two orders in the same millisecond, by and large
    for probability, expected in G2_GAP_MS.items():
        # The distribution is steep at the median, where gaps of nought end.
        assert gap_ms.quantile(probability) == pytest.approx(expected, rel=0.35 if expected == 2 else 0.1)


def test_trades_of_one_time_are_of_one_symbol(day):
    same_time = day["ts"].diff().dt.total_seconds() == 0
    codes = day["symbol"].cat.codes.astype("int64")
    assert (codes.diff()[same_time] == 0).all()


def test_the_gaps_have_mean_one():
    step, log_gap = np.diff(GAP_PROBABILITY), np.diff(np.log(GAP_MEANS))
    assert (step * np.diff(GAP_MEANS) / log_gap).sum() == pytest.approx(1.0, abs=0.02)


def test_sizes(day):
    size = day["size"]
    for probability, expected in G2_SIZES.items():
        assert size.quantile(probability) == pytest.approx(expected, rel=0.1)
    assert (size % 100 == 0).mean() == pytest.approx(G2_ROUND_LOTS, abs=0.01)
    assert (size == 100).mean() == pytest.approx(G2_SIZE_100, abs=0.01)
    assert (size >= 1000).mean() == pytest.approx(G2_SIZE_1000, abs=0.015)


def test_moves_of_prices(day):
    change = day.groupby("symbol", observed=True)["price"].diff().dropna()
    assert (change == 0).mean() == pytest.approx(G2_FLAT, abs=0.01)
    assert (change > 0).mean() == pytest.approx((change < 0).mean(), abs=0.003)
    moves = change[change != 0]
    for ticks, expected in G2_TICKS.items():
        assert (moves.abs() == ticks).mean() == pytest.approx(expected, abs=0.01)
    assert (moves.abs() <= 10).mean() > 0.999  # the rest is reflected at the lowest price
    direction = np.sign(moves)
    before = direction.groupby(day["symbol"].loc[moves.index], observed=True).shift()
    assert (direction != before)[before.notna()].mean() == pytest.approx(G2_REVERSAL, abs=0.01)


@pytest.mark.parametrize("flat, reversal, one_tick", [(0.4, 0.5, 0.9), (0.9, 0.9, 0.5), (1.0, 0.62, 0.68)])
def test_the_knobs_of_prices_do_what_they_say(flat, reversal, one_tick):
    frame = trades(100_000, n_symbols=1, seed=6, flat=flat, reversal=reversal, one_tick=one_tick)
    change = frame["price"].diff().dropna()
    assert (change == 0).mean() == pytest.approx(flat, abs=0.01)
    if flat < 1:
        moves = change[change != 0]
        assert (moves.abs() == 1).mean() == pytest.approx(one_tick, abs=0.015)
        assert (np.sign(moves).diff().dropna() != 0).mean() == pytest.approx(reversal, abs=0.015)


def test_repetitions_shift_time_and_number_and_nothing_else():
    block, frame = trades(1000, n_symbols=20, seed=8), trades(1000, n_symbols=20, seed=8, repetitions=3)
    assert len(frame) == 3000 and frame["seq"].tolist() == list(range(3000))
    assert frame["ts"].is_monotonic_increasing
    for k in range(3):
        part = frame.iloc[1000 * k : 1000 * (k + 1)].reset_index(drop=True)
        shift = (part["ts"] - block["ts"]).unique()
        assert len(shift) == 1
        assert shift[0] / pd.Timedelta(seconds=1) == pytest.approx(k * 1000 / 1378, abs=1e-5)
        pd.testing.assert_frame_equal(part[["symbol", "price", "size"]], block[["symbol", "price", "size"]])


def test_the_block_of_the_paper():
    block = trades(10_000)
    assert block["symbol"].nunique() == 390
    period = trades(10_000, repetitions=2)["ts"].iloc[10_000] - block["ts"].iloc[0]
    assert (period * 1000).round("1min") == pd.Timedelta("2h 1min")


def test_more_symbols_than_two_bytes_hold():
    frame = trades(200_000, n_symbols=70_000, seed=1)
    assert frame["symbol"].nunique() == 70_000


def test_symbol_names_are_different_and_sorted():
    names = symbol_names(20_000)
    assert len(set(names)) == 20_000 and names == sorted(names)
    assert names[:2] == ["AAAA", "AAAB"] and symbol_names(1) == ["AAA"]


# ---------------------------------------------------------------- tweets


@pytest.fixture(scope="module", params=SEEDS)
def block(request):
    return tweets(seed=request.param)


def test_columns_of_tweets(block):
    assert block["ts"].is_unique
    assert block["id"].tolist() == list(range(1, 10_001))
    assert block["author"].nunique() == 6142


def test_tags_are_the_hash_tags_of_the_content(block):
    found = [
        " ".join(sorted(tag.lower() for tag in re.findall(r"#(\w+)", text))) for text in block["content"]
    ]
    assert found == block["tags"].tolist()
    assert any(re.search("#[A-Z]", text) for text in block["content"])


def test_tweets_of_an_author(block):
    n_tweets = block["author"].value_counts()
    for n, expected in G3_TWEETS_OF_AUTHOR.items():
        assert (n_tweets == n).mean() == pytest.approx(expected, abs=0.02)
    assert n_tweets.between(5, 10).mean() == pytest.approx(G3_5_TO_10, abs=0.01)
    assert (n_tweets >= 11).mean() == pytest.approx(G3_11_OR_MORE, abs=0.005)
    assert n_tweets.max() == pytest.approx(G3_MOST, rel=0.2)


def test_numbers_and_shares_of_tags(block):
    n_tags = block["tags"].str.split().str.len()
    for n, expected in G3_TAG_COUNT.items():
        assert (n_tags == n).mean() == pytest.approx(expected, abs=0.035)
    shares = block["tags"].str.split().explode().value_counts() / len(block)
    assert shares.iloc[:4].tolist() == pytest.approx(G3_TOP_TAGS, abs=0.025)
    assert shares.index[0] == "business"
    assert tweets(2000, n_authors=1500, untagged=0)["tags"].ne("").all()


def test_lengths_of_the_texts(block):
    length = block["content"].str.len()
    assert length.min() >= 44 and length.max() <= 134
    for probability, expected in G3_CHARACTERS.items():
        assert length.quantile(probability) == pytest.approx(expected, abs=3)


def test_stickiness_of_the_tags():
    def p_same(frame):
        before = frame.groupby("author", observed=True)["tags"].shift()
        return (frame["tags"] == before)[before.notna()].mean()

    assert p_same(tweets(stickiness=0)) == pytest.approx(G3_SAME_TAGS, abs=0.03)
    assert p_same(tweets(stickiness=1)) == 1


def test_repetitions_of_tweets_shift_time_and_number():
    block, frame = tweets(300, n_authors=200), tweets(300, n_authors=200, repetitions=2)
    again = frame.iloc[300:].reset_index(drop=True)
    assert frame["id"].tolist() == list(range(1, 601)) and frame["ts"].is_monotonic_increasing
    assert (again["ts"] - block["ts"]).unique().tolist() == [pd.Timedelta(seconds=198)]
    pd.testing.assert_frame_equal(again[["author", "content", "tags"]], block[["author", "content", "tags"]])


def test_twenty_blocks_last_as_long_as_the_papers():
    frame = tweets(repetitions=2)
    period = frame["ts"].iloc[10_000] - frame["ts"].iloc[0]
    assert period * 20 == pd.Timedelta("36h 40min")


def test_atom_xml_parses_back():
    frame = tweets(500, n_authors=300, seed=3)
    assert frame["content"].str.contains("&").any() and frame["content"].str.contains("<").any()
    entries = [ElementTree.fromstring(text) for text in datasets.tweets_as_atom_xml(frame)]
    assert [int(entry.findtext("id")) for entry in entries] == frame["id"].tolist()
    assert [entry.findtext("content") for entry in entries] == frame["content"].tolist()
    assert [entry.findtext("author/name") for entry in entries] == frame["author"].tolist()
    published = [datetime.strptime(entry.findtext("published"), "%Y-%m-%dT%H:%M:%S.%fZ") for entry in entries]
    assert pd.Series(published).astype("datetime64[us]").tolist() == frame["ts"].tolist()


def test_atom_xml_writes_zoned_times_in_utc_and_names_a_missing_column():
    frame = tweets(3, n_authors=2).assign(ts=lambda f: f["ts"].dt.tz_localize("Europe/Berlin"))
    assert "<published>2011-11-01T11:00:00.000Z</published>" in datasets.tweets_as_atom_xml(frame)[0]
    with pytest.raises(ColumnNotFoundError, match="'content' not found"):
        datasets.tweets_as_atom_xml(frame.drop(columns="content"))


# ---------------------------------------------------------------- raw texts


@pytest.mark.parametrize("seed", SEEDS)
def test_inet_lines_are_newest_first_and_not_padded(seed):
    lines = raw_formats.inet_lines(2000, symbol="ORCL", seed=seed)
    form = re.compile(r"ORCL (\d+) (\d+) (\d+)\.(\d\d)00 (\d\d):(\d\d):(\d\d)\.(0|[1-9]\d{0,2}) ([BS])")
    fields = [form.fullmatch(line).groups() for line in lines]
    number = [int(field[0]) for field in fields]
    assert number == sorted(set(number), reverse=True) and number[-1] >= 1 and number[0] <= 1_260_000
    ms = [((int(h) * 60 + int(m)) * 60 + int(s)) * 1000 + int(f) for *_, h, m, s, f, _ in fields]
    assert ms == sorted(ms, reverse=True)
    assert ms[-1] >= 7 * 3_600_000 and ms[0] < 20 * 3_600_000
    assert any(len(field[7]) < 3 for field in fields)
    side = np.array([field[-1] for field in fields])
    assert (side[1:] == side[:-1]).mean() == pytest.approx(0.85, abs=0.04)


@pytest.mark.parametrize("seed", SEEDS)
def test_eoddata_lines(seed):
    lines = raw_formats.eoddata_lines(800, seed=seed)
    rows = [line.split(",") for line in lines]
    assert {len(row) for row in rows} == {7}
    time = [datetime.strptime(row[1], "%Y%m%d%H%M") for row in rows]
    assert time == sorted(time)
    assert time[0] == datetime(2008, 2, 1, 9, 30) and time[-1] == datetime(2008, 2, 5, 9, 49)
    assert len({(row[0], row[1]) for row in rows}) == len(rows)
    opened, high, low, close, volume = np.array([[float(x) for x in row[2:]] for row in rows]).T
    assert (high >= np.maximum(opened, close)).all() and (low <= np.minimum(opened, close)).all()
    assert (opened == close).mean() == pytest.approx(0.34, abs=0.07)
    assert (volume % 100 == 0).mean() == pytest.approx(0.61, abs=0.02) and volume.min() > 0
    assert np.log(volume).mean() == pytest.approx(7.15, abs=0.15)
    assert not any(re.fullmatch(r"\d+\.\d*0", price) for row in rows for price in row[2:6])


@pytest.mark.parametrize("seed", SEEDS)
def test_nasdaq100_lines(seed):
    lines = raw_formats.nasdaq100_lines(1500, ("AAA", "BBB", "CCC"), seed=seed)
    assert lines[0] == "AAA,BBB,CCC" and len(lines) == 1501
    prices = np.array([[float(x) for x in line.split(",")] for line in lines[1:]])
    returns = np.diff(np.log(prices), axis=0)
    assert prices.shape == (1500, 3) and returns.std() == pytest.approx(6e-4, rel=0.1)
    assert (returns == 0).mean() == pytest.approx(0.136, abs=0.04)


# ---------------------------------------------------------------- samples


def test_the_samples_are_what_their_code_writes(tmp_path):
    for path in raw_formats.write_samples(tmp_path):
        bundled = shipped("sample_data", path.name)
        if path.suffix == ".parquet":
            pd.testing.assert_frame_equal(pd.read_parquet(bundled), pd.read_parquet(path))
        else:
            assert bundled.read_bytes() == path.read_bytes(), path.name


def test_the_samples_are_what_their_documented_calls_make():
    documented = re.findall(r"^``(\w+)`` \(``[\w.]+``\)\n    ``(\w+\(.*\))``", datasets.__doc__, re.MULTILINE)
    made = {name: eval(call, vars(datasets) | vars(raw_formats)) for name, call in documented}
    tables = {name: own for name, own in made.items() if isinstance(own, pd.DataFrame)}
    assert list(tables) == ["trades", "tweets", "peaks"]
    for name, table in tables.items():
        pd.testing.assert_frame_equal(datasets.load_sample(name), table)
    texts = {
        name: datasets.sample(name).read_text("utf-8").splitlines() for name in made if name not in tables
    }
    assert {"inet", "eoddata", "nasdaq100", "atom"} == set(texts)
    for name, lines in texts.items():
        missing = [line for line in made[name] if line not in lines]
        assert len(missing) <= 3, "but for the faults"


def test_the_samples_are_small():
    folder = datasets.sample("trades").parent
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 1_000_000


def test_load_sample():
    tables = {name: datasets.load_sample(name) for name in ("trades", "tweets", "peaks")}
    assert {name: len(table) for name, table in tables.items()} == {
        "trades": 20_000,
        "tweets": 6_000,
        "peaks": 60,
    }
    assert all(str(table["ts"].dtype) == "datetime64[us]" for table in tables.values())
    pd.testing.assert_frame_equal(tables["peaks"], raw_formats.peaks(), check_categorical=False)


def test_samples_have_m_shapes():
    """Those of the peaks are where their docstring says; those of trades are in many symbols."""
    found = m_shapes(raw_formats.peaks())
    assert {*found.itertuples(index=False, name=None)} == {("ACME", 0, 15), ("ACME", 16, 29), ("BOLT", 0, 13)}
    found = m_shapes(datasets.load_sample("trades"))
    assert len(found) > 100 and found["symbol"].nunique() > 20


def test_the_raw_samples_have_the_faults_that_are_told():
    inet = datasets.sample("inet").read_text(encoding="utf-8").splitlines()
    good = re.compile(r"MSFT \d+ \d+ \d+\.\d{4} ([01]\d|2[0-3]):\d\d:\d\d\.\d{1,3} [BS]")
    assert len(inet) == 405
    assert sum(good.fullmatch(line) is None for line in inet) == 4 and len(set(inet)) == 404
    eoddata = datasets.sample("eoddata").read_text(encoding="utf-8").splitlines()
    good = re.compile(r"[A-Z]+,200802\d{6}(,\d+(\.\d+)?){4},\d+")
    assert (
        sum(good.fullmatch(line) is None for line in eoddata) == 3 + 1
        and len(eoddata) - len(set(eoddata)) == 1
    )
    header, *rows = datasets.sample("nasdaq100").read_text(encoding="utf-8").splitlines()
    good = re.compile(r"\d+\.\d+(,\d+\.\d+){9}")
    assert header.count(",") == 9 and sum(good.fullmatch(row) is None for row in rows) == 3
    feed = ElementTree.parse(datasets.sample("atom")).getroot()
    entries = feed.findall("{*}entry")
    assert len(entries) == 51 and len({entry.findtext("{*}id") for entry in entries}) == 50
    assert sum(entry.find("{*}author") is None for entry in entries) == 1
    assert sum("-11-31T" in entry.findtext("{*}published") for entry in entries) == 1


def test_unknown_samples_are_named_with_those_there_are():
    with pytest.raises(
        datasets.SampleNotFoundError, match=r"'trade' not found\. Did you mean 'trades'.*'atom'"
    ):
        datasets.sample("trade")
    with pytest.raises(datasets.SampleNotFoundError, match=r"raw text.*'peaks'"):
        datasets.load_sample("inet")
    with pytest.raises(FileNotFoundError, match=r"sample_data/none\.csv is missing; looked at .*_data"):
        shipped("sample_data", "none.csv")
