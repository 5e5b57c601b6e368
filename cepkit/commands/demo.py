"""The demo: run a query on the bundled peaks and draw its matches as text."""

from __future__ import annotations

import pandas as pd

from cepkit.api.matching import match
from cepkit.datasets import load_sample
from cepkit.language.regex.construction import regex_query
from cepkit.language.regex.query import RegexQuery

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
        _SHAPE,
        define=_DEFINE,
        partition_by="symbol",
        order_by="ts",
        measures={"start": "first(ts)", "rows": "count()", "low": "min(price)", "top": "max(price)"},
    )


def demo() -> str:
    """Search the bundled sample ``peaks`` and return the text that ``cepkit demo`` prints.

    It takes about a second, mostly to import packages and to compile the query.
    """
    frame = load_sample("peaks")
    query = m_shape()
    matches = match(frame, query)
    tagged = matches.tag()
    lines = [
        f"{len(frame)} prices of two symbols, one per second, from cepkit.datasets.load_sample('peaks').",
        "Where do they form an M: rise, drop, rise, and drop below the start?",
        "",
        f"  pattern  {query.pattern}      ('.' is any row, here the first)",
        *(f"  {name:<7}  {expression}" for name, expression in query.define),
        "",
        f"{matches.count()} matches, in the order of their last row:",
        "",
        matches.to_frame().to_string(),
        "",
    ]
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
    letters = "".join(f" {_letter(name) if m else ' '}" for name, m in names)
    begins = prices["match"].where(matched).drop_duplicates().dropna()
    numbers = "".join(f" {begins[label]}" if label in begins else "  " for label in prices.index)
    lines += [f"        +-{'--' * len(level)}", f"          {letters}", f"  match   {numbers}"]
    return [line.rstrip() for line in lines]


def _letter(name: str) -> str:
    return "D" if name == "deep" else name[0]


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
