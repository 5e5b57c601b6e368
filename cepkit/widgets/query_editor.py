"""An editor for the text of a query, with highlighting, completions, errors and the state of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets

from cepkit.plots.stills.tables import lines_svg
from cepkit.widgets.base import View, browser_half, counted

STATES = ("idle", "running", "done", "failed", "cancelled")
# The reserved words of queries, for highlighting and completion, in any case.
KEYWORDS = (
    *("PATTERN", "SEQ", "WHERE", "WITHIN", "AND", "OR", "NOT", "IF", "UNTIL"),
    *("IN", "BETWEEN", "IS", "LIKE", "NULL", "TRUE", "FALSE"),
    *("STRICT", "PARTITION", "NEXT", "ANY", "INNER", "GREEDY", "RELUCTANT"),
    *("skip_till_any_match", "skip_till_next_match", "strict_contiguity", "partition_contiguity"),
)
# Those of SQL's MATCH_RECOGNIZE.
KEYWORDS_OF_SQL = (
    *("SELECT", "FROM", "WHERE", "LIMIT", "AS", "MATCH_RECOGNIZE", "PARTITION", "ORDER", "BY", "MEASURES"),
    *("ONE", "ALL", "ROW", "ROWS", "PER", "MATCH", "SHOW", "OMIT", "EMPTY", "MATCHES", "WITH", "UNMATCHED"),
    *("AFTER", "SKIP", "PAST", "TO", "NEXT", "FIRST", "LAST", "PATTERN", "SUBSET", "DEFINE", "WITHIN"),
    *("PERMUTE", "PREV", "RUNNING", "FINAL", "CLASSIFIER", "MATCH_NUMBER", "DISTINCT", "INTERVAL"),
    *("AND", "OR", "NOT", "IN", "BETWEEN", "IS", "LIKE", "NULL", "TRUE", "FALSE", "CASE", "WHEN", "THEN"),
    *("ELSE", "END", "CAST", "ASC", "DESC", "NULLS", "COUNT", "SUM", "AVG", "MIN", "MAX"),
)


class QueryEditor(View):
    """An editor for the text of a query.

    Parameters
    ----------
    text : str
        Written by both sides: the query. The browser writes it 200 ms after the last key.
    version : int
        The edit (see ``edited``) that ``errors`` and ``status`` are about. Errors of an older edit stay
        visible in paler colours until new ones arrive.
    errors : list of dict
        ``start``, ``end``: characters of ``text`` to underline; ``line``: from 1; ``message``: the error text
        with its caret lines.
    columns : list of dict
        ``name``, ``dtype`` and ``note`` of the columns of the data, shown beside the text.
    names : list of str
        Event types and functions, for completion in addition to columns and keywords.
    functions : list of str
        Those of ``names`` that are functions.
    keywords : list of str
        Reserved words.
    sentence : str
        The query in words. Empty before the first query without mistakes.
    examples : list of dict
        ``title``, ``text`` and ``sentence`` of queries that one click writes into the editor.
    sheet : list of dict
        The cheat sheet in groups: ``title``, and ``entries`` with ``text``, ``meaning`` and ``kind`` (where
        the text belongs, see `cepkit.language.cheat_sheet`).
    marked : list of str
        Names to mark in the text.
    status : dict
        ``state``: ``"idle"``, ``"running"``, ``"done"``, ``"failed"`` or ``"cancelled"``; ``message``;
        ``progress``: from 0 to 1, or None if it is not known.
    code : str
        Python code of the call, to copy into a cell.
    edited : int
        Written by the browser: number of edits of the text.
    cancel : int
        Written by the browser: number of clicks on the cancel button.
    wanted_step : dict
        Written by the browser: ``what`` is ``"undo"`` or ``"redo"``, and ``n`` counts the wishes.
    """

    _esm, _css = browser_half(
        "query_editor", "query_painting.js", "query_completion.js", "query_help.js", "query_help.css"
    )

    # Python -> browser
    text = traitlets.Unicode().tag(sync=True)  # and back
    version = traitlets.Int().tag(sync=True)
    errors = traitlets.List(traitlets.Dict()).tag(sync=True)
    columns = traitlets.List(traitlets.Dict()).tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    functions = traitlets.List(traitlets.Unicode()).tag(sync=True)
    keywords = traitlets.List(traitlets.Unicode()).tag(sync=True)
    sentence = traitlets.Unicode().tag(sync=True)
    examples = traitlets.List(traitlets.Dict()).tag(sync=True)
    sheet = traitlets.List(traitlets.Dict()).tag(sync=True)
    marked = traitlets.List(traitlets.Unicode()).tag(sync=True)
    status = traitlets.Dict().tag(sync=True)
    code = traitlets.Unicode().tag(sync=True)
    # browser -> Python
    edited = traitlets.Int().tag(sync=True)
    cancel = traitlets.Int().tag(sync=True)
    wanted_step = traitlets.Dict().tag(sync=True)

    def __init__(
        self, *, text: str = "", version: int = 0, errors: Sequence[dict] = (),
        columns: Sequence[dict] = (), names: Sequence[str] = (), functions: Sequence[str] = (),
        keywords: Sequence[str] = KEYWORDS, sentence: str = "", examples: Sequence[dict] = (),
        sheet: Sequence[dict] = (), marked: Sequence[str] = (), status: dict[str, Any] | None = None,
        code: str = "", edited: int = 0, cancel: int = 0, wanted_step: dict | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            text=text, version=version, errors=list(errors), columns=list(columns), names=list(names),
            functions=list(functions), keywords=list(keywords), sentence=sentence, examples=list(examples),
            sheet=list(sheet), marked=list(marked),
            status=status or {"state": "idle", "message": "", "progress": None},
            code=code, edited=edited, cancel=cancel, wanted_step=wanted_step or {},
        )  # fmt: skip

    @traitlets.validate("status")
    def _check_status(self, proposal: Any) -> dict:
        state = proposal["value"].get("state")
        if state not in STATES:
            raise traitlets.TraitError(f"QueryEditor.status: state {state!r} is not one of {list(STATES)}")
        return {"message": "", "progress": None, **proposal["value"]}

    def _summary(self) -> str:
        errors = f", {counted(len(self.errors), 'error')}" if self.errors else ""
        return f"{counted(len(self.text), 'character')}, {self.status['state']}{errors}"

    def _still(self) -> str:
        messages = [line for error in self.errors for line in str(error.get("message", "")).split("\n")]
        return lines_svg([*self.text.split("\n"), *messages], is_code=True)
