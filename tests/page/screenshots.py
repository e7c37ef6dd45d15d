"""``make screenshots``: the pictures of the page in docs and README, of the real thing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.page.small_png import small
from tests.page.world import World
from tests.paths import CHECKOUT
from tests.real.browser import browser

IMAGES: Final = CHECKOUT / "docs" / "images"
BYTES_MAX: Final = 200_000
WIDE: Final = {"width": 1440, "height": 900}


def refused(page: Any) -> None:
    page.click(".row:has-text('llm-2')")
    page.wait_for_selector("#dock .changes li")


def fits(page: Any) -> None:
    page.fill("[name=cpu]", "8")
    page.fill("[name=memory]", "16Gi")
    page.fill("[name='=count']", "3")
    page.click("#by-form >> text=Ask")
    page.wait_for_selector("#answer .verdict")
    page.evaluate("document.querySelector('.socket:nth-child(2)').scrollIntoView()")
    page.mouse.wheel(0, -60)


def past(page: Any) -> None:
    for _ in range(9):
        page.click("#earlier")
        page.wait_for_timeout(100)
    page.evaluate("scrollTo(0, 0)")


PICTURES: Final[dict[str, tuple[dict[str, int], str, Callable[[Any], None]]]] = {
    "host": (WIDE, "light", lambda page: page.evaluate("scrollTo(0, 0)")),
    "refused": (WIDE, "dark", refused),
    "fits": (WIDE, "light", fits),
    "time": (WIDE, "light", past),
    "phone": ({"width": 390, "height": 844}, "light", lambda page: None),
}


def main() -> int:
    with World() as world, browser() as running:
        world.fill()
        for name, (size, scheme, prepare) in PICTURES.items():
            page = running.new_page()
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            page.goto(world.url)
            page.wait_for_selector(".row .hint")
            page.wait_for_selector("#time:not([hidden])", state="attached")
            prepare(page)
            page.wait_for_timeout(500)
            path = IMAGES / f"page-{name}.png"
            taken = page.screenshot()
            page.close()
            blank = running.new_page()
            path.write_bytes(small(taken, blank))
            blank.close()
            _report(path)
    return 0


def _report(path: Path) -> None:
    size = path.stat().st_size
    if size > BYTES_MAX:
        raise SystemExit(f"{path.name}: {size} bytes, more than {BYTES_MAX}")
    sys.stdout.write(f"{path.relative_to(CHECKOUT)}: {size / 1000:.0f} kB\n")


if __name__ == "__main__":
    sys.exit(main())
