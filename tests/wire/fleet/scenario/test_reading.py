import pytest
from tests.apps.simulator.scenarios import SMALL, scenario

from numalign.core.errors import WireError
from numalign.wire.fleet.scenario.reading import read


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "count: 5",
            "count: five",
            "s.yaml: line 7: hosts[0].count: found a text, expected a whole number",
        ),
        ("count: 5", "cuont: 5", "s.yaml: line 7: hosts[0].cuont: found a field that no scenario"),
        ("count: 5", "count: 0", "s.yaml: line 7: hosts[0].count: found 0, expected 1 to"),
        ("kind: Scenario", "kind: Pod", "s.yaml: line 3: kind: found 'Pod', expected Scenario"),
        ("seeds: 1-2", "seeds: 1..2", "s.yaml: line 17: seeds: found '1..2', expected a number or"),
        (
            "preset: web-mix",
            "preset: web",
            "line 12: work[0].preset: found 'web', expected one of telco, gpu-training",
        ),
        ("pods: 300", "pods: -1", "s.yaml: line 13: work[0].pods: found -1, expected 1 to"),
        (
            "    machine: 2s:1n:8c:2t,mem=64Gi\n",
            "",
            "s.yaml: line 6: hosts[0]: expected exactly one",
        ),
        ("samples: 12", "samples: [", "s.yaml: found unreadable YAML"),
        ("samples: 12", "schedulers: [numa]", "line 16: schedulers[0]: found the scheduler 'numa'"),
        ("samples: 12", "mix: {a: {cpu: x}}", "line 16: mix.a: expected amounts such as cpu: 16"),
        ("name: small\n", "bench: 1\n", "s.yaml: line 4: bench: found a field that no scenario"),
        ("count: 5", "podsMax: 0", "s.yaml: line 7: hosts[0].podsMax: found 0, expected 1 to"),
        (
            "samples: 12",
            "controllers: {attemptsMax: 0}",
            "s.yaml: line 16: controllers.attemptsMax: found 0, expected 1 to",
        ),
        (
            "samples: 12",
            "mix: {a: {cpu: 4}}\nshapes: {a: {cpu: x}}",
            "s.yaml: line 17: shapes.a: expected amounts",
        ),
        ("vf: 4", "vf: -4", "line 9: hosts[0].devices.intel.com/sriov_vf: found -4, expected"),
    ],
)
def test_a_broken_scenario_is_told_with_file_line_and_what_was_expected(old, new, problem):
    assert old in SMALL
    with pytest.raises(WireError) as error:
        read(SMALL.replace(old, new).encode(), "s.yaml")
    assert problem in str(error.value)


def test_a_scenario_has_its_seeds():
    assert scenario().seeds == (1, 2)
