"""The reference cases of MATCH_RECOGNIZE from other engines, as texts and as tables."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "conformance"


def cases(file: str) -> list[Any]:
    """Return the cases of a file as parameters of a test; none if the file is not there."""
    path = FOLDER / file
    found = json.loads(path.read_text())["cases"] if path.is_file() else []
    return [pytest.param(case, id=case["id"].partition("/")[2]) for case in found]


def bag(rows: list[list[Any]]) -> list[str]:
    """Return rows in an order of their own, with numbers that print alike when they are equal."""
    return sorted(repr(plain(row)) for row in rows)


def plain(value: Any) -> Any:
    """Return a value with floats for numbers, and the number of an event for the event."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict) and "event" in value:
        return float(value["event"])
    return float(value) if type(value) is int and math.isfinite(value) else value


# --- Trino and Flink ---------------------------------------------------------------------------------------


def text_of_case(case: dict[str, Any]) -> str:
    """Return the clauses of a case as they would be typed, without ROWS PER MATCH and WITHIN."""
    skip = case["after_match_skip"]
    lines = {
        "PARTITION BY": ", ".join(case["partition_by"]),
        "ORDER BY": ", ".join(f"{entry['expr']} {entry['dir']}" for entry in case["order_by"]),
        "MEASURES": ", ".join(f"{entry['expr']} AS {entry['name']}" for entry in case["measures"]),
        "AFTER MATCH SKIP": skip["mode"].replace("_", " ") + f" {skip.get('var', '')}",
        "PATTERN": f"({case['pattern']})",
        "SUBSET": ", ".join(
            f"{name} = ({', '.join(map(quoted, members))})" for name, members in case["subset"].items()
        ),
        "DEFINE": ", ".join(f"{quoted(name)} AS {entry['expr']}" for name, entry in case["define"].items()),
    }
    body = "\n".join(f"{clause} {text}" for clause, text in lines.items() if text)
    return f"MATCH_RECOGNIZE (\n{body}\n)"


def quoted(name: str) -> str:
    """Return the name of a variable as it is written."""
    return name if name.isidentifier() and name.isupper() else f'"{name}"'


_ROWS = {
    "all": "ALL ROWS PER MATCH",
    "all_show_empty": "ALL ROWS PER MATCH SHOW EMPTY MATCHES",
    "all_omit_empty": "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
    "all_with_unmatched": "ALL ROWS PER MATCH WITH UNMATCHED ROWS",
}


def full_text_of_case(case: dict[str, Any]) -> str:
    """Return the clauses of a case as they would be typed."""
    text = text_of_case(case).replace("\nAFTER", f"\n{_ROWS.get(case['rows_per_match'], '')}\nAFTER")
    within = case.get("within")
    if within:
        text = text.replace("\nDEFINE", f"\nWITHIN INTERVAL '{within['seconds']:.0f}' SECOND\nDEFINE")
    return text


def select_of_case(case: dict[str, Any]) -> str:
    """Return a case as a SELECT from the table ``t``."""
    listed = ", ".join(f'{entry["expr"]} AS "{entry["name"]}"' for entry in case["output"] or ())
    return f"SELECT {listed or '*'} FROM t {full_text_of_case(case)} AS m;"


def select_of_window(case: dict[str, Any]) -> str:
    """Return the SELECT of a case with a WINDOW as it would be typed."""
    measures = {entry["name"] for entry in case["measures"]}
    columns = [
        f"{entry['expr']} OVER w AS {quoted(entry['name'])}"
        if entry["expr"] in measures or entry.get("over_window")
        else f"{entry['expr']} AS {entry['name']}"
        for entry in case["output"] or [{"name": name, "expr": name} for name in sorted(measures)]
    ]
    frame = case["frame"]
    end = f"{frame['n']} FOLLOWING" if frame["end"] == "following" else frame["end"].replace("_", " ")
    inside = (
        text_of_case(case)
        .removeprefix("MATCH_RECOGNIZE (")
        .replace("\nPATTERN", f"\n{case['search_mode']} PATTERN")
    )
    inside = inside.replace("\nAFTER", f"\nROWS BETWEEN CURRENT ROW AND {end}\nAFTER")
    return f"SELECT {', '.join(columns)} FROM t WINDOW w AS ({inside}"


def names_of_output(case: dict[str, Any]) -> list[str]:
    """Return the names of the columns of the answer."""
    return [entry["name"] for entry in case["output"] or ()]


def needs_query(case: dict[str, Any]) -> bool:
    """Return whether a condition or a measure has a sub-query."""
    return "subquery" in json.dumps([case["measures"], case["define"]])


def table_of_case(case: dict[str, Any]) -> pa.Table:
    """Return the rows of a case, with their position in the column ``position``."""
    table = {}
    clock = (case.get("within") or {}).get("column")
    for i, name in enumerate(case["columns"]):
        values = [row[i] for row in case["rows"]]
        array = pa.array(values, pa.int64() if all(value is None for value in values) else None)
        table[name] = array.cast(pa.timestamp("s")).cast(pa.timestamp("us")) if name == clock else array
    return pa.table({**table, "position": pa.array(range(len(case["rows"])), pa.int64())})


