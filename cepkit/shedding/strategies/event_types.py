"""The number of each event's type in a tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cepkit.events import Events


def types_of_events(names: Sequence[str], column: str | None, events: Events) -> np.ndarray:
    """Return the number of each event's type, int64, (n_events,); -1 for types without a name.

    Parameters
    ----------
    names : sequence of str
        Types, as in ``TreeProgram.types``. Numbers are in the order of the first occurrence of each name.
    column : str, optional
        Column of event types. None: every event has the first type.
    events : Events

    Examples
    --------
    >>> from cepkit.events import INTEGER, Column, ColumnType
    >>> kinds = Column(ColumnType(INTEGER), np.array([8, 61, 7]))
    >>> events = Events(3, {"kind": kinds}, np.zeros(3, np.int32), 1)
    >>> types_of_events(["61", "8"], "kind", events).tolist()
    [1, 0, -1]
    """
    if column is None:
        return np.zeros(events.n_events, np.int64)
    number = {name: i for i, name in reversed(list(enumerate(dict.fromkeys(names))))}
    values = events.columns[column]
    if values.categories is not None:
        codes, known = np.asarray(values.values, np.int64), values.categories
    else:
        known, codes = np.unique(values.values, return_inverse=True)
    of_code = np.array([number.get(str(name), -1) for name in known] + [-1], np.int64)
    return of_code[codes]
