"""Progress of long runs: a bar that appears two seconds after the first events, so short runs stay silent."""

from __future__ import annotations

import time

SILENT_S = 2.0


class Progress:
    """Count events done; draw a bar when more than two seconds follow the first call.

    Use it as a context manager and call it with the number of events done since the last call.
    """

    def __init__(self, n_events: int, what: str = "events"):
        self._n_events, self._what = n_events, what
        self._done, self._began, self._bar = 0, None, None

    def __call__(self, n_events: int) -> None:
        """Count ``n_events`` more."""
        self._done += n_events
        if self._began is None:  # what came before was compiling, which says nothing of the run
            self._began = time.monotonic()
        if self._bar is not None:
            self._bar.update(n_events)
        elif time.monotonic() - self._began > SILENT_S:
            from tqdm.auto import tqdm

            self._bar = tqdm(
                total=self._n_events, initial=self._done, unit=f" {self._what}", unit_scale=True, leave=False
            )

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
