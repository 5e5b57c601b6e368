"""The faults of ``faults.toml`` as values."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Fault:
    """A change of one line, what it breaks, and tests that see it."""

    id: str
    file: str
    before: str
    after: str
    breaks: str
    seen_by: tuple[str, ...]

    @property
    def room(self) -> str:
        """The room of the file: a folder of the package, or a module that lies beside the folders."""
        return Path(self.file).parts[1].removesuffix(".py")

    def applied(self, text: str) -> str:
        """Return the text of the file with the fault."""
        if text.count(self.before) != 1:
            raise ValueError(
                f"{self.id}: {self.before!r} stands {text.count(self.before)} times in {self.file}"
            )
        return text.replace(self.before, self.after)


def read_faults() -> tuple[dict[str, list[str]], list[Fault]]:
    """Return the tests of each room, and the faults."""
    content = tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))
    faults = [Fault(**{**fault, "seen_by": tuple(fault["seen_by"])}) for fault in content["fault"]]
    return content["rooms"], faults
