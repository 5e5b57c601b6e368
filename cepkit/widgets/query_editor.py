"""An editor for the text of a query: highlighting, completions, errors where they are, state of the run."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import traitlets

from cepkit._shipped import shipped
from cepkit.widgets.base import View, counted

STATES = ("idle", "running", "done", "failed", "cancelled")
# The reserved words of queries, for highlighting and completion; both are read without regard to case.
KEYWORDS = (
    *("PATTERN", "SEQ", "WHERE", "WITHIN", "AND", "OR", "NOT", "IF", "UNTIL"),
    *("IN", "BETWEEN", "IS", "LIKE", "NULL", "TRUE", "FALSE"),
    *("STRICT", "PARTITION", "NEXT", "ANY", "INNER", "GREEDY", "RELUCTANT"),
    *("skip_till_any_match", "skip_till_next_match", "strict_contiguity", "partition_contiguity"),
)


class QueryEditor(View):
    """An editor for the text of a query.

    Parameters
    ----------
    text : str
        The query. Both sides write it; the browser 200 ms after the last key.
    version : int
        The edit (see ``edited``) that ``errors`` and ``status`` speak of. Those of an older edit stay to be
        seen, paler, until newer ones come.
    errors : list of dict
        ``start``, ``end``: characters of ``text`` to underline; ``line``: from 1; ``message``: what is wrong,
        with its caret lines.
    columns : list of dict
        ``name``, ``dtype`` and ``note`` of the columns a query may name, shown beside the text.
    names : list of str
        Event types and functions, for completion; columns and keywords are known already.
    keywords : list of str
        Reserved words.
    marked : list of str
        Names that are marked in the text.
    status : dict
        ``state``: ``"idle"``, ``"running"``, ``"done"``, ``"failed"`` or ``"cancelled"``; ``message``;
        ``progress``: from 0 to 1, or None where nobody knows.
    code : str
        The call as a cell to copy.
    edited : int
        Written by the browser: how often the text was edited.
    cancel : int
        Written by the browser: how often the run was asked to stop.
    """

    # A module imports nothing, so what it paints with stands in front of it.
    _esm = "".join(
        shipped("widgets", name).read_text(encoding="utf-8")
        for name in ("query_painting.js", "query_editor.js")
    )
    _css = shipped("widgets", "query_editor.css")

    # Python -> browser
    text = traitlets.Unicode().tag(sync=True)  # and back
    version = traitlets.Int().tag(sync=True)
    errors = traitlets.List(traitlets.Dict()).tag(sync=True)
    columns = traitlets.List(traitlets.Dict()).tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    keywords = traitlets.List(traitlets.Unicode()).tag(sync=True)
    marked = traitlets.List(traitlets.Unicode()).tag(sync=True)
    status = traitlets.Dict().tag(sync=True)
    code = traitlets.Unicode().tag(sync=True)
    # browser -> Python
    edited = traitlets.Int().tag(sync=True)
    cancel = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        *,
        text: str = "",
        version: int = 0,
        errors: Sequence[dict] = (),
        columns: Sequence[dict] = (),
        names: Sequence[str] = (),
        keywords: Sequence[str] = KEYWORDS,
        marked: Sequence[str] = (),
        status: dict[str, Any] | None = None,
        code: str = "",
        edited: int = 0,
        cancel: int = 0,
    ) -> None:
        super().__init__(
            text=text,
            version=version,
            errors=list(errors),
            columns=list(columns),
            names=list(names),
            keywords=list(keywords),
            marked=list(marked),
            status=status or {"state": "idle", "message": "", "progress": None},
            code=code,
            edited=edited,
            cancel=cancel,
        )

    @traitlets.validate("status")
    def _check_status(self, proposal: Any) -> dict:
        state = proposal["value"].get("state")
        if state not in STATES:
            raise traitlets.TraitError(f"QueryEditor.status: state {state!r} is none of {list(STATES)}")
        return {"message": "", "progress": None, **proposal["value"]}

    def _summary(self) -> str:
        errors = f", {counted(len(self.errors), 'error')}" if self.errors else ""
        return f"{counted(len(self.text), 'character')}, {self.status['state']}{errors}"

    def _static(self) -> dict[str, str]:
        messages = "".join(
            f"<pre>{html.escape(str(error.get('message', '')))}</pre>" for error in self.errors
        )
        return {"text/html": f"<pre>{html.escape(self.text)}</pre>{messages}"}
