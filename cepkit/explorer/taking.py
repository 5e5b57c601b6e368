"""What a user takes out of an explorer: files, pictures, a stand-alone page, a cell, a command line."""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cepkit.errors import CepError
from cepkit.explorer.board import Board
from cepkit.explorer.presenting.presenter import Presenter
from cepkit.explorer.query.command import Commanded
from cepkit.explorer.running.timeline import count_of_matches
from cepkit.explorer.table.texts import columns_of
from cepkit.frames.pandas import as_pandas
from cepkit.frames.writing import file_of
from cepkit.insight.why_not import cell
from cepkit.language.cheat_sheet import say_query
from cepkit.language.expressions.durations import count_text
from cepkit.plots import theme
from cepkit.plots.stills.png import Picture, png, size_of, without_controls

# A stand-alone page of an explorer: one HTML file with its style and pictures in it.

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
    sides = [' class="right"' if column["align"] == "right" else "" for column in columns_of(frame)]
    names = zip(sides, frame.columns, strict=True)
    head = "".join(f"<th{side}>{_escape(str(name))}</th>" for side, name in names)
    rows = (
        "".join(f"<td{side}>{_escape(text)}</td>" for side, text in zip(sides, row, strict=True))
        for row in zip(*([cell(value) for value in frame[name]] for name in frame.columns), strict=True)
    )
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    note = f'<p class="soft">{_escape(told)}</p>' if told else ""
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}\n</table></div>{note}'


def _cases(cases: Sequence[tuple[str, bool | None]]) -> str:
    marks = {True: '<b class="kept">✓</b>', False: '<b class="lost">✗</b>', None: "<b>?</b>"}
    items = "\n".join(f"<li>{marks[is_held]} {_escape(text)}</li>" for text, is_held in cases)
    return f"<ul>\n{items}\n</ul>"


# What a user takes out of an explorer: matches as files, pictures, a page, a Python cell, a command line.

MOST_ROWS = 500_000  # rows in a downloaded file
MOST_ON_PAGE = 50  # matches in the table of a page
OF_PAGE = ("partition_by", "order_by", "event_type", "strategy")  # choices that a page names
_INK, _PAPER = "#1f2328", "#ffffff"  # of picture files
_SCALE, _MARGIN = 2.0, 20
CSV, PARQUET, PNG, SVG, HTML, CELL, LINE = "csv", "parquet", "png", "svg", "html", "cell", "line"
ALL_CSV, ALL_PARQUET = "all csv", "all parquet"  # without the filters of the table; only while it has some
_TABLES = {CSV: CSV, PARQUET: PARQUET, ALL_CSV: CSV, ALL_PARQUET: PARQUET}  # the formats
_TITLES = {
    CSV: "CSV", PARQUET: "Parquet", ALL_CSV: "CSV, all", ALL_PARQUET: "Parquet, all", PNG: "PNG", SVG: "SVG",
    HTML: "HTML", CELL: "Python", LINE: "Shell",
}  # fmt: skip
_NOTES = {
    PNG: "The picture of query, automaton, timeline and table as PNG",
    SVG: "The picture of query, automaton, timeline and table as SVG",
    HTML: "One page that opens without a network: picture, sentence, query, first matches and code",
    CELL: "Copy the Python cell that finds these matches",
    LINE: "Copy the command line that finds these matches",
}


@dataclass(frozen=True)
class Parcel:
    """A file to download."""

    file: str
    mime: str
    content: bytes
    note: str = ""


@dataclass(frozen=True)
class TakenRows:
    """Matches for a file: a pandas frame, the name of the file, and a ``note`` if some are left out."""

    frame: pd.DataFrame
    name: str
    note: str


