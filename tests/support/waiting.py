"""Wait for what another thread, a process or a page does soon."""

import time
from collections.abc import Callable

LONG_S = 120  # a test that waits in vain fails after this time


def wait_until(holds: Callable[[], object], timeout_s: float = LONG_S) -> None:
    """Wait until ``holds()`` is true; fail where it does not become true."""
    until = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > until:
            raise AssertionError(f"waited in vain for {timeout_s} s")
        time.sleep(0.005)
