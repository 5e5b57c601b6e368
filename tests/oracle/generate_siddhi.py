"""Random patterns and sequences of SiddhiQL with small streams, from one integer seed."""

from __future__ import annotations

import random

import pandas as pd

from tests.oracle.siddhi import Given

STREAMS = ("A", "B", "C")


class _Patterns:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.is_sequence = self.random.random() < 0.35
        self.names: list[tuple[str, bool]] = []  # of present states, and whether they are counted

    def text(self) -> str:
        """Return a whole query."""
        sign = ", " if self.is_sequence else " -> "
        parts = [self.part(i) for i in range(self.random.choice((1, 2, 2, 3, 3, 4)))]
        if self.is_sequence and len(parts) == 1:
            parts.append(self.event())
        pattern = self.with_every(parts, sign)
        within = f" within {self.random.choice((2, 3, 5, 8))} sec" if self.random.random() < 0.35 else ""
        columns = []
        for name, is_counted in self.names:
            columns.append(f"{name}.x as {name}_x")
            if is_counted:
                columns += [f"{name}[0].x as {name}_0", f"{name}[last].x as {name}_last"]
                columns.append(f"{name}[last-1].x as {name}_before")
        if not columns:
            columns = ["1 as one"]
        return f"from {pattern}{within} select {', '.join(columns)} insert into Out"

    def with_every(self, parts: list[str], sign: str) -> str:
        """Return the parts as a chain, perhaps with ``every`` around some of them."""
        choice = self.random.random()
        if choice < 0.3:
            return sign.join(parts)
        if choice < 0.75 or self.is_sequence:
            return sign.join([f"every ({parts[0]})", *parts[1:]])
        if choice < 0.9:
            until = self.random.randint(1, len(parts))
            return sign.join([f"every ({sign.join(parts[:until])})", *parts[until:]])
        at = self.random.randrange(len(parts))
        return sign.join(f"every ({part})" if i == at else part for i, part in enumerate(parts))

    def part(self, place: int) -> str:
        """Return a state."""
        choice = self.random.random()
        if choice < 0.5:
            return self.event()
        if choice < 0.68:
            return self.counted()
        if choice < 0.8:
            return self.absent()
        operator = self.random.choice(("and", "or"))
        sides = [self.side(operator), self.side(operator)]
        if operator == "and" and not any(side.startswith("not") for side in sides):
            return f"({sides[0]} and {sides[1]})"
        if operator == "and" and self.random.random() < 0.5 and not all(s.startswith("not") for s in sides):
            # Beside an event, `not` may do without a time.
            sides = [side.split(" for ")[0] if side.startswith("not") else side for side in sides]
        return f"({sides[0]} {operator} {sides[1]})"

    def side(self, operator: str) -> str:
        """Return a half of a logical state."""
        return self.absent() if self.random.random() < 0.35 else self.event()

    def stream(self) -> str:
        """Return the name of a stream."""
        return self.random.choice(STREAMS)

    def condition(self) -> str:
        """Return a filter, or none."""
        choice = self.random.random()
        if choice < 0.25:
            return ""
        if choice < 0.6 or not self.names:
            return f"[x {self.random.choice(('>', '<', '>=', '!=', '=='))} {self.random.randint(0, 4)}]"
        name, is_counted = self.random.choice(self.names)
        index = self.random.choice(("", "[0]", "[last]", "[1]")) if is_counted else ""
        sign = self.random.choice((">", "<=", "!=", "==", "=="))
        if self.random.random() < 0.3:
            return f"[not (x {sign} {name}{index}.x)]"
        also = f" and {self.random.choice(self.names)[0]}.x < {self.random.randint(1, 4)}"
        return f"[x {sign} {name}{index}.x{also if self.random.random() < 0.2 else ''}]"

    def event(self) -> str:
        """Return a state for one event."""
        text = f"e{len(self.names) + 1}={self.stream()}{self.condition()}"
        self.names.append((f"e{len(self.names) + 1}", False))
        return text

    def counted(self) -> str:
        """Return a counted state."""
        name = f"e{len(self.names) + 1}"
        condition = self.condition()
        if self.random.random() < 0.3:
            condition = f"[{name}[last].x is null or x >= {name}[last].x]"
        times = self.random.choice(("<1:2>", "<2:3>", "<2:>", "<0:2>", "<2>", "+", "*", "?"))
        text = f"{name}={self.stream()}{condition}{times}"
        self.names.append((name, True))
        return text

    def absent(self) -> str:
        """Return an absent state."""
        return f"not {self.stream()}{self.condition()} for {self.random.choice((1, 2, 3))} sec"


def random_query(seed: int) -> str:
    """Return the text of a random query over the streams A, B and C with the attribute x."""
    return _Patterns(seed).text()


def random_events(seed: int) -> list[Given]:
    """Return random events in order."""
    source, time, events = random.Random(seed + 1), 0, []
    for _ in range(source.randint(1, 14)):
        time += source.choice((0, 300, 700, 1000, 1000, 1700, 2500))
        x = source.choice((0, 1, 2, 3, 4, 5, None)) if source.random() < 0.2 else source.randint(0, 5)
        events.append(Given(source.choice(STREAMS), time, {"x": x}))
    return events


def frames_of_events(events: list[Given]) -> dict[str, pd.DataFrame]:
    """Return a frame for each stream, with the columns ``at`` and ``place`` that order the events."""
    frames = {}
    for name in STREAMS:
        own = [(i, event) for i, event in enumerate(events) if event.stream == name]
        frames[name] = pd.DataFrame(
            {
                "x": pd.array([event.values["x"] for _, event in own], "Int64"),
                "at": pd.array([event.time for _, event in own], "int64"),
                "place": pd.array([i for i, _ in own], "int64"),
            }
        )
    return frames
