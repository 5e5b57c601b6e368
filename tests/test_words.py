"""Plain English: a list of words and constructions that comments, docstrings, messages and texts do not use.

The list holds only words that are almost never right; each rule allows for the idiomatic uses. A finding
names the file, the line and a proposal. ``NOT_YET`` lists the paths that are not edited yet. It can only
shrink: a path without findings has to leave it.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Files or folders whose findings do not count yet. Remove a path once its texts are edited.
NOT_YET: tuple[str, ...] = ()

# Names that two classes of the package share until one of them gets another name.
SHARED_NAMES_YET: tuple[str, ...] = ()

_START = r"(?:\A|(?<=[.!?:] ))"  # the start of a sentence or of a text
_NUMBER = r"one|two|three|four|five|each|any|all|none|some|both|most|many|few|half|either|neither|\d+"
# After "of these", they show that a noun is missing.
_FUNCTION_WORDS = (
    "a|after|all|and|are|as|at|before|but|by|can|each|else|for|from|has|have|if|in|is|it|may|most|must|no|not|of"
    "|on|one|only|or|some|that|the|to|was|were|when|where|which|who|whose|with|without"
)


class Rule(NamedTuple):
    """A construction to avoid, as a regular expression, and what to write instead."""

    pattern: re.Pattern
    proposal: str


def _rule(pattern: str, proposal: str) -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE), proposal)


RULES = (
    _rule(r"\banew\b", "write 'again' or 'new'"),
    _rule(r"\bof which\b", "split the sentence"),
    _rule(
        rf"(?:\b(?:{_NUMBER}) )?\bof (?:these|those)\b(?!-)(?:(?=$|[^\w ])|(?= (?:{_FUNCTION_WORDS})\b))",
        "name the things, or split the sentence",
    ),  # but: one of these; of these rows
    _rule(r"\bwhat\b[^.;]{1,60}\bof what\b", "split the sentence"),
    _rule(r"\bbehind\b", "write 'after'"),
    _rule(r"\bin front\b", "write 'before' or 'first'"),
    _rule(r"\bthat there (?:is|are)\b", "write 'that exists', or name the subject first"),
    _rule(r"\bthere (?:is|are) not\b(?! (?:an?|any|enough|yet)\b)", "write 'unknown' or 'does not exist'"),
    _rule(r"\b(?:is|are|was|were|be|being|been) told\b", "say who tells whom, in the active voice"),
    _rule(r"\b(?:is|are|was|were) asked\b", "write 'is requested', or say who asks"),
    _rule(r"\bso many\b(?! that\b)", "write 'this many' or the number"),
    _rule(r"\b(?:holds|knows|needs|has|takes|makes|finds) not\b", "write 'does not …'"),
    _rule(r"\bby now\b", "write 'already' or 'so far'"),
    _rule(r"\bgo(?:es)? on\b(?! (?:the|an?|top|its|their|one) )", "write 'continue'"),
    _rule(r"\bstands?\b(?! (?:for|out)\b)(?!-)", "write 'is', 'exists' or 'occurs'"),
    _rule(r"\bthe same of\b", "write 'the same for'"),
    _rule(rf"{_START}(?-i:Of) (?!course\b)", "begin with the subject"),
    _rule(rf"{_START}(?-i:Whose)\b", "begin with the subject"),
)


class Text(NamedTuple):
    """A text and where its lines begin."""

    place: str  # file, or notebook and cell
    line: int  # of the first character
    text: str


class Finding(NamedTuple):
    """A construction to avoid, where it is, and what to write instead."""

    place: str
    line: int
    excerpt: str
    proposal: str

    def __str__(self) -> str:
        return f"{self.place}:{self.line}: … {self.excerpt} … ({self.proposal})"


def find(text: Text) -> Iterator[Finding]:
    """Yield the findings of a text; a construction may be split between two lines."""
    plain = re.sub(r"``[^`\n]*``|`[^`\n]*`", "x", text.text)
    lines = [" ".join(re.sub(r"^\s*(?:#+|//|\*)\s", "", line).split()) for line in plain.split("\n")]
    first_of_line, words = [], ""
    for line in lines:
        words += " " if words and line else ""
        first_of_line.append(len(words))
        words += line
    for pattern, proposal in RULES:
        for match in pattern.finditer(words):
            if re.match(rf"(?:{_NUMBER}) of ", match[0], re.IGNORECASE):
                continue
            excerpt = words[max(0, match.start() - 30) : match.end() + 30].strip()
            line = text.line + bisect_right(first_of_line, match.start()) - 1
            yield Finding(text.place, line, excerpt, proposal)


# --- where texts are


def is_message(text: str) -> bool:
    """Return whether a string literal is prose: three words or more."""
    return len(re.findall(r"[A-Za-z']{2,}", text)) >= 3 and text.count(" ") >= 2


def python_texts(place: str, source: str) -> Iterator[Text]:
    """Yield the comments, docstrings and messages of Python source."""
    docstrings = set()
    nodes = [*ast.walk(ast.parse(source))]
    for node in nodes:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(
            node, clean=False
        ):
            constant = node.body[0].value
            docstrings.add(id(constant))
            prose = re.sub(r"(?m)^\s*(?:>>>|\.\.\.).*$", "", constant.value)
            # A blank line or a section ends a sentence, as a full stop does.
            line = constant.lineno
            for paragraph in re.split(r"(\n\s*\n|\n\s*-+\n)", prose):
                yield Text(place, line, paragraph)
                line += paragraph.count("\n")
    in_joined = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            message = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in in_joined:
            message = "" if id(node) in docstrings else node.value
        else:
            continue
        if is_message(message):
            yield Text(place, node.lineno, message)
    block: list[tuple[int, int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            alone = token.line[:column].strip() == ""
            if block and not (alone and block[-1][:2] == (line - 1, column)):
                yield Text(place, block[0][0], "\n".join(text for _, _, text in block))
                block = []
            block.append((line, column if alone else -1, token.string))
    if block:
        yield Text(place, block[0][0], "\n".join(text for _, _, text in block))


_SCRIPT = re.compile(
    r"(?P<comment>(?:(?<![:\w])//[^\n]*(?:\n\s*//[^\n]*)*)|/\*.*?\*/)"
    r"""|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)""",
    re.DOTALL,
)


def script_texts(place: str, source: str) -> Iterator[Text]:
    """Yield the comments and messages of JavaScript, or the comments of a grammar."""
    for match in _SCRIPT.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        if match["comment"]:
            yield Text(place, line, match["comment"])
        elif is_message(match["text"]) and not place.endswith(".lark"):
            yield Text(place, line, re.sub(r"\$\{[^}]*\}", "{}", match["text"].strip("\"'`")))


def markdown_texts(place: str, source: str, first_line: int = 1) -> Iterator[Text]:
    """Yield the paragraphs of Markdown without code blocks and without the targets of links."""
    source = re.sub(r"(?ms)^\s*```.*?^\s*```", lambda code: "\n" * code[0].count("\n"), source)
    source = re.sub(r"\]\([^)\s]*\)", "]", source)
    line = first_line
    for paragraph in re.split(r"(\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.) ?))", source):
        yield Text(place, line, paragraph)
        line += paragraph.count("\n")


def notebook_texts(place: str, source: str) -> Iterator[Text]:
    """Yield the texts of a notebook; a line is counted within its cell."""
    for number, cell in enumerate(json.loads(source)["cells"]):
        if cell["cell_type"] == "markdown":
            yield from markdown_texts(f"{place} cell {number}", "".join(cell["source"]))


READERS = {
    ".py": python_texts,
    ".js": script_texts,
    ".lark": script_texts,
    ".md": markdown_texts,
    ".ipynb": notebook_texts,
}
PATHS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in (
        "cepkit/**/*.py", "cepkit/**/*.lark", "cepkit/README.md", "widgets/*.js", "README.md", ".github/*.md",
        "notebooks/*.ipynb", "notebooks/papers/**/*.py",
    )
    for path in ROOT.glob(pattern)
    if "_data" not in path.parts
)  # fmt: skip


@cache
def findings_of(path: str) -> tuple[Finding, ...]:
    """Return the findings of a file."""
    source = (ROOT / path).read_text(encoding="utf-8")
    return tuple(finding for text in READERS[Path(path).suffix](path, source) for finding in find(text))


def is_exempt(path: str) -> bool:
    """Return whether a path, or a folder of it, is in NOT_YET."""
    return any(path == entry or path.startswith(f"{entry}/") for entry in NOT_YET)


# --- the tests


def test_texts_are_plain_english():
    findings = [finding for path in PATHS if not is_exempt(path) for finding in findings_of(path)]
    assert not findings, f"{len(findings)} findings\n" + "\n".join(map(str, findings))


@pytest.mark.parametrize("entry", NOT_YET)
def test_the_list_of_exempt_paths_shrinks(entry):
    own = [path for path in PATHS if path == entry or path.startswith(f"{entry}/")]
    assert own, f"{entry} does not exist any more; remove it from NOT_YET"
    assert any(findings_of(path) for path in own), f"{entry} has no finding any more; remove it from NOT_YET"


@cache
def names_and_classes(path: Path) -> tuple[list[str], list[str]]:
    """Return the variables and parameters that a module binds, once for each place, and its classes."""
    names, classes = [], []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, ast.MatchAs) and node.name:
            names.append(node.name)
        elif isinstance(node, ast.ClassDef):
            classes.append(node.name)
    return names, classes


def test_names_say_what_they_hold():
    """A value is `arrow_type` or `matched_rows`, and not `of` or `found`."""
    words = {"own", "one", "found", "of", "made", "told", "said", "given", "known"}
    names = [name for path in (ROOT / "cepkit").rglob("*.py") for name in names_and_classes(path)[0]]
    assert len(names) > 10_000
    assert sum(name in words for name in names) <= 0.015 * len(names)


def test_class_names_are_unique():
    paths_of_name = defaultdict(list)
    for path in PATHS:
        if path.startswith("cepkit/") and path.endswith(".py"):
            for name in names_and_classes(ROOT / path)[1]:
                paths_of_name[name].append(path)
    shared = {name: paths for name, paths in paths_of_name.items() if len(paths) > 1}
    assert not {name: paths for name, paths in shared.items() if name not in SHARED_NAMES_YET}
    assert set(SHARED_NAMES_YET) <= set(shared), "a name is unique now; remove it from SHARED_NAMES_YET"


def test_all_kinds_of_texts_are_read():
    for pattern in (
        "cepkit/api/matching.py",
        "widgets/stepper.js",
        "README.md",
        "notebooks/00_quickstart.ipynb",
    ):
        assert pattern in PATHS
    assert len(PATHS) > 200


@pytest.mark.parametrize(
    "text",
    [
        "The kernel is compiled anew.",
        "Columns of which some are text.",
        "The rows, and of those the first.",
        "The first row behind\n    the match.",
        "The variables in front.",
        "The columns that there are.",
        "For keywords that there are not.",
        "Of sequences: the column of types.",
        "It is done. Of a match, the rows.",
        "It is told which rows match.",
        "The limit holds not.",
        "Repeated so many times.",
        "The search goes on there.",
        "It stands in brackets.",
    ],
)
def test_a_bad_sentence_is_found(text):
    assert list(find(Text("file", 1, text)))


@pytest.mark.parametrize(
    "text",
    [
        "One of these columns must exist.",
        "The sum of these 5 rows.",
        "The letter s stands for a state.",
        "So many that memory ends.",
        "There are not enough threads.",
        "The label goes on the axis.",
        "Of course.",
        "A parameter called `behind` and ``of which``.",
    ],
)
def test_a_good_sentence_passes(text):
    assert not list(find(Text("file", 1, text)))


def test_findings_name_their_line():
    source = '"""Return it.\n\nThe rows that are\nbehind the match.\n"""\n\nx = 1  # made anew\n'
    source += "# first\n# in\n# front\n"
    lines = sorted(finding.line for text in python_texts("file", source) for finding in find(text))
    assert lines == [4, 7, 9]
    script = "// one\n// two, behind\nlet x = 1;\nconst y = 'nothing stands in it';\n"
    lines = sorted(finding.line for text in script_texts("file.js", script) for finding in find(text))
    assert lines == [2, 4]
