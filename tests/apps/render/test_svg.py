"""The picture is well-formed, complete, and its texts stay in their boxes."""

from dataclasses import dataclass, replace
from functools import cache

import pytest
from defusedxml import ElementTree
from hypothesis import given, settings
from tests.apps.render.odd_machines import machines

from numalign.apps.render import svg
from numalign.apps.render.drawing.textwidth import text_width
from numalign.apps.render.theme import DARK, LIGHT, heat_colour
from numalign.core.machine.blueprint import Blueprint, build, with_distances, with_memory_nodes
from numalign.core.machine.examples.catalogue import EXAMPLES
from numalign.core.machine.machine import Machine

SPACE = "{http://www.w3.org/2000/svg}"
ALLOWED = {SPACE + tag for tag in ("svg", "title", "style", "rect", "text")}


@dataclass(frozen=True)
class Rect:
    x: float
    y: float
    w: float
    h: float

    def holds(self, other: "Rect", slack: float = 0.2) -> bool:
        return (
            self.x - slack <= other.x
            and self.y - slack <= other.y
            and other.x + other.w <= self.x + self.w + slack
            and other.y + other.h <= self.y + self.h + slack
        )

    def meets(self, other: "Rect") -> bool:
        return (
            self.x < other.x + other.w
            and other.x < self.x + self.w
            and self.y < other.y + other.h
            and other.y < self.y + self.h
        )


def parsed(machine: Machine):
    return ElementTree.fromstring(svg.render(machine))


@cache
def example(name: str):
    """The picture of an example, drawn once for all tests."""
    return parsed(EXAMPLES[name].machine())


def rects(root) -> list[Rect]:
    return [
        Rect(*(float(e.get(k)) for k in ("x", "y", "width", "height")))
        for e in root.iter(SPACE + "rect")
    ]


def texts(root) -> list[tuple[str, Rect]]:
    """Each text with the room that it takes at most; letters are taller than deep."""
    found = []
    for e in root.iter(SPACE + "text"):
        size, bold = float(e.get("font-size")), e.get("font-weight") == "bold"
        w = text_width(e.text or "", size, bold=bold)
        start = {None: 0.0, "middle": w / 2, "end": w}[e.get("text-anchor")]
        y = float(e.get("y")) - 0.76 * size
        found.append((e.text or "", Rect(float(e.get("x")) - start, y, w, size)))
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_text_lies_in_the_smallest_box_around_it(name):
    root = example(name)
    found = rects(root)
    for text, room in texts(root):
        middle = Rect(room.x + room.w / 2, room.y + room.h / 2, 0, 0)
        around = min((r for r in found if r.holds(middle)), key=lambda r: r.w * r.h)
        assert around.holds(room), text


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_two_texts_overlap(name):
    rooms = [room for text, room in texts(example(name)) if text]
    rooms.sort(key=lambda room: room.y)
    for i, room in enumerate(rooms):
        for other in rooms[i + 1 :]:
            if other.y >= room.y + room.h * 0.8:
                break
            smaller = replace(other, y=other.y + 0.2 * other.h)
            assert not room.meets(smaller)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_cpu_and_every_node_is_in_the_picture(name):
    machine = EXAMPLES[name].machine()
    shown = {text for text, _ in texts(example(name))}
    assert {str(cpu) for cpu in machine.online} <= shown
    for node in machine.nodes:
        assert {f"NUMA node {node.id}", f"node {node.id}"} & shown


def test_devices_and_huge_pages_and_distances_are_in_the_picture():
    shown = {text for text, _ in texts(parsed(EXAMPLES["xeon-2s"].machine()))}
    assert {"NIC ens1f0np0", "0000:17:00.0", "8 NIC VFs", "20"} <= shown
    assert "huge pages 32 x 1 GiB + 1024 x 2 MiB" in shown
    assert {"Legend", "Distance between NUMA nodes", "xeon-2s"} <= shown


def test_memory_that_is_near_to_no_socket_is_in_the_picture_too():
    machine = with_memory_nodes(build(Blueprint("m", sockets=2)), [1 << 30] * 2)
    shown = {text for text, _ in texts(parsed(machine))}
    assert {"NUMA nodes without CPUs", "NUMA node 2", "NUMA node 3"} <= shown


def test_a_matrix_too_large_for_numbers_is_shown_by_colours_and_a_scale():
    machine = build(Blueprint("m", sockets=20))
    root = parsed(with_distances(machine, lambda a, b: 11 + (a * b) % 9))
    shown = {text for text, _ in texts(root)}
    cells = [e for e in root.iter(SPACE + "rect") if e.get("class") is None]
    assert len(cells) == 20 * 20 + len({"10", *map(str, range(11, 20))})
    assert {"10", "11", "19"} <= shown


def test_dies_are_boxes_where_the_machine_has_several():
    machine = build(Blueprint("m", nodes_per_socket=2, cores_per_socket=4))
    cpus = tuple(replace(cpu, die=cpu.node) for cpu in machine.cpus)
    shown = {text for text, _ in texts(parsed(replace(machine, cpus=cpus)))}
    assert {"Die 0", "Die 1", "NUMA node 0", "NUMA node 1"} <= shown


def test_long_cpu_lists_are_cut_between_numbers():
    shown = [text for text, _ in texts(parsed(EXAMPLES["xeon-4s"].machine()))]
    assert "NUMA node 0: 0,4,8,12,16,…,188 (48 CPUs)" in shown


def test_offline_cpus_and_notes_are_in_the_picture():
    shown = {text for text, _ in texts(parsed(EXAMPLES["edge-nosmt"].machine()))}
    assert "Offline CPUs: 20-39" in shown


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_picture_has_shapes_and_text_only_and_loads_nothing(name):
    root = example(name)
    assert {element.tag for element in root.iter()} <= ALLOWED
    assert not any("url(" in (element.text or "") for element in root.iter())


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_picture_is_neither_a_ribbon_nor_huge(name):
    root = example(name)
    w, h = float(root.get("width")), float(root.get("height"))
    assert 0.9 <= w / h <= 2.6
    assert w <= 1500


def test_names_cannot_break_out_of_the_text():
    machine = replace(EXAMPLES["vm-2cpu"].machine(), name='</text><script>"&\x00\ud800')
    shown = [text for text, _ in texts(parsed(machine))]
    assert any("<script>" in text for text in shown)


@settings(max_examples=25, deadline=None)
@given(machines())
def test_any_machine_has_a_well_formed_picture_of_all_its_cpus(machine):
    shown = {text for text, _ in texts(parsed(machine))}
    assert {str(cpu) for cpu in machine.online} <= shown


def test_the_dark_looks_cover_all_that_the_light_ones_do():
    assert DARK.keys() == LIGHT.keys()


def test_farther_is_darker():
    shades = [sum(bytes.fromhex(heat_colour(i / 20)[1:])) for i in range(21)]
    assert shades == sorted(shades, reverse=True)


def test_many_long_notes_do_not_outgrow_the_picture():
    machine = replace(EXAMPLES["vm-2cpu"].machine(), notes=("x" * 900, *["word " * 60] * 30))
    root = parsed(machine)
    assert float(root.get("width")) < 800
    assert "… and more" in {text for text, _ in texts(root)}
