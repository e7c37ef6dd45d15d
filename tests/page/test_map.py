"""The map of a busy host in a real browser: who sits where, told apart without colour alone."""

import pytest
from tests.page.reading import cells, cpus, each, style

from numalign.core.values.sets import CpuSet

pytestmark = pytest.mark.e2e


def placed(world, name):
    """The CPUs of its own of each container of a pod, as the agent says."""
    containers = world.pod_list()[name]["numalign"]["containers"]
    return {
        c: sorted(CpuSet.parse(one["cpus"])) for c, one in containers.items() if one["exclusive"]
    }


def lit(page):
    return cpus(page, ".cpu.lit")


def columns(page, selector):
    """Where the elements of each row begin, row by row."""
    return page.evaluate(
        """selector => { const rows = new Map();
        for (const one of document.querySelectorAll(selector)) {
          const box = one.getBoundingClientRect(), y = Math.round(box.top);
          if (box.width) rows.set(y, [...rows.get(y) || [], Math.round(box.left)]);
        }
        return [...rows].sort((a, b) => a[0] - b[0]).map(row => row[1]); }""",
        selector,
    )


def test_every_cpu_is_there_once_and_equal_things_align(page):
    assert cpus(page, ".cpu") == list(range(256))
    rows = columns(page, ".node")
    assert [len(row) for row in rows] == [4, 4]  # by socket
    assert rows[0] == rows[1]
    cores = columns(page, ".core")
    assert len({len(row) for row in cores}) == 1 and len({tuple(row) for row in cores}) == 1


@pytest.mark.parametrize("width", [390, 700, 1024, 1920, 3000])
def test_rows_are_equal_at_every_width_and_nothing_sticks_out(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(100)
    assert len({len(row) for row in columns(page, ".node")}) == 1
    assert len({len(row) for row in columns(page, ".core")}) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_pods_differ_by_letters_and_neighbouring_ones_by_pattern_too(page):
    tag = "e.querySelector('.tag')"
    seen = f"[{tag}.textContent, ...(l => [l.backgroundColor, l.backgroundImage])"
    chips = each(page, ".who .chip", f"[e.dataset.uid, {seen}(getComputedStyle({tag}))]]")
    looks = [chip for _, chip in {uid: (uid, look) for uid, look in chips}.values()]
    assert len({code for code, _, _ in looks}) == len(looks) == 15
    assert len({(colour, pattern) for _, colour, pattern in looks}) == len(looks)
    assert len({pattern for _, _, pattern in looks}) >= 7


def test_containers_of_a_pod_are_shades_of_its_colour(page, world):
    own = placed(world, "db-0")
    colours = {style(page, f"[data-cpu='{one[0]}']", "backgroundColor") for one in own.values()}
    assert len(own) == len(colours) == 2


def test_pointing_at_a_cpu_lights_all_of_its_pod_and_says_whose_it_is(page, world):
    own = placed(world, "db-1")
    page.hover(f"[data-cpu='{own['postgres'][0]}']")
    assert lit(page) == sorted(cpu for one in own.values() for cpu in one)
    assert page.inner_text("#tip") == f"CPU {own['postgres'][0]}: data/db-1, container postgres"
    code = page.get_attribute(".cpu.lit", "data-code")
    assert style(page, ".cpu.lit", "content", "::after") == f'"{code}"'
    page.hover("#map-title")
    assert lit(page) == []
    assert not page.is_visible("#tip")


def test_labels_are_shown_on_demand_and_in_print(page):
    def label():
        return style(page, ".cpu.own", "content", "::after")

    assert label() == "none"
    page.click("#show-labels")
    code = page.get_attribute(".cpu.own", "data-code")
    assert label() == f'"{code}"'
    page.click("#show-labels")
    page.emulate_media(media="print")
    assert label() == f'"{code}"'
    assert not page.is_visible("#ask")


def test_memory_is_split_by_pod_and_devices_stand_at_their_node(page):
    parts = each(page, "[data-node='7'] .bar[data-type=memory] i", "e.dataset.about")
    assert parts == ["100 GiB memory"]
    kinds = {
        kind: each(page, f"[data-node='6'] .bar[data-type='{kind}'] i", "e.dataset.about")
        for kind in ("memory", "hugepages-1Gi")
    }
    assert kinds == {"memory": ["8 GiB memory"] * 2, "hugepages-1Gi": ["4 GiB 1Gi pages"] * 2}
    found = each(page, "[data-node='2'] .device", "[e.dataset.id, e.className]")
    assert [name for name, _ in found] == ["vf-0", "vf-1", "vf-2", "vf-3"]
    assert [name for name, classes in found if "sick" in classes] == ["vf-3"]
    assert all(each(page, "[data-node='6'] .device", "Boolean(e.dataset.uid)"))


def test_stranded_resources_are_told_in_words_at_their_node(page, world):
    told = {n["id"]: n["stranded"]["text"] for n in world.node()["nodes"] if n.get("stranded")}
    assert set(told) == {1, 2}
    for node, text in told.items():
        assert page.inner_text(f".node[data-node='{node}'] .stranded") == f"Stranded: {text}"
    assert page.inner_text(".tile:has-text('Stranded') b") == "2 nodes"


def test_distances_are_a_heat_map_on_demand(page):
    assert not page.is_visible("#distances")
    page.click("#show-distances")
    rows = cells(page, "#distances tbody tr")
    assert rows[0] == ["10", "12", "12", "12", "32", "32", "32", "32"] and len(rows) == 8
    page.click("button.node-name[data-node='0']")
    assert page.inner_text(".node[data-node='5'] .far") == "distance 32"
    assert page.inner_text(".node[data-node='0'] .far") == ""
