"""The keys on a board: which key the user chose, its trait, and the list of keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cepkit.errors import CepError
from cepkit.explorer.presenting.shown import KEYS, Shown
from cepkit.explorer.running.keys import BY_NAME, Keys
from cepkit.explorer.running.result import Result
from cepkit.explorer.running.worker import Turn


class KeyPresenter:
    """Knows the keys of the frame and the one that the user chose, and shows pages of their list."""

    def __init__(self, shown: Shown):
        self._shown = shown
        self.chosen: Callable[[tuple | None], object] = lambda before: None  # gets the key before
        # Key columns, key and name of the key that the user chose; the key is None until it is looked up.
        self._kept: tuple[tuple[str, ...], int | None, str] | None = None
        self._keys: Keys | None = None
        self.order = BY_NAME  # of the list of keys, as the user chose it

    # --- the chosen key

    @property
    def kept(self) -> tuple[tuple[str, ...], str] | None:
        """The key columns and the name of the key that the user chose, or None."""
        return self._kept and (self._kept[0], self._kept[2])

    def keep(self, key: tuple[tuple[str, ...], str] | None) -> None:
        """Keep a key by its columns and name, or none; the next picture of the timeline shows it."""
        self._kept = None if key is None else (key[0], None, key[1])
        if key is None:
            self._shown.partition = None

    def forget(self) -> None:
        """Let the matches determine the key; the shown key stays."""
        self._kept = None

    def kept_partition(self, program: Any, events: Any) -> int | None:
        """Return the key that the user chose, or None."""
        if self._kept is None or events.n_partitions < 2:
            return None
        by, partition, name = self._kept
        if by != program.query.partition_by:
            return None
        keys = self.of(program, events) if partition is None else None
        return partition if keys is None else keys.partition_of(name)

    def choose(self, partition: int | None, step: int, name: str | None) -> int:
        """Keep a key as the user's choice and return it.

        The user gives its number, its name, or its distance ``step`` to the shown key.

        """
        program = self._shown.program
        keys = None if program is None else self.of(program, self._shown.data.events(program))
        if keys is None:
            raise CepError("show_key: the data has no keys; choose key columns first")
        now = self._shown.partition
        if name is not None:
            partition = keys.partition_of(name)
            if partition is None:
                raise CepError(f"show_key: there is no key {name!r}")
        elif partition is None:
            partition = keys.neighbour(now, step)
        before = self.name_of_shown()
        self._kept = keys.by, partition, keys.name_of(partition)
        self.chosen(before)
        return partition

    def name_of_shown(self) -> tuple[tuple[str, ...], str] | None:
        """Return the key columns and the name of the shown key; None without keys."""
        program, now = self._shown.program, self._shown.partition
        keys = None if program is None else self.of(program, self._shown.data.events(program))
        return None if keys is None or now is None else (keys.by, keys.name_of(now))

    # --- all keys

    def of(self, program: Any, events: Any) -> Keys | None:
        """Return the keys of the frame by the key columns of a query, or None without keys."""
        by = program.query.partition_by
        if not by or not events.n_events:
            return None
        if self._keys is None or self._keys.by != by:
            self._keys = Keys(self._shown.data.source, events, by)
        return self._keys

    def trait_of(self, result: Result, partition: int | None) -> dict[str, Any]:
        """Return the trait of a key of a result."""
        keys = self.of(result.program, result.events)
        counts = result.counts_by_partition if result.is_counted else None
        return {} if keys is None else keys.describe(partition or 0, counts)

    def keep_order(self, order: str) -> None:
        """Keep an order for the list of keys, which the next page has."""
        self.order = order
        self._shown.board.set(self._shown.board.bar, {"found": {"order": order}})

    def find(self, search: str, order: str, page: int) -> None:
        """Show a page of the keys that contain a text."""
        self.order = order
        self._shown.worker.submit(KEYS, lambda turn: self._find(turn, search, order, page))

    def _find(self, turn: Turn, search: str, order: str, page: int) -> None:
        shown, board = self._shown, self._shown.board
        result, program = shown.result, shown.program
        keys = None if program is None else self.of(program, shown.data.events(program))
        if keys is None:
            return
        counts = result.counts_by_partition if result is not None and result.is_counted else None
        found = keys.find(search, order, page, shown.partition, counts)
        turn.deliver(lambda: board.set(board.bar, {"found": found}))
