"""The demo on the bundled peaks, and the commands that ``cepkit examples`` lists."""

from __future__ import annotations

import pandas as pd

from cepkit.api.matching import match
from cepkit.datasets import load_sample
from cepkit.language.regex import RegexQuery, regex_query

HEIGHT = 10  # lines of a drawing

_SHAPE = ". rise+ drop+ rise+ drop* deep"
_DEFINE = {
    "rise": "price > first(price) and price >= prev(price)",
    "drop": "price >= first(price) and price < prev(price)",
    "deep": "price < first(price) and price < prev(price)",
}


def m_shape() -> RegexQuery:
    """Return the query of an M: a price rises, drops, rises, and drops below its start."""
    return regex_query(
        _SHAPE, define=_DEFINE, partition_by="symbol", order_by="ts",
        measures={"start": "first(ts)", "rows": "count()", "low": "min(price)", "top": "max(price)"},
    )  # fmt: skip


def demo() -> str:
    """Search the bundled sample ``peaks`` and return the text that ``cepkit demo`` prints."""
    # It takes about a second, mostly to import packages and to compile the query.
    frame = load_sample("peaks")
    query = m_shape()
    matches = match(frame, query)
    tagged = matches.tag()
    lines = [
        f"{len(frame)} prices of two symbols, one per second, from cepkit.datasets.load_sample('peaks').",
        "Where do they form an M: rise, drop, rise, and drop below the start?", "",
        f"  pattern  {query.pattern}      ('.' is any row, here the first)",
        *(f"  {name:<7}  {expression}" for name, expression in query.define), "",
        f"{matches.count()} matches, in the order of their last row:", "", matches.to_frame().to_string(), "",
    ]  # fmt: skip
    for symbol, prices in tagged.groupby("symbol", observed=True):
        lines += [f"{symbol}, with the predicate of each matched row below:", "", *draw(prices), ""]
    lines += [_NEXT]
    return "\n".join(lines)


def draw(prices: pd.DataFrame, height: int = HEIGHT) -> list[str]:
    """Draw prices as text and return the lines. A row is two characters wide; matched rows are stars."""
    low, high = int(prices["price"].min()), int(prices["price"].max())
    step = max(1, high - low) / (height - 1)
    level = ((prices["price"] - low) / step).round().astype(int).tolist()
    matched = prices["match"].notna().tolist()
    lines = []
    for line in range(height - 1, -1, -1):
        marks = ("*" if m else "o" for m in matched)
        cells = "".join(f" {mark}" if at == line else "  " for at, mark in zip(level, marks, strict=True))
        lines.append(f"  {low + line * step:>5.0f} | {cells}")
    names = zip(prices["variable"], matched, strict=True)
    letters = "".join(f" {('D' if name == 'deep' else name[0]) if m else ' '}" for name, m in names)
    begins = prices["match"].where(matched).drop_duplicates().dropna()
    numbers = "".join(f" {begins[label]}" if label in begins else "  " for label in prices.index)
    lines += [f"        +-{'--' * len(level)}", f"          {letters}", f"  match   {numbers}"]
    return [line.rstrip() for line in lines]


_NEXT = f"""Letters: . the first row, r rise, d drop, D deep; * in a match, o in none. BOLT's last climb is no
M: its price never drops below its start.

The same from Python:

  import cepkit
  from cepkit.datasets import load_sample

  load_sample("peaks").cep.match(
      "{_SHAPE}",
      define={{"rise": "{_DEFINE["rise"]}",
              "drop": "{_DEFINE["drop"]}",
              "deep": "{_DEFINE["deep"]}"}},
      partition_by="symbol", order_by="ts", measures={{"top": "max(price)"}})

and on 20,000 trades of 40 symbols from the command line:

  cepkit match sample:trades "large up+ down" --partition-by symbol --order-by ts,seq \\
      --define "large=size > 1000" --define "up=price > prev(price)" --define "down=price < prev(price)"

`cepkit match --help` explains the rest. Replace sample:trades by your own Parquet or CSV file."""


# The commands that ``cepkit examples`` lists: each runs as it is, on a bundled sample.

_UP_DOWN = '--define "up=price > prev(price)" --define "down=price < prev(price)"'
_BY_SYMBOL = "--partition-by symbol --order-by ts,seq"
_PEAKS = "--partition-by symbol --order-by ts"

# What a command does, and the command.
EXAMPLES: tuple[tuple[str, str], ...] = (
    (
        "three drops in a row, then a rise, per symbol",
        f'cepkit match sample:trades "down{{3,}} up" {_UP_DOWN} {_BY_SYMBOL}',
    ),
    (
        "the same within two minutes, with result columns of your own",
        f'cepkit match sample:trades "down{{3,}} up" {_UP_DOWN} {_BY_SYMBOL} --within "2 min" '
        '--measure "at=first(ts)" --measure "rows=count()" --measure "low=min(price)"',
    ),
    (
        "a jump by more than a share that you can change",
        'cepkit match sample:trades "jump" --define "jump=price > (1 + :share) * prev(price)" '
        f"--param share=0.01 {_BY_SYMBOL}",
    ),
    (
        "the matched rows themselves",
        f'cepkit match sample:peaks "up{{3,}} down" {_UP_DOWN} {_PEAKS} --rows all',
    ),
    (
        "events in order, with others between them: a trade of AAA, then a dearer one of AAB within a second",
        'cepkit match sample:trades "PATTERN SEQ(AAA a, AAB b) WHERE b.price > a.price WITHIN 1 s" '
        "--event-type symbol --order-by ts,seq",
    ),
    (
        "the same, but no AAC may lie between them, and only the first dearer AAB counts",
        'cepkit match sample:trades "PATTERN SEQ(AAA a, !AAC c, AAB b) WHERE b.price > a.price WITHIN 1 s" '
        "--event-type symbol --order-by ts,seq --strategy next",
    ),
    (
        "SQL's MATCH_RECOGNIZE as it is, with the rows of its result: the lowest price of every fall",
        'cepkit match sample:peaks "SELECT symbol, low, n FROM peaks MATCH_RECOGNIZE (PARTITION BY symbol '
        "ORDER BY ts MEASURES LAST(down.price) AS low, COUNT(down.*) AS n PATTERN (down{2,} up) "
        'DEFINE down AS price < PREV(price), up AS price > PREV(price)) AS m WHERE n > 2"',
    ),
    (
        "how cepkit reads a query, and which engine runs it",
        f'cepkit explain sample:trades "down{{3,}} up" {_UP_DOWN} {_BY_SYMBOL}',
    ),
    (
        "all matches as CSV, for a pipe",
        f'cepkit match sample:peaks "up+ down" {_UP_DOWN} {_PEAKS} --format csv',
    ),
    (
        "the first three as JSON",
        f'cepkit match sample:trades "down{{3,}} up" {_UP_DOWN} {_BY_SYMBOL} --format json --limit 3',
    ),
    ("only the number of matches", f'cepkit match sample:trades "up down" {_UP_DOWN} {_BY_SYMBOL} --limit 0'),
)
