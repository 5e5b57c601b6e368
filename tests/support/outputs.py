"""The outputs of a cell, as a notebook keeps them."""

from __future__ import annotations

from typing import Any


class Outputs:
    """Stands in for `IPython.display.display`: keeps outputs in their order and follows updates.

    Attributes
    ----------
    kept : list of dict
        The data of each output.
    told : list of dict
        The data of each message, in the order of time.
    """

    def __init__(self):
        self.kept: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []
        self._places: dict[str, int] = {}

    def display(
        self, data: dict[str, Any], *, display_id: str = "", update: bool = False, **more: Any
    ) -> None:
        """Add an output, or replace the one with this id."""
        self.told.append(data)
        if update:
            self.kept[self._places[display_id]] = data
            return
        if display_id:
            assert display_id not in self._places
            self._places[display_id] = len(self.kept)
        self.kept.append(data)
