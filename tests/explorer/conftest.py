"""What the tests of the explorer in a real JupyterLab share."""

import pytest

from tests.support import lab


@pytest.fixture(scope="module")
def browser():
    with lab.browser("jupyterlab") as opened:
        opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield opened
