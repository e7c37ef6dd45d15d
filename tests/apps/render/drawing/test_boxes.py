"""Boxes lie within boxes, and no text needs more room than it has."""

import pytest
from hypothesis import given, settings
from tests.apps.render.odd_machines import machines

from numalign.apps.render.drawing.boxes import (
    Box,
    Grid,
    Label,
    Panel,
    Size,
    Stretch,
    balanced,
    place,
)
from numalign.apps.render.drawing.picture import picture
from numalign.apps.render.drawing.textwidth import shortened, text_width
from numalign.core.machine.examples.catalogue import EXAMPLES


def leaf(w: float = 10, h: float = 10) -> Panel:
    return Panel("leaf", pad=0, width_min=w, height_min=h)


def boxes(panel: Panel, room: Size | None = None) -> list[tuple[float, ...]]:
    return [(b.x, b.y, b.w, b.h) for b in place(panel, room=room) if b.role == "leaf"]


def test_a_panel_needs_room_for_its_grid_and_its_edge():
    panel = Panel("p", grids=(Grid((leaf(),) * 4, columns=2, gap=3),), pad=5)
    assert panel.size == Size(2 * 10 + 3 + 2 * 5, 2 * 10 + 3 + 2 * 5)
    assert boxes(panel) == [(5, 5, 10, 10), (18, 5, 10, 10), (5, 18, 10, 10), (18, 18, 10, 10)]


@pytest.mark.parametrize(
    ("stretch", "widths"),
    [(Stretch.ALL, [25, 25]), (Stretch.LAST, [10, 40]), (Stretch.NONE, [10, 10])],
)
def test_width_that_is_left_over_goes_where_the_grid_says(stretch, widths):
    panel = Panel("p", grids=(Grid((leaf(), leaf()), 2, gap=0, stretch=stretch),), pad=0)
    assert [w for _, _, w, _ in boxes(panel, Size(50, 10))] == widths


def test_height_that_is_left_over_goes_to_the_grid_that_grows():
    grids = (Grid((leaf(),)), Grid((leaf(),), grow=True))
    panel = Panel("p", grids=grids, pad=0, gap=0)
    assert [h for _, _, _, h in boxes(panel, Size(10, 100))] == [10, 90]


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (4, 4), (8, 4), (28, 7), (29, 8), (72, 12)])
def test_rows_are_full_where_that_does_not_make_a_ribbon(count, columns):
    assert balanced([leaf(10, 7)] * count, ratio=3) == columns


def test_a_long_text_is_cut_with_an_ellipsis_to_fit():
    assert shortened("eth0", 10, 100) == "eth0"
    cut = shortened("a-very-long-interface-name", 10, 80)
    assert cut.endswith("…")
    assert text_width(cut, 10) <= 80
    assert shortened("anything", 10, 1) == ""


def check(machine) -> None:
    drawn = picture(machine)
    found = [shape for shape in drawn.shapes if isinstance(shape, Box)]
    for box in found:
        assert box.x >= -0.01
        assert box.y >= -0.01
        assert box.x + box.w <= drawn.width + 0.01
        assert box.y + box.h <= drawn.height + 0.01
    for label in drawn.shapes:
        if isinstance(label, Label):
            need = text_width(label.text, label.size, bold=label.bold)
            assert need <= label.w + 0.01, label


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_text_of_an_example_leaves_its_room(name):
    check(EXAMPLES[name].machine())


@settings(max_examples=30, deadline=None)
@given(machines())
def test_no_text_of_any_machine_leaves_its_room(machine):
    check(machine)
