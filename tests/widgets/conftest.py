"""The page of a browser that the tests of a file draw widgets in."""

from __future__ import annotations

import pytest

from tests.support.widget_page import blank_page, set_theme


@pytest.fixture(scope="module")
def browser_page():
    with blank_page(reduced_motion="reduce") as page:
        yield page


@pytest.fixture
def page(browser_page):
    """The page, empty; afterwards nothing may have gone wrong or be left."""
    page = browser_page
    page.trouble.clear()
    yield page
    page.evaluate("Object.values(hosts).forEach((host) => host.remove())")
    assert page.trouble == [] and page.requests == []
    assert page.evaluate("Object.values(hosts).map((host) => [host.n_listeners(), host.el.innerHTML])") == (
        [[0, ""]] * page.evaluate("Object.keys(hosts).length")
    )
    left = "[left.listeners, left.timers.size, left.frames.size, left.observers.size]"
    assert page.evaluate(left) == [0, 0, 0, 0]  # listeners of the page, timers, frames, observers
    page.evaluate("hosts = {}; document.body.replaceChildren()")
    set_theme(page, "light")
