"""Codes of texts and keys that do not change while a stream brings new ones."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cepkit.events import NULL_CODE

Key = tuple[Hashable, ...]


_FEWEST_NEW = 1 << 14  # texts before the first look for texts that nothing needs


class TextCodes:
    """Codes of texts in the order of their first occurrence; a missing text is -1.

    Codes of forgotten texts are used again. ``ranked`` are all texts of a column in their own order. Codes
    are then ranks, and no text is forgotten.

    """

    def __init__(self, ranked: Sequence[str] = ()):
        self._is_ranked = len(ranked) > 0
        self._n_new, self._n_new_until_due = 0, _FEWEST_NEW
        self._restore([*ranked], [])

    def _restore(self, texts: list[str], free: list[int]) -> None:
        """Set the texts by code, and the codes without a text."""
        self._room = np.array([*texts, None], dtype=object)
        self._n_codes, self._free = len(texts), free
        has_none = set(free)
        self.code_of_text = {text: code for code, text in enumerate(texts) if code not in has_none}
        self._changed = [*range(len(texts))]

    def __len__(self) -> int:
        """Return the number of codes; those of forgotten texts are among them."""
        return self._n_codes

    @property
    def texts(self) -> np.ndarray:
        """The texts by code, as objects; a view that later texts do not change.

        A code without a text has the text that it had before.

        """
        return self._room[: self._n_codes]

    def encode(self, codes: np.ndarray, categories: np.ndarray) -> np.ndarray:
        """Translate codes of ``categories`` into codes of this object, int32. O(values + categories)."""
        own = np.full(len(categories) + 1, NULL_CODE, np.int32)  # -1 reads the last one
        is_copied = False
        for i, text in enumerate(categories):
            code = self.code_of_text.get(text)
            if code is None:
                if self._free and not is_copied:
                    self._room, is_copied = self._room.copy(), True
                code = self._add(text)
            own[i] = code
        return own[codes]

    def _add(self, text: str) -> int:
        if self._free:
            code = self._free.pop()
        else:
            code, self._n_codes = self._n_codes, self._n_codes + 1
        self.code_of_text[text] = code
        if code >= len(self._room):
            room = np.empty(2 * len(self._room) + 8, dtype=object)
            room[: len(self._room)] = self._room
            self._room = room
        self._room[code] = text
        self._changed.append(code)
        self._n_new += 1
        return code

    def take_changed(self) -> np.ndarray:
        """Return the codes with other texts than at the last call, int64."""
        changed, self._changed = self._changed, []
        return np.array(changed, np.int64)

    @property
    def has_changed(self) -> bool:
        """Whether a code has another text than at the last `take_changed`."""
        return bool(self._changed)

    # --- forgetting

    @property
    def is_due(self) -> bool:
        """Whether a look for texts that nothing needs pays, after many new ones."""
        return not self._is_ranked and self._n_new >= self._n_new_until_due

    def forget(self, is_needed: np.ndarray, looked_at: int = 0) -> None:
        """Forget the texts that nothing needs."""
        if self._is_ranked:
            return
        needed = np.zeros(self._n_codes, bool)
        needed[: len(is_needed)] = is_needed[: self._n_codes]
        for code in np.flatnonzero(~needed).tolist():
            text = self._room[code]
            if self.code_of_text.get(text) == code:
                del self.code_of_text[text]
                self._free.append(code)
        self._n_new = 0
        self._n_new_until_due = max(_FEWEST_NEW, len(self.code_of_text), looked_at // 8)

    # --- saving

    def pack(self) -> pa.Table:
        """Return the texts by code, and which codes are free."""
        is_free = np.zeros(self._n_codes, bool)
        is_free[self._free] = True
        return pa.table({"text": pa.array(self.texts.tolist(), pa.large_string()), "is_free": is_free})

    def unpack(self, packed: pa.Table) -> None:
        """Restore what `pack` returned."""
        is_free = packed.column("is_free").to_pylist() if "is_free" in packed.schema.names else []
        free = [code for code, is_one in enumerate(is_free) if is_one]
        self._restore(packed.column("text").to_pylist(), free)


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
    """Partition codes of keys; codes of forgotten keys are used again."""

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
        """Choose the codes of a batch; call `commit` or `discard` next."""
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
