"""Why a streaming query failed, in one error: state of another query, or a checkpoint that is damaged."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cepkit.errors import CepError
from cepkit.results.spark.jobs import error_of_task

# What Spark says when it cannot read a file of a checkpoint.
_DAMAGE = (
    "CANNOT_LOAD_STATE_STORE", "STATE_STORE_MISSING", "MISSING_STATE_DIRECTORY", "checksum mismatch",
    "Unexpected end-of-input", "JsonParseException", "Incomplete log file", "Malformed log file",
)  # fmt: skip


def error_of_stream(error: Exception) -> CepError | None:
    """Return the error of cepkit for a failure of a streaming query; None for other failures."""
    if (own := error_of_task(error)) is not None:
        return own
    text = str(error)
    found = next((line.strip() for line in text.splitlines() if any(word in line for word in _DAMAGE)), None)
    if found is None:
        return None
    return CepError(
        f"the checkpoint of the stream is damaged: {found[:200]}. Restore the folder from a copy that was "
        "made while the query did not run, or begin with an empty checkpoint folder and an empty result"
    )


def with_clear_errors(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of Spark's writer or query that raises the errors of `error_of_stream`."""

    @functools.wraps(call)
    def made(*given: Any, **more: Any) -> Any:
        try:
            return call(*given, **more)
        except Exception as error:
            own = error_of_stream(error)
            if own is None:
                raise
            raise own from error

    return made
