"""Keep what a call prepared from the columns of a frame, for the next call on the same frame."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from cepkit.events import EVENTS_PER_COUNT

# Frames change: users replace a column, or write its values in place. So a result is kept with a copy of the
# values that it was made from. It is used again only if the current values equal the copy. The comparison
# reads memory in order, which takes a hundredth of the time of sorting. Memory that never changes, as Arrow's
# texts, is kept itself, and is known by its address. Frames are not kept alive: when a frame ends, its
# results and copies are dropped.

FEWEST_ROWS = 20_000  # smaller frames are prepared again in a millisecond or two
MOST_BYTES = 1 << 28  # copies and results of all frames together; the oldest ones are dropped
_VALUES_PER_COMPARISON = 1 << 15  # their result fits the cache
_BYTES_PER_COMPARISON = 1 << 26  # Ctrl-C waits for one comparison at most


Result = tuple[np.ndarray, ...]
Make = Callable[[Sequence[np.ndarray]], Result]


class _Kept(NamedTuple):
    owner: weakref.ref
    values: tuple[np.ndarray, ...]
    result: Result
    never_change: bool = False  # the frame itself holds such values

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.result if self.never_change else (*self.values, *self.result)


# The entry that was used last is at the end. Every step is a single operation of a dictionary, so threads
# need no lock, and a frame may end at any moment. `list` copies the entries in one step. `tuple`
# may collect garbage in between, which may end a frame and change the dictionary.
_kept: dict[tuple[int, Hashable], _Kept] = {}
_results: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()  # by their id


def recall(owner: object, what: Hashable, values: Sequence[np.ndarray]) -> Result | None:
    """Return the result that was kept for a frame, or None if there is none for these values."""
    key = (id(owner), what)
    kept = _kept.get(key)
    if kept is None or kept.owner() is not owner or len(kept.values) != len(values):
        return None
    if not all(map(_are_equal, kept.values, values)):
        return None
    _kept.pop(key, None)
    _kept[key] = kept
    return kept.result


def reuse(
    owner: object | None, what: Hashable, values: Sequence[np.ndarray], make: Make, *,
    never_change: bool = False,
) -> Result:  # fmt: skip
    """Return ``make(values)``, or the result that was kept for a frame if it was made of equal values."""
    n_bytes = 0 if never_change else sum(array.nbytes for array in values)
    if owner is None or _are_few(values) or n_bytes > MOST_BYTES // 2:
        return make(values)
    result = recall(owner, what, values)
    if result is None:
        copies = tuple(values) if never_change else copies_of(values)
        result = make(copies)
        keep(owner, what, copies, result, never_change=never_change)
    return result


class Keeper:
    """Keeps arrays that derive from others for a frame. A copy or a pickle of it keeps nothing."""

    def __init__(self, owner: object | None, which: Hashable):
        self.owner, self.which = owner, which

    def __call__(self, what: str, values: np.ndarray, make: Callable[[], np.ndarray]) -> np.ndarray:
        """Return ``make()``, or what it returned for equal values."""
        return reuse(self.owner, (what, self.which), [values], lambda copies: (make(),))[0]

    def __reduce__(self) -> tuple:
        return Keeper, (None, self.which)


def copies_of(values: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return copies of arrays. A result made from the copies stays right for them if the frame changes."""
    # A result that is kept itself never changes, and needs no copy.
    return tuple(
        array if _results.get(id(array)) is array else np.array(array, order="C") for array in values
    )


def keep(
    owner: object, what: Hashable, values: tuple[np.ndarray, ...], result: Result, *,
    never_change: bool = False,
) -> None:  # fmt: skip
    """Keep a result, which becomes read-only. ``values`` are the copies that it was made from."""
    if _are_few(values):
        return
    key = (id(owner), what)
    try:
        kept = _Kept(weakref.ref(owner, lambda ended: _forget(key, ended)), values, result, never_change)
    except TypeError:  # not every object with the Arrow protocol allows weak references
        return
    if _bytes_of([kept]) > MOST_BYTES:
        return
    for array in result:
        array.flags.writeable = False
        _results[id(array)] = array
    _kept.pop(key, None)
    _kept[key] = kept
    while kept_bytes() > MOST_BYTES:
        _kept.pop(next(iter(list(_kept)), key), None)


