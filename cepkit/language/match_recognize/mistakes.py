"""The words for syntax errors in the texts of MATCH_RECOGNIZE."""

from __future__ import annotations

from cepkit.language.expressions.mistakes import Vocabulary

TOO_LARGE = "; hand the result to DuckDB or Spark SQL for the rest of the query"


_AFTER_A_FACTOR = frozenset({"STAR", "PLUS", "QUESTION", "LBRACE", "_BAR"})
_PRIMARIES = frozenset({"QUOTED", "PERMUTE", "CARET", "DOLLAR", "LPAR", "LEXCLUDE"})

ROW_PATTERN_WORDS = Vocabulary(
    expected=(
        ("NAME", _PRIMARIES | _AFTER_A_FACTOR | {"$END"}, ("a variable", "'('")),
        ("INT", frozenset({"_COMMA"}), ("a number",)),
        ("_COMMA", frozenset({"RBRACE"}), ("','", "'}'")),
        ("RBRACE", frozenset(), ("'}'",)),
        ("REXCLUDE", frozenset(), ("'-}'",)),
        ("RPAR", frozenset(), ("')'",)),
    ),
    mistakes=(
        (r"-+>|=>|\u2192|,|;", "write the variables one after the other, with blanks: A B"),
        (r"\|\|", "write one '|' between alternatives"),
        (r"&&?", "a row has one variable: put both conditions into its definition"),
        (r"[<>=]=?", "a pattern holds variables; put their conditions into DEFINE"),
        (r"[!~]", "a pattern has no negation: define a variable with the opposite condition"),
        (r"'(\w*)'?", r"write a variable without quotes: \1"),
        (r"\[", "write alternatives with '|': (A | B)"),
        (r"(?<=[*+?}])\s*[*+{]", "two quantifiers in a row; write a group: (A+)*"),
        (r"\.", "a pattern names variables; a variable without a definition takes any row"),
        (r"\b[0-9]+\w+", "a name begins with a letter or '_'"),
    ),
)

_OPERATORS = frozenset(
    {
        "_AND",
        "_OR",
        "NOT",
        "_IN",
        "_BETWEEN",
        "_IS",
        "_LIKE",
        "COMPARISON",
        "MULTIPLY",
        "PLUS",
        "MINUS",
        "_JOIN",
    }
    | {"LPAR", "DOT", "_OVER", "_FROM", "_FOR", "_ESCAPE"}
)
_OPERANDS = frozenset(
    {"QUOTED", "PARAMETER", "INT", "FLOAT", "STRING", "TYPED", "INTERVAL", "TRUE", "FALSE", "NULL", "LPAR"}
    | {"MINUS", "NOT", "CAST", "CASE", "ARRAY", "SEMANTICS", "DISTINCT", "MULTIPLY", "CLASSIFIER"}
    | {"PLUS", "POSITION", "TRIM_SIDE", "_SYMMETRIC"}
)

_AFTER_IS = ("NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT FROM")

SQL_EXPRESSION_WORDS = Vocabulary(
    expected=(
        ("INT", _OPERANDS | {"NAME"}, ("a value", "a column", "'('")),
        ("DISTINCT", frozenset({"NULL", "NOT", "TRUE", "FALSE", "NAME"}), _AFTER_IS),
        ("NAME", _OPERANDS, ("a name",)),
        ("COMPARISON", _OPERATORS, ("an operator",)),
        ("_OR", _OPERATORS, ("an operator",)),
        ("MULTIPLY", _OPERATORS - {"_AND"}, ("an arithmetic operator",)),
        ("_AND", frozenset(), ("AND with the upper bound",)),
        ("_IN", _OPERATORS, ("IN", "BETWEEN", "LIKE")),
        ("NULL", frozenset({"NOT"}), ("NULL", "NOT NULL")),
        ("STRING", frozenset(), ("a text in quotes",)),
        ("_FROM", frozenset(), ("FROM",)),
        ("LPAR", frozenset(), ("'('",)),
        ("DOT", frozenset(), ("'.'",)),
        ("LSQB", frozenset(), ("'['",)),
        ("RSQB", frozenset(), ("']'",)),
        ("_AS", frozenset(), ("AS",)),
        ("_WHEN", frozenset({"_ELSE", "END"}), ("WHEN", "ELSE", "END")),
        ("_THEN", frozenset(), ("THEN",)),
        ("END", frozenset(), ("END",)),
        ("COMMA", frozenset(), ("','",)),
        ("RPAR", frozenset(), ("')'",)),
        ("$END", frozenset(), ("the end of the expression",)),
    ),
    mistakes=(
        (r"===?", "write '='"),
        (r"!==", "write '<>'"),
        (r"=>", "write '>='"),
        (r"=<", "write '<='"),
        (r"\*\*|\^", "this operator does not exist; write POWER(x, y)"),
        (r"&&", "write AND"),
        (r"\w\s*\[[^\]]*\]?", "write A[0].x as FIRST(A.x), and A[1].x as FIRST(A.x, 1)"),
        (r"[$@]([^\W\d]\w*)|\?", r"write a parameter as :name"),
    ),
    reserved='; write a column of this name as "{}"',
)
