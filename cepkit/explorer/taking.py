"""What a user takes out of an explorer: matches as files, pictures, a page, a Python cell, a command line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from cepkit.errors import CepError
from cepkit.explorer.board import Board
from cepkit.explorer.marks import count_of_matches
from cepkit.explorer.page import PageParts, page_html
from cepkit.explorer.presenting.presenter import Presenter
from cepkit.explorer.query.command import Commanded
from cepkit.language.numbers import count_text
from cepkit.language.saying import say_query
from cepkit.plots import theme
from cepkit.plots.stills.png import Picture, png, size_of
from cepkit.results.matches import Matches, as_pandas

MOST_ROWS = 500_000  # rows in a downloaded file
MOST_ON_PAGE = 50  # matches in the table of a page
OF_PAGE = ("partition_by", "order_by", "event_type", "strategy")  # choices that a page names
_INK, _PAPER = "#1f2328", "#ffffff"  # of picture files
_SCALE, _MARGIN = 2.0, 20
CSV, PARQUET, PNG, SVG, HTML, CELL, LINE = "csv", "parquet", "png", "svg", "html", "cell", "line"
_TITLES = {
    CSV: "CSV", PARQUET: "Parquet", PNG: "PNG", SVG: "SVG", HTML: "HTML", CELL: "Python", LINE: "Shell",
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


class Taker:
    """Makes the files of an explorer and answers the buttons of its board.

    Parameters
    ----------
    board : Board
    present : Presenter
    command : callable
        Returns the command line of the query.
    cases : callable
        Returns the kept cases in words, each with whether it holds.
    """

    def __init__(
        self, board: Board, present: Presenter, command: Callable[[], Commanded],
        cases: Callable[[], list[tuple[str, bool | None]]],
    ):  # fmt: skip
        self._board, self._present = board, present
        self._command, self._cases = command, cases
        present.shown.when_counted.append(lambda result: self.offer())
        board.observe(board.take, "wanted", lambda wish: wish and self._fulfil(wish))
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
        told = f"The first {len(frame)} of {count_text(n)} matches." if n > len(frame) else ""
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
                told=told,
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
        frame, note = self._rows()
        name = "matches" if not note else f"first-{len(frame)}-matches"
        if what == CSV:
            return Parcel(f"{name}.csv", "text/csv", frame.to_csv(index=False).encode(), note)
        if what == PARQUET:
            content = frame.to_parquet(None, index=False)
            return Parcel(f"{name}.parquet", "application/vnd.apache.parquet", content, note)
        raise CepError(f"{what!r} is no file; known: {list(_TITLES)[:5]}")

    def _rows(self) -> tuple[pd.DataFrame, str]:
        """Return the matches as a pandas frame, and a note if the frame does not have all of them."""
        matches = self._present.shown.matches
        if matches is None:
            raise CepError("no matches are found yet; write a query first")
        n = matches.count()
        if n <= MOST_ROWS:
            return as_pandas(matches.to_frame(limit=None)), ""
        part = (
            matches[:MOST_ROWS].to_frame(limit=None)
            if isinstance(matches, Matches)
            else matches.head(MOST_ROWS)
        )
        return as_pandas(part), _limit_note(n)

    # --- buttons

    def offer(self) -> None:
        """Show the buttons for the newest result and the newest text."""
        board, result = self._board, self._present.shown.result
        n = None if result is None or not result.is_counted else self._n()
        unknown = "No matches are counted yet" if n is None else ""
        command, code = self._command(), board.editor.code
        warning = "" if n is None or n <= MOST_ROWS else _limit_note(n)
        found = "" if n is None else _found_text(n)
        notes = {name: warning or f"Download {found} as {_TITLES[name]}" for name in (CSV, PARQUET)} | _NOTES
        told = {CSV: warning, PARQUET: warning, LINE: command.note}
        copies = {CELL: code, LINE: command.line}
        locked = dict.fromkeys((CSV, PARQUET, HTML), unknown)
        locked |= {CELL: "" if code else "Write a query first", LINE: "" if command.line else command.reason}
        items = [
            {
                "id": name, "title": title, "note": notes[name], "told": told.get(name, ""),
                "copies": copies.get(name, ""), "locked": locked.get(name, ""),
            }
            for name, title in _TITLES.items()
        ]  # fmt: skip
        board.set(board.take, {"items": items, "told": found})

    def _n(self) -> int:
        return self._present.shown.matches.count()

    def _fulfil(self, wish: dict[str, Any]) -> None:
        threading.Thread(target=self._send, args=(wish,), name="cepkit takes", daemon=True).start()

    def _send(self, wish: dict[str, Any]) -> None:
        answer = {"by": wish.get("by"), "n": wish.get("n")}
        try:
            made = self.parcel(wish["id"])
        except Exception as error:  # the browser waits for an answer
            self._board.take.send({**answer, "error": str(error).split("\n")[0] or type(error).__name__})
            return
        size = {"file": made.file, "mime": made.mime, "note": made.note}
        self._board.take.send({**answer, **size}, buffers=[made.content])


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
    path = Path(path).expanduser()
    if not path.parent.is_dir():
        raise CepError(f"there is no folder {str(path.parent)!r}; make it first")
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        path.write_bytes(content)
    return path
