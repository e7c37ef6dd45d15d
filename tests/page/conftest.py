"""A browser for all tests of pages, and a busy host for those that change nothing."""

import pytest
from tests.page.world import World
from tests.real.browser import browser as running_browser


@pytest.fixture(scope="session")
def browser():
    with running_browser() as found:
        yield found


@pytest.fixture(scope="module")
def world():
    with World() as found:
        yield found.fill()


@pytest.fixture
def page(browser, world):
    """The page of the busy host; nothing may be said on the console, and nobody else is asked."""
    yield from opened(browser, world.url)


def opened(browser, url, **media):
    """A page that is drawn; in the end it must have made no noise and asked nobody else."""
    found = browser.new_page()
    noise, elsewhere = [], []
    found.on("pageerror", lambda error: noise.append(str(error)))

    def heard(message):
        # A busy agent tells its problems, and browsers write every 503 on the console.
        if message.type == "error" and not message.location["url"].endswith("/readyz"):
            noise.append(message.text)

    found.on("console", heard)
    found.on(
        "request",
        lambda one: elsewhere.append(one.url) if not one.url.startswith((url, "data:")) else None,
    )
    found.set_default_timeout(15_000)
    if media:
        found.emulate_media(**media)
    found.noise = noise
    found.goto(url)
    found.wait_for_selector("#map .node")
    yield found
    found.close()
    assert noise == []
    assert elsewhere == []
