"""What all widgets share: numbers that travel as bytes, a stable text, a still picture."""

from __future__ import annotations

from typing import Any

import anywidget
import numpy as np
import traitlets


class Floats(traitlets.Bytes):
    """A trait of little-endian float64 as bytes; whatever numpy makes numbers of may be assigned.

    Examples
    --------
    >>> class Drawn(traitlets.HasTraits):
    ...     x = Floats()
    >>> np.frombuffer(Drawn(x=[1, 2.5]).x)
    array([1. , 2.5])
    """

    info_text = "numbers, or the bytes of little-endian float64"

    def validate(self, obj: Any, value: Any) -> bytes:
        """Return the bytes of ``value``."""
        if isinstance(value, (bytes, bytearray, memoryview)):
            value = bytes(value)
            if len(value) % 8:
                place = f"{type(obj).__name__}.{self.name}"
                raise traitlets.TraitError(f"{place}: {len(value)} bytes are no float64 values, 8 bytes each")
            return value
        try:
            return np.ascontiguousarray(value, "<f8").tobytes()
        except (TypeError, ValueError):
            self.error(obj, value)


class View(anywidget.AnyWidget):
    """A widget with one ES module and one stylesheet, which draw its traits and report what a person does.

    Traits are assigned anew, never changed in place: ``view.rows = [*view.rows, row]``.
    """

    def _summary(self) -> str:
        """Return what `repr` says of the content."""
        return ""

    def _static(self) -> dict[str, str]:
        """Return pictures by MIME type for pages without a kernel, such as a notebook on GitHub."""
        return {}

    def __repr__(self) -> str:
        # No address and no model id: outputs of notebooks are compared as text.
        return f"{type(self).__name__}({self._summary()})"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        alive, metadata = bundle
        return {**alive, **self._static()}, metadata


def counted(n: int, noun: str) -> str:
    """Return a count and its noun.

    Examples
    --------
    >>> counted(1, "state"), counted(1200, "state"), counted(2, "match")
    ('1 state', '1,200 states', '2 matches')
    """
    plural = "" if n == 1 else "es" if noun.endswith("ch") else "s"
    return f"{n:,} {noun}{plural}"
