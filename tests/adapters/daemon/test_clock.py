"""The agent's clock: it goes on evenly, and tells when that of the host was set."""

from numalign.adapters.daemon.clock import SteadyClock


class Hands:
    wall = 1_000_000.0
    steady = 50.0


def test_a_clock_that_is_set_moves_nothing_until_it_is_told():
    hands = Hands()
    clock = SteadyClock(lambda: hands.wall, lambda: hands.steady)
    hands.steady += 10
    hands.wall += 10 - 3600
    assert clock() == 1_000_010.0
    assert clock.jump() == -3600
    assert clock() == hands.wall
    assert clock.jump() == 0.0


def test_a_clock_that_is_only_kept_right_does_not_jump():
    hands = Hands()
    clock = SteadyClock(lambda: hands.wall, lambda: hands.steady)
    hands.steady += 1000
    hands.wall += 1000.5
    assert clock.jump() == 0.0
    assert clock() == 1_001_000.0
