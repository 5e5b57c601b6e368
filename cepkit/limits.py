"""The limits of queries, in the order of the stages. Each stage checks its limit before it works.

A query beyond a limit is refused at once. The error says the limit, the size of the query, and what to do.
"""

from __future__ import annotations

from cepkit.errors import UnsupportedQueryError

# --- text and trees
TEXT = 100_000  # characters, besides the items of long lists of constants
DEPTH = 200  # levels of a tree; the passes that walk a deeper one would overflow the stack
REPEATS = 1_000_000  # rounds of a repetition with an upper bound
ENTRIES = 1_000  # of a list of MATCH_RECOGNIZE, such as DEFINE, and of the aggregates of a window
ROWS_BACK = 1_000_000  # prev(x, n) keeps n rows of each partition
NESTED_COMPARISONS = 3  # comparisons of comparisons; the code of each level holds the inner one four times

TICKS = 2**63 - 1  # of a window, in time and in events
LENGTH = 2**62  # rows of a window
ROWS = 2**63 - 1  # of LIMIT, and after a row in its frame

# --- normal form
QUERIES = 500  # of an app of SiddhiQL
QUERIES_IN_A_ROW = 50  # each reads what the one before writes; an event passes all of them at once
STATES = 200  # of a pattern of SiddhiQL
EVENTS = 200  # of a sequence, once its repeated groups are written out
BRANCHES = 720  # patterns without alternatives; six events in any order

# --- automata
POSITIONS = 62  # of a regex pattern: one bit each in a signed 64-bit integer
INSTRUCTIONS = 20_000  # of a row pattern, once its bounded quantifiers and PERMUTE are written out
TRANSITIONS = 400_000  # of the automaton of a row pattern
INSTRUCTIONS_FOLLOWED = 600_000  # to find these transitions
DRAWN_STATES = 4096  # of the automaton with one transition per state and name, for pictures only


# --- runs
PARTIAL_MATCHES = 200_000  # that wait at the same time in a pattern of SiddhiQL


def refuse_beyond(limit: int, asked: int, what: str, cure: str) -> None:
    """Raise if a query asks for more than a limit.

    Parameters
    ----------
    limit, asked : int
    what : str
        What is counted.
    cure : str
        What to do instead, as a sentence without its full stop.

    Examples
    --------
    >>> refuse_beyond(200, 5000, "events of the sequence", "Leave out some")
    Traceback (most recent call last):
    cepkit.errors.UnsupportedQueryError: events of the sequence: 5,000; the limit is 200. Leave out some
    """
    if asked > limit:
        shown = f"{asked:,}" if asked < 10**21 else f"a number of {len(str(asked))} digits"
        raise UnsupportedQueryError(f"{what}: {shown}; the limit is {limit:,}. {cure}")
