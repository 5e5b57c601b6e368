"""The command line. This module ends it without a traceback when Ctrl-C comes while the others load.

The others take about a second. This one must not import them, as it runs before all of them.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
_SCRIPTS = ("cepkit", "cepkit.exe", "cepkit-script.py")
_MODULE = "cepkit.commands.cli"  # `python -m`


def is_command() -> bool:
    """Return whether this process is the command ``cepkit``."""
    if not getattr(sys, "argv", None):  # Python inside another program
        return False
    n_before = max(0, len(sys.orig_argv) - len(sys.argv[1:]))  # words before the arguments of the command
    is_module = sys.argv[0] == "-m" and _MODULE in sys.orig_argv[:n_before]
    return is_module or os.path.basename(sys.argv[0]) in _SCRIPTS


def exit_at_ctrl_c() -> None:
    """Let Ctrl-C end the process with one line, unless the process ignores Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def raise_at_ctrl_c() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, b"cepkit: interrupted\n")
    finally:  # no module has anything to clean up
        os._exit(INTERRUPTED)
