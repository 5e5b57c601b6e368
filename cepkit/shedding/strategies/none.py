"""The strategy that drops nothing, as the reference of all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cepkit.shedding.strategies.strategy import Shedder, Training


@dataclass(frozen=True)
class NoShedding:
    """Process every event, however late."""

    name: ClassVar[str] = "none"

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that drops nothing."""
        return Shedder()
