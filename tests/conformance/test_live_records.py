"""Live records of real kubelets: what is compared, and that each comparison can fail."""

import copy
import gzip
import json
from dataclasses import replace

import pytest
from tests.paths import VECTORS

from numalign.conformance.live import live, version_of
from numalign.core.errors import WireError
from numalign.core.settings import Version
from numalign.wire.checkpoints import devices as device_checkpoint

RECORDS = VECTORS / "live"


def record(name):
    with gzip.open(RECORDS / f"{name}.json.gz", "rt") as stream:
        return json.load(stream)


def applied(found, name):
    return next(
        s for s in found["steps"] if "apply" in s and s["apply"]["metadata"]["name"] == name
    )


@pytest.fixture(scope="module")
def whole():
    return record("restricted-container-1.36.4")


@pytest.fixture
def one(whole):
    return copy.deepcopy(whole)


@pytest.mark.parametrize(
    ("pod", "group", "file", "value"),
    [
        ("p1", "c", "cpuset.cpus", "8-11"),
        ("p1", "c", "cpuset.cpus.effective", "0-15"),
        ("p1", "c", "cpuset.mems", "0"),
        ("p1", "c", "cpuset.mems.effective", "0-3"),
        ("p1", "c", "cpu.weight", "1"),
        ("p1", "c", "cpu.max", "400000 100000"),
        ("p1", "c", "memory.max", "max"),
        ("p1", "c", "hugetlb.2MB.max", "0"),
        ("p1", "", "cpuset.cpus", "4-7"),
        ("p1", "", "cpu.weight", "158"),
        ("p1", "", "cpu.max", "400000 100000"),
        ("p1", "", "memory.max", "50331649000"),
        ("p5", "", "hugetlb.2MB.max", "0"),
        ("p2", "c", "cpuset.cpus", "0-15"),
    ],
)
def test_every_cgroup_file_is_compared(one, pod, group, file, value):
    applied(one, pod)["result"]["cgroups"][group][file] = value
    [found] = live(one)
    assert f"(apply {pod})" in found
    assert f": {file} " in found
    assert found.endswith(f"expected {value!r}")


def test_a_group_that_the_pod_does_not_have_is_reported(one):
    applied(one, "p1")["result"]["cgroups"]["x"] = {}
    assert live(one) == ["step 0 (apply p1): cgroup of x: the pod has no such container"]


def test_memory_is_compared_in_whole_pages(one):
    resources = applied(one, "p1")["apply"]["spec"]["containers"][0]["resources"]
    for part in resources.values():
        part["memory"] = str(50331648 + 100)
    assert not [text for text in live(one) if "memory.max" in text]
    for part in resources.values():
        part["memory"] = str(50331648 + 4096)
    assert [text for text in live(one) if "memory.max" in text]


@pytest.mark.parametrize("key", ["reason", "message"])
def test_the_words_of_a_refusal_are_compared(one, key):
    result = applied(one, "p7")["result"]
    right = result[key]
    result[key] = f"{right} really"
    found = live(one)[0]
    assert "(apply p7)" in found
    assert f"{right} really" in found


def test_an_admission_where_the_kubelet_refused_is_reported(one):
    applied(one, "p1")["result"].update(reason="X", message="Pod was rejected: y", phase="Failed")
    assert "admitted, expected Failed X: Pod was rejected: y" in live(one)[0]


@pytest.mark.parametrize("file", ["cpu_manager_state", "memory_manager_state"])
def test_the_bytes_of_the_state_files_are_compared(one, file):
    result = applied(one, "p3")["result"]
    result[file] = result[file].replace('"checksum":', '"checksum":1')
    assert any(f"file {file}" in text for text in live(one))


