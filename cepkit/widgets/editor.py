"""The editor of a query's text with its errors, and the head of the explorer with its selectors."""

from __future__ import annotations

from typing import Any

import traitlets

from cepkit.plots.stills.tables import lines_svg
from cepkit.widgets.base import View, browser_half, counted

# An editor for the text of a query, with highlighting, completions, errors and the state of the run.

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
    keywords = traitlets.List(traitlets.Unicode(), list(KEYWORDS)).tag(sync=True)
    sentence = traitlets.Unicode().tag(sync=True)
    examples = traitlets.List(traitlets.Dict()).tag(sync=True)
    sheet = traitlets.List(traitlets.Dict()).tag(sync=True)
    marked = traitlets.List(traitlets.Unicode()).tag(sync=True)
    status = traitlets.Dict(default_value={"state": "idle", "message": "", "progress": None}).tag(sync=True)
    code = traitlets.Unicode().tag(sync=True)
    # browser -> Python
    edited = traitlets.Int().tag(sync=True)
    cancel = traitlets.Int().tag(sync=True)
    wanted_step = traitlets.Dict().tag(sync=True)

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


# The head of the explorer: selectors for columns, strategy and measures, and the shown key.


class DataBar(View):
    """Selectors for the columns of a query, and a control that picks and searches the shown key.

    Parameters
    ----------
    fields : list of dict
        One selector each. ``name``: the keyword that it sets; ``label``; ``many``: whether several choices
        are possible; ``choices``: list of dict with ``value`` and ``note``; ``chosen``: list of values;
        ``empty``: the text for no choice; ``locked``: why it cannot be changed, or an empty text;
        ``needed``: whether the query needs a choice; ``takes_text``: whether the user may add
        ``name = expression``.
    language : str
        The language of the query, such as ``"regex"``. Empty before there is a query.
    rows : str
        The size of the data in words.
    note : str
        A sentence about a choice, for example a mistake. Empty for nothing.
    key : dict
        The shown key: ``text`` such as ``"symbol = AAA"``; ``place``, from 1, and ``n``, the number of keys;
        ``matches`` in words. Empty if the data has no keys.
    found : dict
        A page of keys: ``search``, ``order`` and ``page`` of the wish; ``n_pages``; ``told``: the number of
        keys in words; ``rows``: list of dict with ``id``, ``text`` and ``matches``; ``shown``: the id of the
        shown key. Before the first page it may have the ``order`` alone.
    steps : dict
        ``undo`` and ``redo``: the change that each takes back or makes again, in words. Empty for no change.
    runs : list of dict
        The past queries, the newest first: ``number``, ``text``, ``note`` on the choices, ``matches``,
        ``took`` and ``at`` in words.
    answered : int
        The newest ``asked`` that Python has seen. The browser learns that Python is there.
    chosen : dict
        Written by the browser: ``name``, ``values`` and ``n``, which counts the choices.
    wanted_keys : dict
        Written by the browser: ``search``, ``order``, ``page`` and ``n`` for the next page of keys.
    wanted_key : dict
        Written by the browser: ``id`` of a key, or ``step`` to a neighbour of the shown one, and ``n``.
    wanted_step : dict
        Written by the browser: ``what`` is ``"undo"`` or ``"redo"``, and ``n`` counts the wishes.
    wanted_run : dict
        Written by the browser: ``number`` of a past query to bring back, and ``n``.
    asked : int
        Written by the browser after an action of the user.
    """

    _esm, _css = browser_half("data_bar", "data_bar_steps.js", "data_bar_steps.css")

    # Python -> browser
    fields = traitlets.List(traitlets.Dict()).tag(sync=True)
    language = traitlets.Unicode().tag(sync=True)
    rows = traitlets.Unicode().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    key = traitlets.Dict().tag(sync=True)
    found = traitlets.Dict().tag(sync=True)
    steps = traitlets.Dict(default_value={"undo": "", "redo": ""}).tag(sync=True)
    runs = traitlets.List(traitlets.Dict()).tag(sync=True)
    answered = traitlets.Int().tag(sync=True)
    # browser -> Python
    chosen = traitlets.Dict().tag(sync=True)
    wanted_keys = traitlets.Dict().tag(sync=True)
    wanted_key = traitlets.Dict().tag(sync=True)
    wanted_step = traitlets.Dict().tag(sync=True)
    wanted_run = traitlets.Dict().tag(sync=True)
    asked = traitlets.Int().tag(sync=True)

    @property
    def key_text(self) -> str:
        """The shown key in words; empty without keys."""
        return key_text(self.key)

    def _summary(self) -> str:
        parts = (self.language, self.rows, self.key_text)
        return ", ".join(part for part in parts if part)

    def _still(self) -> str:
        chosen = (
            f"{field['label']}: {', '.join(field['chosen'])}" for field in self.fields if field["chosen"]
        )
        line = "; ".join([*chosen, self.key_text]).strip("; ")
        return lines_svg([line or "No columns are chosen."])


def key_text(key: dict[str, Any]) -> str:
    """Return the shown key in words.

    Examples
    --------
    >>> key_text({"text": "symbol = AAA", "place": 1, "n": 40, "matches": ""})
    'symbol = AAA, 1 of 40 keys'
    """
    if not key:
        return ""
    noun = "key" if key["n"] == 1 else "keys"
    return f"{key['text']}, {key['place']:,} of {key['n']:,} {noun}"
