"""What each unit of work costs in virtual time: the work of the tree, and the work of a shedder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf

from cepkit.errors import CepError, nearest


@dataclass(frozen=True)
class Prices:
    """Seconds per unit of work. One table serves all strategies, and nothing is set for a single strategy."""

    event: float = 2e-7  # take an event out of its buffer and hand it to the tree
    condition: float = 1e-6  # f: evaluate a condition on a pair of partial matches
    # create, remove: V_n and V_r: create a partial match, and remove one
    create: float = 5e-7
    remove: float = 2e-7
    admit: float = 1e-7  # put an arriving event into its buffer. Every strategy pays it, also ``"none"``.
    drop: float = 1e-7  # take a waiting event out of its buffer without processing it
    lookup: float = 1e-7  # read one entry of a table of utilities or a threshold
    classify: float = 5e-7  # find the class of a partial match or an event with a decision tree
    sort: float = 1e-7  # sort or select one item among others, per item
    draw: float = 1e-7  # draw a random number
    utility: float = 2e-7  # y: evaluate the utility of one condition for one event
    array: float = 1e-7  # put a pointer to an event into an array of utilities, or take it out
    update: float = 5e-8  # add to a counter, a moving average or a drift detector
    others: Mapping[str, float] = ()  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "others", tuple(sorted(dict(self.others).items())))
        for name, seconds in self.table().items():
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < inf:
                raise CepError(f"price {name}={seconds!r}: expected seconds, 0 or more")

    def table(self) -> dict[str, float]:
        """Return all prices by name."""
        own = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "others"}
        return {**own, **dict(self.others)}

    def __getitem__(self, name: str) -> float:
        """Return the price of a unit of work by name."""
        if (price := dict(self.others).get(name)) is not None:
            return price
        if name in (known := self.table()):
            return known[name]
        raise CepError(
            f"there is no price of {name!r}.{nearest(name, known)} Prices: {list(known)}. "
            f"For work of your own, give others={{{name!r}: seconds}}"
        )
