"""Recognise the language of a text: SQL's MATCH_RECOGNIZE with the call that means the same, and others."""

from __future__ import annotations

import re

_CLAUSE = re.compile(
    r"\b(PARTITION\s+BY|ORDER\s+BY|MEASURES|(?:ONE\s+ROW|ALL\s+ROWS)\s+PER\s+MATCH|AFTER\s+MATCH|PATTERN(?=\s*\()"
    r"|WITHIN|SUBSET|DEFINE)",
    re.IGNORECASE,
)
_BRACKETS = {"(": 1, ")": -1}


def is_match_recognize(text: str) -> bool:
    """Return whether a text is SQL's MATCH_RECOGNIZE, or its clauses."""
    if re.search(r"\bMATCH_RECOGNIZE\b", text, re.IGNORECASE):
        return True
    if re.match(r"\s*SELECT\b", text, re.IGNORECASE) and re.search(r"\bWINDOW\b", text, re.IGNORECASE):
        return True
    clauses = _clauses(text)
    return "PATTERN" in clauses and "DEFINE" in clauses


_SEQUENCE = "write PATTERN SEQ(_ a, _ b) WHERE … WITHIN 5 min, with partition_by= for the key"
# What a text of another language looks like, what it is, and how the same is said here.
_OTHERS = (
    (
        r"(sequence|sample|join)\b[^\[]*\[\s*!?\w+\s+where\b|\w+\s+where\s",
        "EQL of Elastic",
        "call cep.eql(text, events=df, order_by=…, event_category=…)",
    ),
    (
        r"(\w+\s*)?\|\s*(where|scan|summarize|extend|project|sort|join|search|stats|eval|take|top)\b",
        "KQL or SPL",
        f"filter the frame with pandas, then {_SEQUENCE}",
    ),
    (
        r"(index\s*=|transaction\s+\w+\s)",
        "SPL of Splunk",
        "call df.cep.transaction(by=…, starts_with=…, ends_with=…, max_span=…)",
    ),
    (
        r"select\b.*\bfrom\s+pattern\s*\[|every\s+\w+\s*=",
        "EPL of Esper",
        "write PATTERN SEQ(A a, B b) WHERE …, with event_type= for the streams",
    ),
    (
        r"(from\b.*\binsert\s+into\b|define\s+stream\b|@app)",
        "SiddhiQL",
        "call cep.siddhi(text, Trades=trades, order_by=…)",
    ),
    (r"(select|create\s+stream)\b.*\bemit\s+changes\b", "ksqlDB's SQL", _SEQUENCE),
    (
        r"(select\b.*\bfrom|with\s+\w+\s+as\s*\()\b",
        "SQL",
        "call cep.sql(text, t=df) for a query with MATCH_RECOGNIZE; select rows with pandas or DuckDB first",
    ),
)


def other_language(text: str) -> str | None:
    """Return which language of others a text is written in and what to do, or None."""
    if not re.search(r"[=\"'\[\];<>@]|select\s+\*", text, re.IGNORECASE):  # words alone may be a regex
        return None
    for shape, language, advice in _OTHERS:
        if re.match(rf"\s*(?:{shape})", text, re.IGNORECASE | re.DOTALL):
            return f"this is {language}, not a query of cepkit; {advice}"
    return None


def call_of_match_recognize(text: str) -> str:
    """Return the call of ``df.cep.match`` for a text of MATCH_RECOGNIZE, without its measures."""
    clauses = _clauses(text)
    define = {}
    for entry in _split(clauses.get("DEFINE", "")):
        name, _, condition = re.sub(r"\s+", " ", entry).partition(" AS " if " AS " in entry else " as ")
        define[name.strip()] = re.sub(rf"\b{re.escape(name.strip())}\s*\.\s*", "", condition).strip()
    pattern = _inside(clauses.get("PATTERN", ""))
    defined_names = {name.lower() for name in define}
    pattern = re.sub(
        r"[^\W\d]\w*", lambda match: match[0] if match[0].lower() in defined_names else ".", pattern
    )
    pattern = re.sub(r"(?<=[+*?}])[?+]", "", re.sub(r"[\^$]", "", pattern))  # anchors, reluctant repetitions
    arguments = [f'"{" ".join(pattern.split())}"']
    if define:
        entries = ", ".join(f'"{name}": "{condition}"' for name, condition in define.items())
        arguments.append(f"define={{{entries}}}")
    for keyword, clause in (("partition_by", "PARTITION BY"), ("order_by", "ORDER BY")):
        if clause in clauses:
            names = [re.sub(r"(?i)\s+(asc|desc)$", "", name).strip() for name in _split(clauses[clause])]
            arguments.append(f"{keyword}={names}".replace("'", '"'))
    if match := re.match(
        r"\s*(?:INTERVAL\s*)?'?([\d.]+)'?\s*([a-z]+)", clauses.get("WITHIN", ""), re.IGNORECASE
    ):
        arguments.append(f'within="{match[1]} {match[2].lower()}"')
    return f"df.cep.match({', '.join(arguments)})"


def _clauses(text: str) -> dict[str, str]:
    """Return the text after each keyword of a clause, up to the next one. The first of a name counts."""
    text = re.sub(r"--[^\n]*", "", text)
    matches = list(_CLAUSE.finditer(text))
    clauses: dict[str, str] = {}
    for i, clause in enumerate(matches):
        end = matches[i + 1].start() if i + 1 < len(matches) else len(text)
        clauses.setdefault(re.sub(r"\s+", " ", clause[1].upper()), text[clause.end() : end])
    return clauses


def _inside(text: str) -> str:
    """Return the text inside the first pair of brackets."""
    begin, depth = text.find("("), 0
    for i, char in enumerate(text):
        depth += _BRACKETS.get(char, 0)
        if char == ")" and not depth:
            return text[begin + 1 : i]
    return text[begin + 1 :]


def _split(text: str) -> list[str]:
    """Return the parts of a list at its commas outside brackets; the list ends where a bracket closes it."""
    parts, depth, begin = [], 0, 0
    end = len(text)
    for i, char in enumerate(text):
        depth += _BRACKETS.get(char, 0)
        if depth < 0:
            end = i
            break
        if char == "," and not depth:
            parts.append(text[begin:i])
            begin = i + 1
    return [part.strip() for part in (*parts, text[begin:end]) if part.strip()]
