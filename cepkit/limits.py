"""The limits of queries, in the order of the stages, and the limit of memory.

Each stage checks its limit before it works. A query beyond a limit is refused at once. The error says the
limit, the size of the query, and what to do. Work that collects results checks how much memory they take.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextvars import ContextVar, Token
from dataclasses import dataclass
from pathlib import PurePosixPath

from cepkit.errors import CepError, ResultTooLargeError, UnsupportedQueryError, short_text

# --- text and trees
TEXT = 100_000  # characters, besides the items of long lists of constants
WORDS = 10_000  # names, numbers and signs, besides the same items; the parser takes a step for each
DEPTH = 100  # levels of a tree; the passes that walk a deeper one would overflow the stack
CONDITIONS = 2_500  # comparisons, or parts of AND and OR, of a text; each is walked by some twenty passes
REPEATED_PARTS = 20_000  # in a tree; BETWEEN has its operand twice, so BETWEEN inside BETWEEN doubles them
REPEATS = 1_000_000  # rounds of a repetition with an upper bound
ENTRIES = 1_000  # of a list of MATCH_RECOGNIZE, such as DEFINE, and of the aggregates of a window
NODES = 100_000  # of a document of YAML, with its aliases written out; aliases of aliases double them
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
THREADS = 512  # every thread has buffers of its own, for every agent and for every other thread
EVENTS_TOGETHER = 2**40  # that a thread takes at once; a frame has fewer


def refuse_beyond(limit: int, asked: int, what: str, cure: str) -> None:
    """Raise if a query asks for more than a limit."""
    if asked > limit:
        shown = f"{asked:,}" if asked < 10**21 else f"a number of {len(str(asked))} digits"
        raise UnsupportedQueryError(f"{what}: {shown}; the limit is {limit:,}. {cure}")


# --- memory

_HALF = -1  # stands for half of the free memory
_SMALL = 1 << 26  # bytes that are always there; the free memory is not even looked at
_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12} | {
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40
}  # fmt: skip
_SIZE = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-z]+)\s*", re.IGNORECASE)
_GROUPS = PurePosixPath("/sys/fs/cgroup")
_FILES = (  # of a control group: its limit and its use
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)
MemoryLimit = int | str | None


@dataclass
class MemoryBudget:
    """The most memory that some work may take for what it collects."""

    # In bytes; None for any amount, and ``_HALF`` for half of the memory that is free at each check.
    limit: int | None
    cure: str  # what to do instead, as a sentence without its full stop
    _passes: int = _SMALL  # up to this many bytes, the free memory is not looked at again
    _before: Token | None = None  # what the block around this one obeys

    def __enter__(self) -> None:
        self._before = _budget.set(self)

    def __exit__(self, *_: object) -> None:
        assert self._before is not None
        _budget.reset(self._before)

    def exceeded(self, n_bytes: int, *, is_held: bool) -> int | None:
        """Return the limit in bytes if ``n_bytes`` are more, otherwise None; see `check_memory`."""
        if self.limit is None or n_bytes <= (self._passes if self.limit < 0 else self.limit):
            return None
        if self.limit >= 0:
            return self.limit
        free = free_memory()
        if free is None:
            self.limit = None
            return None
        half = (free + (n_bytes if is_held else 0)) // 2
        if n_bytes > half:
            return half
        self._passes = n_bytes + (half - n_bytes) // 8  # a look takes as long as a thousand matches
        return None

    def check(self, n_bytes: int, what: str, *, is_held: bool) -> None:
        """Raise if ``n_bytes`` are more than the limit; see `check_memory`."""
        most = self.exceeded(n_bytes, is_held=is_held)
        if most is not None:
            take = "already take" if is_held else "would take"
            half = ", half of the free memory" if self.limit == _HALF else ""
            raise ResultTooLargeError(
                f"{what} {take} about {size_text(n_bytes)}; memory_limit is {size_text(most)}{half}. "
                f"{self.cure}, or raise memory_limit="
            )


_budget: ContextVar[MemoryBudget | None] = ContextVar("cepkit memory", default=None)


def bound_memory(limit: MemoryLimit, cure: str) -> MemoryBudget:
    """Let every `check_memory` in this block obey a limit."""
    return MemoryBudget(memory_limit_of(limit), cure)


def check_memory(n_bytes: int, what: str, *, is_held: bool = False) -> None:
    """Raise if what is collected exceeds the limit of the surrounding `bound_memory` block."""
    # Loops that collect results call this between two calls of a kernel. It takes about 0.1 µs.
    budget = _budget.get()
    if budget is not None:
        budget.check(n_bytes, what, is_held=is_held)


def refuse_limit_on_spark(limit: MemoryLimit) -> None:
    """Raise if a limit is given for a Spark frame, whose tasks have their own."""
    if limit != "auto":
        raise UnsupportedQueryError(
            f"memory_limit={limit!r}: the settings of Spark bound the memory of its tasks, such as "
            "spark.executor.memory. Leave memory_limit out"
        )


def fits_memory(n_bytes: int, *, is_held: bool = False) -> bool:
    """Return whether `check_memory` would let this much pass."""
    budget = _budget.get()
    return budget is None or budget.exceeded(n_bytes, is_held=is_held) is None


def memory_limit_of(given: MemoryLimit) -> int | None:
    """Return a memory limit in bytes; None for no limit, -1 for half of the free memory."""
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given > 0):
        return given
    if isinstance(given, str):
        if given == "auto":
            return _HALF
        found = _SIZE.fullmatch(given)
        if found and found[2].lower() in _UNITS and float(found[1]) > 0:
            return max(1, round(float(found[1]) * _UNITS[found[2].lower()]))
    raise CepError(
        f"memory_limit={short_text(repr(given))}: give a size such as '2 GB', a number of bytes, 'auto' for "
        "half of the free memory, or None for no limit"
    )


def size_text(n_bytes: int) -> str:
    for unit, of in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n_bytes >= 10**18:
            return f"10^{int((n_bytes // of).bit_length() * 0.30103)} {unit}"
        if n_bytes >= of:
            number = n_bytes / of
            return f"{number:,.1f} {unit}" if number < 100 else f"{number:,.0f} {unit}"
    return f"{n_bytes} bytes"


def free_memory() -> int | None:
    """Return how many bytes this process can still take, or None if the system does not say."""
    # It is the least of the free memory of the machine, of its control group, and of ``ulimit -v``.
    known = [
        free for free in (_free_of_machine(), *_free_of_groups(), _free_of_process()) if free is not None
    ]
    return max(0, min(known)) if known else None


def _free_of_machine() -> int | None:
    text = _read("/proc/meminfo")
    if found := re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE):
        return int(found[1]) << 10
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2  # nobody says what is free
    except (AttributeError, ValueError, OSError):
        return None


def _free_of_groups() -> Iterator[int]:
    """Yield what is free in the control groups of this process that have a limit."""
    own = re.search(r"^\d+:(?:[^:]*\bmemory\b[^:]*)?:/(.*)$", _read("/proc/self/cgroup"), re.MULTILINE)
    inner = PurePosixPath(own[1] if own else "")
    for group in {root / up for root in (_GROUPS, _GROUPS / "memory") for up in (inner, *inner.parents)}:
        for limit, use in _FILES:
            most, used = _read(str(group / limit)).strip(), _read(str(group / use)).strip()
            if most.isdigit() and used.isdigit():  # the limit is "max" if there is none
                text = _read(str(group / "memory.stat"))
                files = re.search(r"^(?:total_)?inactive_file (\d+)", text, re.MULTILINE)  # can be given back
                yield int(most) - int(used) + (int(files[1]) if files else 0)


def _free_of_process() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    used = _read("/proc/self/statm").split()
    if most == resource.RLIM_INFINITY or not used:
        return None
    return most - int(used[0]) * resource.getpagesize()


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""
