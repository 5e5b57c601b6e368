"""The Chromium that tests drive: where it is, what to say where there is none, how it starts."""

from __future__ import annotations

import contextlib
import os
import shutil

import pytest

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
INSTALL = "apt-get install -y --no-install-recommends chromium fonts-dejavu-core"


def path() -> str | None:
    """Return the path of a Chromium: `$CHROMIUM`, else the first on the path."""
    found = (shutil.which(name) for name in CHROMIUMS)
    return os.environ.get("CHROMIUM") or next((path for path in found if path), None)


def needed(*modules: str) -> None:
    """Skip the test, saying what to install, where Chromium, Playwright or another module is missing."""
    for module in ("playwright.sync_api", *modules):
        pytest.importorskip(
            module, reason=f"{module.split('.')[0]} is not installed: pip install -e '.[all]'"
        )
    if path() is None:
        pytest.skip(f"no Chromium here: {INSTALL}, or its path in $CHROMIUM")


@contextlib.contextmanager
def started():
    """Start Chromium without a window; skip the test where there is none."""
    needed()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            browser.close()
