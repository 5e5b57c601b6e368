"""What the functions of single values take in MATCH_RECOGNIZE: the number of arguments, and their types."""

from __future__ import annotations

from dataclasses import dataclass

# The types of arguments are those of `cepkit.events`, "number" for integers and floats, and "any".
ANY = "any"
UNITS_OF_TIME = ("millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
# Functions whose first argument is a unit of time, with the arguments after it.
WITH_UNIT = {
    "date_trunc": ("ts",),
    "date_diff": ("first", "last"),
    "datediff": ("first", "last"),
    "timestampdiff": ("first", "last"),
}
# The fields of EXTRACT, with the function that means the same.
FIELDS = {
    **{name: name for name in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")},
    **{
        "dow": "day_of_week",
        "day_of_week": "day_of_week",
        "doy": "day_of_year",
        "day_of_year": "day_of_year",
    },
    **{"epoch": "epoch"},
}


@dataclass(frozen=True, slots=True)
class Signature:
    """The types that each argument may have."""

    # The types of each argument. Those of the last one serve all further ones if ``is_open``.
    takes: tuple[tuple[str, ...], ...]
    n_required: int  # how many arguments a call needs
    is_open: bool = False  # whether any number of further arguments may follow

    def types_of(self, place: int) -> tuple[str, ...]:
        """Return the types that the argument at a place may have, counted from 0."""
        return self.takes[min(place, len(self.takes) - 1)]

    def accepts(self, n: int) -> bool:
        """Return whether a call may have ``n`` arguments."""
        return self.n_required <= n and (self.is_open or n <= len(self.takes))

    def __str__(self) -> str:
        most = len(self.takes)
        if self.is_open:
            return f"{self.n_required} arguments or more"
        if self.n_required == most:
            return f"{most} argument{'s' * (most != 1)}"
        joined = "or" if most == self.n_required + 1 else "to"
        return f"{self.n_required} {joined} {most} arguments"


def _signature(words: str) -> Signature:
    """Return a signature: ``|`` is between types, ``?`` after optional and ``+`` after repeated ones."""
    parts = words.split()
    takes = tuple(tuple(part.rstrip("?+").split("|")) for part in parts)
    return Signature(takes, sum(not part.endswith("?") for part in parts), words.endswith("+"))


_TAKES = {
    "abs sign": "number|duration",
    "sqrt exp ln log2 log10 floor ceil ceiling": "number",
    "power pow": "number number",
    "trunc truncate": "number integer?",
    "least greatest": "any any+",
    "nullif": "any any",
    "coalesce nvl ifnull": "any+",
    "lower upper reverse char_length character_length": "text",
    "length": "text|list",
    "starts_with ends_with strpos": "text text",
    "substring substr": "text integer integer?",
    "trim ltrim rtrim": "text text?",
    "replace": "text text text?",
    "lpad rpad": "text integer text?",
    "split_part": "text text integer",
    "year quarter month week week_of_year day day_of_month hour minute second": "time",
    "day_of_week dow day_of_year doy": "time",
    "epoch": "time|duration",
    "date_trunc": "text time",
    "date_diff datediff timestampdiff": "text time time",
}
SIGNATURES = {name: _signature(takes) for names, takes in _TAKES.items() for name in names.split()}

# Functions of other engines, with what to write instead.
_TIME_OF_TEXT = (
    "write a constant as TIMESTAMP '2024-01-31 09:30:00' or DATE '2024-01-31', and convert a column of "
    "texts before the query"
)
_MOVED = "write ts + INTERVAL '5' MINUTE"
FOREIGN_FUNCTIONS = {
    **dict.fromkeys(
        ("to_date", "to_timestamp", "date_parse", "parse_datetime", "str_to_date"), _TIME_OF_TEXT
    ),
    **dict.fromkeys(("date_add", "dateadd", "timestampadd", "date_sub"), _MOVED),
    **dict.fromkeys(("now", "getdate", "sysdate"), "give the time as a parameter, :now"),
    **dict.fromkeys(("dayofweek", "weekday"), "write DAY_OF_WEEK(ts), where Monday is 1 and Sunday is 7"),
    **dict.fromkeys(("instr", "charindex", "locate"), "write STRPOS(text, part)"),
    "dayofyear": "write DAY_OF_YEAR(ts)",
    "dayofmonth": "write DAY(ts)",
    "left": "write SUBSTRING(text, 1, n)",
    "right": "write SUBSTRING(text, -n)",
}
