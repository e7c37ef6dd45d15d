"""What tests read from a page."""


def each(page, selector, expression):
    """A JavaScript expression of ``e`` for every element."""
    return page.evaluate(
        f"selector => [...document.querySelectorAll(selector)].map(e => {expression})", selector
    )


def texts(page, selector):
    return each(page, selector, "e.textContent")


def cells(page, selector):
    """The texts of the cells of each row."""
    return each(page, selector, "[...e.querySelectorAll('td')].map(cell => cell.textContent)")


def cpus(page, selector):
    """The numbers of the CPUs in the map that this selects."""
    return sorted(each(page, f"#map {selector}[data-cpu]", "Number(e.dataset.cpu)"))


def style(page, selector, name, pseudo=""):
    """How the first such element looks."""
    return page.evaluate(
        "([s, n, p]) => getComputedStyle(document.querySelector(s), p)[n]",
        [selector, name, pseudo or None],
    )