def _are_few(values: Sequence[np.ndarray]) -> bool:
    return len(values) > 0 and len(values[0]) < FEWEST_ROWS


def kept_bytes() -> int:
    """Return how much memory the kept results and copies take."""
    return _bytes_of(list(_kept.values()))


def forget_all() -> None:
    """Drop everything that was kept."""
    _kept.clear()


def _bytes_of(entries: Sequence[_Kept]) -> int:
    """Return the memory of the arrays of entries; a result may also be a value of another entry."""
    return sum({id(array): array.nbytes for kept in entries for array in kept.arrays}.values())


def _forget(key: tuple[int, Hashable], ended: weakref.ref) -> None:
    """Drop a kept result when its frame has ended, unless another frame already has its key."""
    kept = _kept.get(key)
    if kept is not None and kept.owner is ended:
        _kept.pop(key, None)


def _are_equal(then: np.ndarray, now: np.ndarray) -> bool:
    """Return whether two arrays have the same bits."""
    if then.dtype != now.dtype or then.shape != now.shape:
        return False
    # What is kept never changes, so the same memory has the same values.
    if then is now or (then.strides == now.strides and _address(then) == _address(now)):
        return True
    if then.dtype == object:
        now = np.ascontiguousarray(now)
        return _are_equal(addresses_of(then), addresses_of(now))
    # Bits are compared, so a NaN equals itself.
    if then.flags.c_contiguous and now.flags.c_contiguous:
        return _are_bytes_equal(then, now)
    bits, step = np.dtype(f"u{then.dtype.itemsize}"), _VALUES_PER_COMPARISON
    then, now = then.view(bits), now.view(bits)
    return all(
        bool((then[low : low + step] == now[low : low + step]).all()) for low in range(0, len(then), step)
    )


def _are_bytes_equal(then: np.ndarray, now: np.ndarray) -> bool:
    """Return whether two contiguous arrays of one shape and type have the same bytes."""
    # The function of the C library takes half of the time of numpy, which writes a truth value for each item.
    n, first, second = then.nbytes, _address(then), _address(now)
    return not any(
        _compare_bytes(first + low, second + low, min(_BYTES_PER_COMPARISON, n - low))
        for low in range(0, n, _BYTES_PER_COMPARISON)
    )


_compare_bytes = (ctypes.CDLL("msvcrt") if sys.platform == "win32" else ctypes.CDLL(None)).memcmp
_compare_bytes.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_compare_bytes.restype = ctypes.c_int


def addresses_of(objects: np.ndarray) -> np.ndarray:
    """Return where the objects of a contiguous array lie, as long as the array lives."""
    return np.ctypeslib.as_array((ctypes.c_size_t * len(objects)).from_address(_address(objects)))


def _address(values: np.ndarray) -> int:
    return values.__array_interface__["data"][0]


# Whether the values of a column rise. Clocks do in most frames, and then nobody need sort or search them.


def is_rising(*keys: np.ndarray) -> bool:
    """Return whether no row is less than the one before. NaN beside another value makes it False."""
    return equals_by_step(*keys) is not None


def equals_by_step(*keys: np.ndarray) -> np.ndarray | None:
    """Return how many rows equal the next one, or None if they do not rise. The first key counts first."""
    # Each number is that of ``EVENTS_PER_COUNT`` rows, and the last row has no next one. What a step looks at
    # fits the cache. Rows without order are done after the first step.
    starts = range(0, len(keys[0]) - 1, EVENTS_PER_COUNT)
    n_equal = np.zeros(len(starts), np.int64)
    for step, low in enumerate(starts):
        key_parts = [key[low : low + EVENTS_PER_COUNT + 1] for key in keys]
        n = len(key_parts[0]) - 1
        n_greater = np.count_nonzero(_is_greater(key_parts, False))
        if n_greater < n and not _is_greater(key_parts, True).all():
            return None
        n_equal[step] = n - n_greater
    return n_equal


def _is_greater(keys: list[np.ndarray], or_equal: bool) -> np.ndarray:
    """Return whether each row but the first is greater than the one before."""
    *first, last = keys
    greater = (np.greater_equal if or_equal else np.greater)(last[1:], last[:-1])
    for key in reversed(first):
        later, earlier = key[1:], key[:-1]
        greater = (later > earlier) | ((later == earlier) & greater)
    return greater
