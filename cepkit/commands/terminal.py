"""Texts for a terminal: a character that would move the cursor or hide text is shown by its number."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from cepkit.errors import reason_of
from cepkit.frames.replacing import UnwritableFileError

# Control characters but for line ends and tabs, marks that turn the direction of texts, and half characters.
_UNSAFE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: object) -> str:
    r"""Return a text as a terminal may show it."""
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], str(text))


def tell(text: object, *, error: bool = False) -> None:
    """Print a text on stdout, or on stderr with ``error``.

    A text for a closed stream is dropped. A text that stderr cannot take is dropped too, because the result
    matters more.
    """
    line = f"{printable(text)}\n"
    if not error:
        write_out(line)
    elif sys.stderr is not None:
        try:
            sys.stderr.write(line)
            sys.stderr.flush()
        except OSError:
            end_stream(sys.stderr)


def write_out(content: str | bytes) -> None:
    """Write a text or bytes to stdout. Raise as `tell` does."""
    if sys.stdout is None:
        return
    with said_of_stdout():
        if isinstance(content, str):
            sys.stdout.write(content)
        else:
            sys.stdout.flush()
            buffer = getattr(sys.stdout, "buffer", None)  # a captured stdout may have none
            sys.stdout.write(content.decode()) if buffer is None else buffer.write(content)
        sys.stdout.flush()


@contextmanager
def said_of_stdout() -> Iterator[None]:
    """Raise UnwritableFileError when the block cannot write to stdout."""
    try:
        yield
    except BrokenPipeError:  # the reader, such as `head`, has stopped
        raise
    except OSError as error:
        end_stream(sys.stdout)
        raise UnwritableFileError(f"the standard output cannot be written: {reason_of(error)}") from error


def end_stream(stream: Any) -> None:
    """Send the rest of a stream to the null device, so that Python does not fail when it ends."""
    with suppress(OSError, ValueError, AttributeError):  # a captured stream has no number
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def open_closed_streams() -> None:
    """Open the null device for standard streams that are closed, so that no file gets their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
