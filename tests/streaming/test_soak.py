"""Streams that run for long, in virtual time: what they hold does not grow after the first window."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tests.support.endless import KINDS, events_of
from tests.support.sizes import is_full


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_stream_holds_stays_as_it_is_after_the_first_window(kind, monkeypatch):
    monkeypatch.setattr("cepkit.streaming.sequence_stream._FEWEST_OF_POLICY", 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = KINDS[kind]()
    size, n_batches = (1000, 400) if is_full() else (250, 40)
    rng, held = np.random.default_rng(1), []
    for number in range(n_batches):
        stream.push(*events_of(kind, number, size, rng))
        inner = getattr(stream, "stream", stream)
        n_retained, status = inner._n_retained, stream.status()  # which drops what nothing needs
        held.append((status.keys, n_retained, status.state_bytes))
    first, last = (np.array(part).max(axis=0) for part in (held[8 : n_batches // 2], held[n_batches // 2 :]))
    assert (last <= 1.25 * first + 10).all(), (first, last)
    assert status.matches and not status.grows
    assert (status.late > 0) == (kind == "after a buffer")
    assert (status.forgotten > 0) == (", idle" in kind or kind == "after a buffer")
    n_left = len(stream.finish()) if kind == "after a buffer" else 0
    n_left += len(stream.close())
    assert stream.status().matches == status.matches + n_left
