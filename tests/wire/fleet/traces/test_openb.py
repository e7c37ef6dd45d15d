import pytest

from numalign.core.errors import WireError
from numalign.core.fleet.gpu_sharing.hosts import HostShape, SharedPod
from numalign.wire.fleet.traces import openb

HOSTS = "sn,cpu_milli,memory_mib,gpu,model\nb,96000,393216,8,G2\na,32000,262144,0,\n"
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"


def test_hosts_are_sorted_by_name():
    assert openb.host_shapes("f", HOSTS) == [
        HostShape("a", 32000, 262144, 0),
        HostShape("b", 96000, 393216, 8, "G2"),
    ]


def test_a_list_without_models_is_read():
    found = openb.shared_pods("f", f"{HEAD}\np,12000,16384,1,1000\n")
    assert found == [SharedPod("p", 12000, 16384, 1, 1000)]


def test_a_pod_without_gpus_asks_for_no_part_of_one():
    [found] = openb.shared_pods("f", f"{HEAD},gpu_spec\np,12000,16384,0,500,V100\n")
    assert found.demand == 0
    assert found.gpu_milli == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name,cpu_milli\n", "line 1: found the columns name, cpu_milli, expected also m"),
        ("", r"f: line 1: found the columns \(none\), expected also name"),
        (f"{HEAD}\n", "f: found no pod"),
        (f"{HEAD}\np,1,1,1\n", "f: line 2: found 4 values, expected 5"),
        (f"{HEAD}\np,1,1,0,0\np,x,1,1,1\n", "line 3: column cpu_milli: found 'x', expected"),
        (f"{HEAD}\np,1,1,1,1001\n", "f: line 2: found 1001 thousandths of 1 GPUs"),
        (f"{HEAD}\np,1,1,2,500\n", "f: line 2: found 500 thousandths of 2 GPUs"),
    ],
)  # fmt: skip
def test_a_broken_list_is_told_with_its_line(text, problem):
    with pytest.raises(WireError, match=problem):
        openb.shared_pods("f", text)
