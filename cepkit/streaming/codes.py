"""Codes of texts and keys that do not change while a stream brings new ones."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cepkit.events import NULL_CODE

Key = tuple[Hashable, ...]


class TextCodes:
    """Codes of texts in the order of their first occurrence; a missing text is -1.

    ``texts`` are the first ones. If they are complete and sorted, codes are ranks.
    """

    def __init__(self, texts: Sequence[str] = ()):
        self.code_of_text: dict[str, int] = {text: code for code, text in enumerate(texts)}
        self._room = np.array([*texts, None], dtype=object)

    def __len__(self) -> int:
        return len(self.code_of_text)

    @property
    def texts(self) -> np.ndarray:
        """The texts by code, as objects; a view that later texts do not change."""
        return self._room[: len(self)]

    def encode(self, codes: np.ndarray, categories: np.ndarray) -> np.ndarray:
        """Translate codes of ``categories`` into codes of this object, int32. O(values + categories)."""
        own = np.full(len(categories) + 1, NULL_CODE, np.int32)  # -1 reads the last one
        for i, text in enumerate(categories):
            code = self.code_of_text.get(text)
            own[i] = self._add(text) if code is None else code
        return own[codes]

    def _add(self, text: str) -> int:
        code = self.code_of_text[text] = len(self.code_of_text)
        if code >= len(self._room):
            room = np.empty(2 * len(self._room) + 8, dtype=object)
            room[: len(self._room)] = self._room
            self._room = room
        self._room[code] = text
        return code


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partition codes of a batch, and the changes of the keys after the batch.

    A key that was idle for too long gets a new code. ``runs`` are new (key, code, clock of the last event);
    the last run of a key wins. ``ended`` are codes that no event at the end of the batch or later has.
    """

    codes: np.ndarray  # int32, (n_events,)
    runs: list[tuple[Key, int, float]]
    ended: list[int]
    taken: list[int]  # codes that were free before the batch


class KeyCodes:
    """Partition codes of keys; codes of forgotten keys are used again.

    Parameters
    ----------
    idle_ticks : int or float, optional
        A key that pauses for longer than this starts again as a new key, even if it was not forgotten during
        the pause. So the result does not depend on how the stream is cut into batches.
    """

    def __init__(self, idle_ticks: float | None = None):
        self.idle_ticks = idle_ticks
        self.code_of_key: dict[Key, int] = {}
        self.key_of_code: list[Key | None] = []
        self.newest_of_code = np.empty(0)  # clock of the last event, int64 or float64; with idle_ticks
        self.free: list[int] = []

    def __len__(self) -> int:
        return len(self.code_of_key)

    @property
    def n_codes(self) -> int:
        """The codes are below this number."""
        return len(self.key_of_code)

    def assign(self, own: np.ndarray, keys: list[Key], clock: np.ndarray | None) -> Assignment:
        """Choose the codes of a batch; call `commit` or `discard` next.

        Parameters
        ----------
        own : ndarray of int, shape (n_events,)
            Index of each event's key in ``keys``.
        keys : list of tuple
            The distinct keys of the batch.
        clock : ndarray, shape (n_events,), optional
            In stream order; required with ``idle_ticks``.
        """
        taken: list[int] = []
        known = [self.code_of_key.get(key, -1) for key in keys]
        if self.idle_ticks is None or clock is None:
            runs = []
            for i, key in enumerate(keys):
                if known[i] < 0:
                    known[i] = self._take(key, taken)
                    runs.append((key, known[i], 0))
            return Assignment(np.array(known, np.int32)[own], runs, [], taken)
        return self._assign_runs(own, keys, clock, np.array(known, dtype=np.int64), taken)

    def _assign_runs(self, own, keys, clock, known, taken) -> Assignment:
        """Cut each key's events into runs without a long pause; a run gets a new code unless it continues."""
        order = np.argsort(own, kind="stable")
        key_of_row, clock_of_row = own[order], clock[order]
        is_first = np.concatenate([[True], key_of_row[1:] != key_of_row[:-1]])
        before = np.roll(clock_of_row, 1)
        first_keys = key_of_row[is_first]
        continued = known[first_keys] >= 0
        before[is_first] = clock_of_row[is_first]
        before[np.flatnonzero(is_first)[continued]] = self.newest_of_code[known[first_keys[continued]]]
        is_new = is_first.copy()
        is_new[is_first] = ~continued
        is_new |= clock_of_row - before > self.idle_ticks
        begins = np.flatnonzero(is_first | is_new)
        stops = np.append(begins[1:], len(order))
        runs, ended = [], []
        for begin, stop in zip(begins, stops, strict=True):
            k = key_of_row[begin]
            code = self._take(keys[k], taken) if is_new[begin] else int(known[k])
            runs.append((keys[k], code, clock_of_row[stop - 1].item()))
            if is_first[begin] and is_new[begin] and known[k] >= 0:
                ended.append(int(known[k]))
        ended += [one for (key, one, _), (other, _, _) in pairwise(runs) if key == other]
        codes = np.empty(len(own), np.int32)
        codes[order] = np.repeat(np.array([code for _, code, _ in runs], np.int32), stops - begins)
        return Assignment(codes, runs, ended, taken)

    def _take(self, key: Key, taken: list[int]) -> int:
        if self.free:
            code = self.free.pop()
            self.key_of_code[code] = key
        else:
            code = len(self.key_of_code)
            self.key_of_code.append(key)
        taken.append(code)
        return code

    def commit(self, assignment: Assignment) -> list[int]:
        """Apply an assignment and return the codes to forget, which later keys may use again."""
        for key, code, _ in assignment.runs:
            self.code_of_key[key] = code
        if self.idle_ticks is not None and assignment.runs:
            dtype = np.array([last for _, _, last in assignment.runs]).dtype
            if len(self.newest_of_code) < self.n_codes:
                grown = np.zeros(2 * self.n_codes, dtype)
                grown[: len(self.newest_of_code)] = self.newest_of_code
                self.newest_of_code = grown
            for _, code, last in assignment.runs:
                self.newest_of_code[code] = last
        for code in assignment.ended:
            self.key_of_code[code] = None
        self.free += assignment.ended
        return assignment.ended

    def discard(self, assignment: Assignment) -> None:
        """Undo `assign`."""
        for code in assignment.taken:
            self.key_of_code[code] = None
        self.free += assignment.taken

    def end_idle(self, now: float) -> list[int]:
        """Forget the keys without an event in the ``idle_ticks`` before ``now``, and return their codes."""
        if self.idle_ticks is None:
            return []
        idle = np.flatnonzero(now - self.newest_of_code[: self.n_codes] > self.idle_ticks)
        ended = [int(code) for code in idle if self.key_of_code[code] is not None]
        for code in ended:
            del self.code_of_key[self.key_of_code[code]]
            self.key_of_code[code] = None
        self.free += ended
        return ended