def test_devices_are_compared_by_count_and_nodes_but_not_by_id():
    found = record("single-pod-1.36.4")
    file = device_checkpoint.decode(
        applied(found, "p4")["result"]["kubelet_internal_checkpoint"].encode()
    )
    [entry] = [e for e in file.entries if e.container == "b"]
    [[held]] = entry.devices.values()
    other = {"n0": "n1", "n1": "n0"}[held]  # both are on node 0, n2 on node 3

    def told(ids_by_node):
        changed = copy.deepcopy(found)
        now = replace(file, entries=(replace(entry, devices=ids_by_node),))
        text = device_checkpoint.encode(now).decode()
        applied(changed, "p4")["result"]["kubelet_internal_checkpoint"] = text
        return [text for text in live(changed) if "container b: vendor.com/nic" in text]

    assert not told({0: (other,)})
    assert told({3: ("n2",)})
    assert told({0: (held, other)})


def test_the_reasons_after_a_restart_are_compared():
    found = record("restricted-distribute-1.36.4")
    restart = next(s for s in found["steps"] if "restart" in s)
    name, (phase, reason) = next((n, v) for n, v in restart["result"]["pods"].items() if v[1])
    restart["result"]["pods"][name] = [phase, "Other"]
    assert live(found) == [f"step 14 (restart): pod {name}: {reason}, expected Other"]


def test_what_a_record_may_leave_out(one):
    del one["devices"], one["name"], one["topology"]
    one["kubernetes"] = "v1.36"
    one["steps"] = [s for s in one["steps"] if "apply" in s][:2]
    del one["steps"][1]["result"]
    for key in ("cgroups", "memory_manager_state", "kubelet_internal_checkpoint", "qos"):
        del one["steps"][0]["result"][key]
    assert live(one) == []


def test_a_pod_that_goes_while_the_kubelet_is_stopped_is_gone_when_it_starts(one):
    first = next(i for i, s in enumerate(one["steps"]) if "restart" in s)
    one["steps"] = one["steps"][:first]
    admitted = [s for s in one["steps"] if "apply" in s and s["result"]["phase"] == "Running"]
    last = admitted[-1]["apply"]["metadata"]["name"]
    result = {"pods": {f"{last}-worker-1": ["Failed", "X"]}}
    one["steps"] += [{"stop": True}, {"delete": last}, {"start": True, "result": result}]
    assert live(one) == []  # nobody asks about it any more
    del one["steps"][-2]
    assert len(live(one)) == 1


def test_memory_of_pods_that_are_gone_is_held_over_a_restart():
    """Seen with real kubelets: it is freed at the first admission after it."""
    with gzip.open(RECORDS.with_name("live-own") / "single-full-cores-1.36.4.json.gz") as stream:
        found = json.load(stream)
    start = next(s for s in found["steps"] if "start" in s)
    gone = [s for s in found["steps"] if s.get("delete") == "p6"]
    assert "00000006-" in start["result"]["memory_manager_state"]
    assert gone
    assert "00000006-" not in start["result"]["cpu_manager_state"]
    assert live(found) == []


def test_a_pod_that_ran_to_its_end_holds_nothing(one):
    """The next one gets the same CPUs and so has the same cgroups."""
    first = applied(one, "p1")
    again = copy.deepcopy(first)
    one["steps"] = [first, again]
    first["result"]["phase"] = "Succeeded"
    again["apply"]["metadata"] |= {"name": "again", "uid": "u-again"}
    del again["result"]["cpu_manager_state"], again["result"]["memory_manager_state"]
    assert live(one) == []
    first["result"]["phase"] = "Running"
    assert live(one)


def test_a_configuration_with_which_we_would_not_start_is_a_difference(one):
    one["config"]["reservedMemory"] = []
    [found] = live(one)
    assert found.startswith("refused to start: ")


def test_an_unknown_step_or_version_gets_one_clear_line(one):
    one["steps"] = [{"explode": 1}]
    with pytest.raises(WireError, match=r"found one with \['explode'\], expected apply"):
        live(one)
    with pytest.raises(WireError, match=r"found 'v1\.2', expected a version of 1\.36, 1\.37"):
        version_of("v1.2")
    assert version_of("1.37.1-rc.0") is Version.V1_37
