"""Windows and joins on Spark frames, as lazy Spark jobs."""

from __future__ import annotations

from cepkit.errors import UnsupportedQueryError
from cepkit.events import Frame
from cepkit.windows.values import Join, Window


def window_spark(frame: Frame, window: Window) -> Frame:
    raise UnsupportedQueryError("windows on Spark frames are not written yet")


def join_spark(frame: Frame, other: Frame, join: Join) -> Frame:
    raise UnsupportedQueryError("joins on Spark frames are not written yet")
