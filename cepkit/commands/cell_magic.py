"""The cell magic ``%%cep``: a query as a cell over a frame, with its matches or the explorer below."""

from __future__ import annotations

import re
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from cepkit.errors import CepError, nearest

_DEFINED = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*:\s*(?P<condition>\S.*)")

_USAGE = "Write it as in: %%cep df --event-type kind --order-by ts. %%cep? lists all options"


@magic_arguments("%%cep")
@argument("frame", help="the variable that holds the frame")
@argument("--order-by", metavar="COLUMNS", help="columns that order the events, as in ts,seq")
@argument("--partition-by", metavar="COLUMNS", help="key columns: each key is searched by itself")
@argument("--event-type", metavar="COLUMN", help="the column of event types")
@argument("--within", metavar="DURATION", help='the longest time of a match, as in "5 min"')
@argument("--strategy", help="any, next, strict or partition")
@argument("--after-match", help="which events later matches may use, as in past_last")
@argument("--into", metavar="NAME", help="a variable that keeps the result")
@argument("--explore", action="store_true", help="open the explorer in place of the matches")
def cep(line: str, cell: str) -> Any:
    """Run the query in the cell. Its later lines may define the names of a regex: ``up: x > prev(x)``."""
    from IPython import get_ipython

    from cepkit.api import matching, searching

    shell = get_ipython()
    try:
        asked = parse_argstring(cep, line)
    except UsageError as error:
        raise UsageError(f"{error}. {_USAGE}") from None
    if asked.frame not in shell.user_ns:
        raise CepError(f"%%cep: there is no variable {asked.frame!r}.{nearest(asked.frame, shell.user_ns)}")
    text, define = _read(cell)
    keywords: dict[str, Any] = {"define": define} if define else {}
    for name in ("event_type", "within", "strategy", "after_match"):
        if (value := getattr(asked, name)) is not None:
            keywords[name] = int(value) if value.isdigit() else value.strip("'\"")
    for name in ("order_by", "partition_by"):
        if (value := getattr(asked, name)) is not None:
            keywords[name] = [column.strip() for column in value.split(",")]
    ask = searching.explore if asked.explore else matching.match
    result = ask(shell.user_ns[asked.frame], text, **keywords)
    if asked.into:
        shell.push({asked.into: result})
    return result


def _read(cell: str) -> tuple[str, dict[str, str]]:
    """Return the query in a cell, and the conditions below a regex."""
    lines = [line for line in cell.strip().splitlines() if line.strip()]
    below = [_DEFINED.fullmatch(line) for line in lines[1:]]
    if not lines or not below or None in below:
        return cell.strip(), {}
    return lines[0].strip(), {match["name"]: match["condition"] for match in below if match}


def register(shell: InteractiveShell) -> None:
    shell.register_magic_function(cep, "cell")