class Taker:
    """Makes the files of an explorer and answers the buttons of its board."""

    def __init__(
        self, board: Board, present: Presenter, command: Callable[[], Commanded],
        cases: Callable[[], list[tuple[str, bool | None]]],
    ):  # fmt: skip
        self._board, self._present = board, present
        self._command, self._cases = command, cases
        present.shown.when_counted.append(lambda result: self.offer())
        board.observe(board.take, "wanted", lambda wish: wish and self._fulfil(wish))
        board.table.observe(lambda _: self.offer(), "filtered")
        self.offer()

    # --- files

    def picture(self) -> Picture:
        """Return query, automaton, timeline and table as SVG text on white paper."""
        svg = self._board.still().replace(theme.PAGE_INK, _INK).replace(";max-width:100%;height:auto", "")
        width, height = (length + 2 * _MARGIN for length in size_of(svg))
        inner = svg.replace("<svg ", f'<svg x="{_MARGIN}" y="{_MARGIN}" ', 1)
        return Picture(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}"><rect width="100%" height="100%" fill="{_PAPER}"/>'
            f"{inner}</svg>"
        )

    def png(self) -> bytes:
        """Return the picture as the bytes of a PNG file."""
        return png(self.picture(), _SCALE, is_small=False)

    def page(self) -> str:
        """Return the text of a stand-alone HTML page."""
        board, result, matches = (
            self._board,
            self._present.shown.result_for("to_html"),
            self._present.shown.matches,
        )
        n, command = matches.count(), self._command()
        frame = as_pandas(matches.head(MOST_ON_PAGE))
        note = f"The first {len(frame)} of {count_text(n)} matches." if n > len(frame) else ""
        fields = [field for field in board.bar.fields if field["name"] in OF_PAGE and field["chosen"]]
        chosen = (f"{field['label']}: {', '.join(field['chosen'])}" for field in fields)
        key = board.bar.key_text
        return page_html(
            PageParts(
                sentence=say_query(result.program.query),
                facts=[
                    _found_text(n),
                    f"{result.data.source.n_rows:,} rows",
                    *chosen,
                    key and f"drawn: {key}",
                ],
                pictures=[widget._still() for widget in (board.timeline, board.nfa)],
                text=board.editor.text,
                frame=frame,
                told=note,
                cases=self._cases(),
                code=board.editor.code,
                command="\n".join(filter(None, [command.note and f"# {command.note}", command.line]))
                or f"# {command.reason}",
            )
        )

    def parcel(self, what: str) -> Parcel:
        """Return the file of a button."""
        if what == PNG:
            return Parcel("matches.png", "image/png", self.png())
        if what == SVG:
            return Parcel("matches.svg", "image/svg+xml", self.picture().encode())
        if what == HTML:
            return Parcel("matches.html", "text/html", self.page().encode())
        if what not in _TABLES:
            raise CepError(f"{what!r} is no file; known: {[*_TABLES, PNG, SVG, HTML]}")
        table = self._rows(is_filtered=what in (CSV, PARQUET))
        if _TABLES[what] == CSV:
            content, mime = table.frame.to_csv(index=False).encode(), "text/csv"
        else:
            content, mime = table.frame.to_parquet(None, index=False), "application/vnd.apache.parquet"
        return Parcel(f"{table.name}.{_TABLES[what]}", mime, content, table.note)

    def _rows(self, *, is_filtered: bool) -> TakenRows:
        """Return the matches as a pandas frame: those that pass the filters, or all."""
        shown = self._present.shown
        if shown.matches is None:
            raise CepError("no matches are found yet; write a query first")
        matches, kept = shown.matches, self._kept_numbers() if is_filtered else None
        if kept is not None:
            listing, part = shown.result.pages.listing, kept[:MOST_ROWS]
            first = "" if listing.is_whole else "first-"
            name = f"{len(part)}-of-{first}{listing.n}-matches"
            note = "" if len(part) == len(kept) else f"The file has the first {MOST_ROWS:,} of {len(kept):,}"
            return TakenRows(as_pandas(matches.take(part.tolist())), name, note)
        n = matches.count()
        if n <= MOST_ROWS:
            return TakenRows(as_pandas(matches.to_frame(limit=None)), "matches", "")
        part = (
            matches[:MOST_ROWS].to_frame(limit=None)
            if matches._found.is_in_memory
            else matches.head(MOST_ROWS)
        )
        frame = as_pandas(part)
        return TakenRows(frame, f"first-{len(frame)}-matches", _limit_note(n))

    def _kept_numbers(self) -> np.ndarray | None:
        """Return the numbers of the matches that pass the filters of the table; None without filters."""
        if not self._board.table.filtered:
            return None
        return self._present.shown.result.pages.listing.keep(self._present.table.filters).numbers

    # --- buttons

    def offer(self) -> None:
        """Show the buttons for the newest result and the newest text."""
        board, result = self._board, self._present.shown.result
        n = None if result is None or not result.is_counted else self._n()
        unknown = "No matches are counted yet" if n is None else ""
        command, code = self._command(), board.editor.code
        filtered = "" if n is None else board.table.filtered
        warning = "" if n is None or n <= MOST_ROWS else _limit_note(n)
        summary = "" if n is None else _found_text(n)
        notes, remarks = dict(_NOTES), {LINE: command.note}
        for name, format in _TABLES.items():
            of_all = warning or f"Download {summary} as {_TITLES[format]}"
            is_part = filtered and name == format
            notes[name] = f"Download {filtered} as {_TITLES[format]}" if is_part else of_all
            remarks[name] = "" if is_part else warning
        copies = {CELL: code, LINE: command.line}
        locked = dict.fromkeys((*_TABLES, HTML), unknown)
        locked |= {CELL: "" if code else "Write a query first", LINE: "" if command.line else command.reason}
        items = [
            {
                "id": name, "title": title, "note": notes[name], "told": remarks.get(name, ""),
                "copies": copies.get(name, ""), "locked": locked.get(name, ""),
            }
            for name, title in _TITLES.items()
            if filtered or name not in (ALL_CSV, ALL_PARQUET)
        ]  # fmt: skip
        board.set(board.take, {"items": items, "told": filtered or summary})

    def _n(self) -> int:
        return self._present.shown.matches.count()

    def _fulfil(self, wish: dict[str, Any]) -> None:
        threading.Thread(target=self._send, args=(wish,), name="cepkit takes", daemon=True).start()

    def _send(self, wish: dict[str, Any]) -> None:
        answer = {"by": wish.get("by"), "n": wish.get("n")}
        try:
            parcel = self.parcel(wish["id"])
        except Exception as error:  # the browser waits for an answer
            self._board.take.send({**answer, "error": str(error).split("\n")[0] or type(error).__name__})
            return
        size = {"file": parcel.file, "mime": parcel.mime, "note": parcel.note}
        self._board.take.send({**answer, **size}, buffers=[parcel.content])


def _found_text(n: int) -> str:
    return count_of_matches(n) if n < 10**15 else f"{count_text(n)} matches"


def _limit_note(n: int) -> str:
    whole = (
        "explorer.matches.to_frame(limit=None)" if n <= 10**8 else "for part in explorer.matches.chunks(): …"
    )
    return (
        f"The file has the first {MOST_ROWS:,} of {count_text(n)} matches. In Python, {whole} has all of them"
    )


def write_file(path: str | Path, content: str | bytes) -> Path:
    """Write a file and return its path."""
    path = file_of("explorer", path).expanduser()
    if not path.parent.is_dir():
        raise CepError(f"there is no folder {str(path.parent)!r}; make it first")
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        path.write_bytes(content)
    return path
