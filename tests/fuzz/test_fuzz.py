"""A short run of the fuzz driver, and whether it would notice anything."""

import resource

import pytest
from tests.fuzz.driver import BYTES_MAX, fuzz, tried
from tests.fuzz.mutate import mutated
from tests.fuzz.parsers import Parser, parsers

from numalign.core.errors import WireError


@pytest.mark.e2e
def test_mutated_inputs_are_read_or_refused_in_time_and_within_bounds():
    found = fuzz(3_600, seed=15, jobs=2)
    assert not found.failures, [(one.parser, one.number, one.what) for one in found.failures]
    assert found.read > 500
    assert found.refused > 500


def limit():
    """What the tests before these have left in this process does not count."""
    return BYTES_MAX + (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)


def test_every_parser_reads_what_it_starts_from():
    for parser in parsers():
        for seed in parser.seeds:
            found = tried(parser, seed, 0, limit())
            if parser.name not in {"kubelet configuration", "agent configuration"}:
                assert not found.failures, (parser.name, found.failures)
        assert any(tried(parser, seed, 0, limit()).read for seed in parser.seeds), parser.name


def refuse(_data):
    raise WireError("no \ud800")


def forget(_data):
    {}["a"]


def hang(_data):
    while True:
        pass


def swell(_data):
    return len(bytearray(800 << 20))


@pytest.mark.seconds_max(60)
@pytest.mark.parametrize(
    ("parse", "words"),
    [
        (refuse, "cannot be written"),
        (forget, "KeyError"),
        pytest.param(hang, "took more than 5 s", marks=pytest.mark.e2e),
        (swell, "MiB"),
    ],
)
def test_what_goes_wrong_is_noticed(parse, words):
    [failure] = tried(Parser("bad", [], parse), b"", 7, limit()).failures
    assert words in failure.what


def test_the_same_seed_gives_the_same_inputs():
    import random

    seeds = [b'{"a": [1, 2]}', b"b"]
    first, second = (
        [mutated(random.Random(f"x {n}"), seeds[0], seeds) for n in range(50)] for _ in range(2)
    )
    assert first == second
    assert len(set(first)) > 40
