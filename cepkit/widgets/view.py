"""What the views of results have in common: a static picture for documents, columns as bytes, and windows."""

from __future__ import annotations

import sys

import anywidget
import numpy as np
import traitlets


class View(anywidget.AnyWidget):
    """A view of a result: drawn by the browser, with a static picture where there is none."""

    def svg(self) -> str:
        """Return the view as a static picture, SVG text."""
        raise NotImplementedError

    def figure(self):
        """Return the view as a plotly figure."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **keywords):
        bundle = super()._repr_mimebundle_(**keywords)
        if bundle is None:
            return None
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, "image/svg+xml": self.svg()}, metadata


def column(dtype: str) -> traitlets.Bytes:
    """Return a trait that carries an array of little-endian numbers."""
    return traitlets.Bytes(b"").tag(sync=True, dtype=dtype)


def as_bytes(values, dtype: str) -> bytes:
    """Return numbers as little-endian bytes; ``dtype`` such as ``"f8"``."""
    made = np.ascontiguousarray(values, dtype=np.dtype(dtype))
    return (made if sys.byteorder == "little" else made.byteswap()).tobytes()


def marks_of(names: list[str]) -> list[str]:
    """Return a short text per name that tells it from the others where there is no room for the name.

    Examples
    --------
    >>> marks_of(["b", "c+", "delivery"]), marks_of(["item_a", "item_b"])
    (['b', 'c+', 'de'], ['1', '2'])
    """
    short = [name[:2] for name in names]
    return short if len(set(short)) == len(short) else [str(n) for n in range(1, len(names) + 1)]