# --- Esper -------------------------------------------------------------------------------------------------


def of_sql(tree: Any, many: set[str]) -> Any:
    """Return a measure or a condition of Esper in the words of SQL.

    ``A[1].x`` is FIRST(A.x, 1), and ``A`` is the list of its rows, or its row if the pattern repeats nothing.
    """
    if isinstance(tree, list):
        return [of_sql(part, many) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if "event" in tree:
        column = {"col": "event", "var": tree["event"]}
        return {"agg": "array_agg", "args": [column]} if tree["event"] in many else column
    if "index" in tree:
        return {"nav": "first", "arg": {"col": tree["col"], "var": tree["var"]}, "offset": tree["index"]}
    return {name: of_sql(part, many) for name, part in tree.items()}


def repeated(pattern: Any) -> set[str]:
    """Return the variables to which a match can map several rows."""
    return {name for name, most in _most_rows(pattern).items() if most > 1}


def _most_rows(pattern: Any) -> dict[str, float]:
    if "var" in pattern:
        return {pattern["var"]: 1}
    if "alt" in pattern:
        every = list(map(_most_rows, pattern["alt"]))
        return {name: max(one.get(name, 0) for one in every) for one in every for name in one}
    if "quant" in pattern:
        times = math.inf if pattern["max"] is None else pattern["max"]
        return {name: most * times for name, most in _most_rows(pattern["quant"]).items()}
    every = list(map(_most_rows, pattern["seq"]))
    return {name: sum(one.get(name, 0) for one in every) for one in every for name in one}


def text_of_tree(tree: dict[str, Any]) -> str:
    """Return the tree of an expression as text of SQL."""
    match tree:
        case {"lit": None}:
            return "NULL"
        case {"lit": str(value)}:
            return "'" + value.replace("'", "''") + "'"
        case {"lit": value}:
            return str(value)
        case {"nav": name, "arg": arg}:
            offset = f", {tree['offset']}" if tree.get("offset") is not None else ""
            return f"{_semantics(tree)}{name}({text_of_tree(arg)}{offset})"
        case {"agg": name}:
            inside = ", ".join(map(text_of_tree, tree.get("args", ())))
            star = f"{tree['var']}.*" if tree.get("var") else "*"
            return f"{_semantics(tree)}{name}({inside or star})"
        case {"col": name}:
            return f'{tree["var"]}."{name}"' if tree.get("var") else f'"{name}"'
        case {"classifier": _}:
            return "CLASSIFIER()"
        case {"op": "not", "args": [one]}:
            return f"(NOT {text_of_tree(one)})"
        case {"op": "in", "args": [one, *others]}:
            return f"({text_of_tree(one)} IN ({', '.join(map(text_of_tree, others))}))"
        case {"op": "is_null" | "is_not_null" as name, "args": [one]}:
            return f"({text_of_tree(one)} {name.replace('_', ' ').upper()})"
        case {"op": "between", "args": [one, low, high]}:
            return f"({text_of_tree(one)} BETWEEN {text_of_tree(low)} AND {text_of_tree(high)})"
        case {"op": name, "args": args}:
            return "(" + f" {name.upper()} ".join(map(text_of_tree, args)) + ")"
        case {"fn": name, "args": args}:
            return f"{name}({', '.join(map(text_of_tree, args))})"
    raise ValueError(f"no text for {tree}")


def _semantics(tree: dict[str, Any]) -> str:
    return f"{tree['sem'].upper()} " if tree.get("sem") else ""


def select_of_esper(case: dict[str, Any], partition_by: tuple[str, ...] = ()) -> str:
    """Return a case of Esper as a SELECT from the table ``t``, whose column ``event`` numbers the rows.

    The result has the column ``measured x`` for the measure ``x``, since columns of the table may be named x.
    """
    many = repeated(case["pattern_ast"])
    skip = case["after_match_skip"]
    keys = [*case["partition_by"], *partition_by]
    measures = [
        f'{text_of_tree(of_sql(one["ast"], many))} AS "measured {one["name"]}"' for one in case["measures"]
    ]
    define = [f"{name} AS {text_of_tree(of_sql(one['ast'], many))}" for name, one in case["define"].items()]
    by = f"PARTITION BY {', '.join(keys)}\n" if keys else ""
    to = re.sub(r"_", " ", skip["mode"]).upper() + f" {skip.get('var', '')}"
    return (
        f"SELECT * FROM t MATCH_RECOGNIZE (\n{by}ORDER BY event\nMEASURES {', '.join(measures)}\n"
        f"AFTER MATCH SKIP {to}\nPATTERN ({case['pattern']})\nDEFINE {', '.join(define)})"
    )
