"""Tables whose column of texts is not valid UTF-8, as in a damaged or hostile file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def with_invalid_text(n_rows: int = 3, row: int = 1) -> pa.Table:
    """Return columns k, x and ts; k has the byte 255 in a row, and "a" in all others."""
    content = bytearray(b"a" * n_rows)
    content[row] = 255
    offsets = pa.py_buffer(np.arange(n_rows + 1, dtype=np.int32))
    texts = pa.Array.from_buffers(pa.string(), n_rows, [None, offsets, pa.py_buffer(bytes(content))])
    return pa.table({"k": texts, "x": np.arange(1, n_rows + 1), "ts": np.arange(n_rows)})
