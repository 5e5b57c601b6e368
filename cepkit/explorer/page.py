"""A stand-alone page of an explorer: one HTML file with its style and pictures in it."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from cepkit.explorer.table.texts import columns_of
from cepkit.insight.value_text import cell
from cepkit.plots.stills.png import without_controls

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0; --paper: #fff;
  --tint: #f6f8fa; --good: #00734f; --bad: #b8420a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --line: #3d444d;
  --paper: #111; --tint: #1b1f24; --good: #3ccf9e; --bad: #ff9b6b; } }
* { box-sizing: border-box; }
body { max-width: 860px; margin: 0 auto; padding: 32px 24px 48px; background: var(--paper); color: var(--ink);
  --jp-content-font-color1: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { margin: 0 0 4px; font-size: 22px; line-height: 1.3; }
h2 { margin: 28px 0 8px; font-size: 15px; }
p { margin: 0 0 8px; }
.soft { color: var(--soft); }
figure { overflow-x: auto; margin: 16px 0 0; }
figure svg { display: block; width: 100%; height: auto; }
pre { overflow-x: auto; margin: 0; padding: 12px 14px; border: 1px solid var(--line); border-radius: 6px;
  background: var(--tint); font: 13px/1.5 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); text-align: left;
  white-space: nowrap; }
th { font-weight: 600; }
.right { text-align: right; }
ul { margin: 0; padding: 0; list-style: none; }
.kept { color: var(--good); }
.lost { color: var(--bad); }
"""
# The page loads nothing: the policy forbids scripts and all addresses except the pictures in it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class PageParts:
    """The content of a page."""

    sentence: str  # the query in words
    facts: Sequence[str]  # the number of matches, the size of the data, and further facts
    pictures: Sequence[str]  # SVG texts
    text: str  # the text of the query
    frame: pd.DataFrame  # the first matches
    told: str  # the number of matches in the table and in all
    cases: Sequence[tuple[str, bool | None]]  # the kept cases in words, and whether they hold
    # code, command: the Python cell, and the command line or the reason why it does not exist
    code: str
    command: str


def page_html(parts: PageParts) -> str:
    """Return the text of a page that opens without a network and without scripts."""
    sentence = parts.sentence[:1].upper() + parts.sentence[1:]
    title = parts.sentence.split(";")[0]
    body = [
        f"<h1>{_escape(sentence)}</h1>",
        f'<p class="soft">{_escape(" · ".join(filter(None, parts.facts)))}</p>',
        *(f"<figure>{picture}</figure>" for picture in parts.pictures),
        _section("Matches", _table(parts.frame, parts.told)),
        _section("Query", f"<pre>{_escape(parts.text)}</pre>"),
    ]
    if parts.cases:
        body.append(_section("Kept cases", _cases(parts.cases)))
    body.append(_section("Python", f"<pre>{_escape(parts.code)}</pre>"))
    body.append(_section("Command line", f"<pre>{_escape(parts.command)}</pre>"))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _escape(text: str) -> str:
    return html.escape(without_controls(text), quote=False)


def _section(title: str, content: str) -> str:
    return f"<h2>{title}</h2>\n{content}"


def _table(frame: pd.DataFrame, told: str) -> str:
    if not len(frame):
        return "<p>No matches.</p>"
    sides = [' class="right"' if of["align"] == "right" else "" for of in columns_of(frame)]
    names = zip(sides, frame.columns, strict=True)
    head = "".join(f"<th{side}>{_escape(str(name))}</th>" for side, name in names)
    rows = (
        "".join(f"<td{side}>{_escape(text)}</td>" for side, text in zip(sides, row, strict=True))
        for row in zip(*([cell(one) for one in frame[name]] for name in frame.columns), strict=True)
    )
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    note = f'<p class="soft">{_escape(told)}</p>' if told else ""
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}\n</table></div>{note}'


def _cases(cases: Sequence[tuple[str, bool | None]]) -> str:
    marks = {True: '<b class="kept">✓</b>', False: '<b class="lost">✗</b>', None: "<b>?</b>"}
    items = "\n".join(f"<li>{marks[is_held]} {_escape(text)}</li>" for text, is_held in cases)
    return f"<ul>\n{items}\n</ul>"
