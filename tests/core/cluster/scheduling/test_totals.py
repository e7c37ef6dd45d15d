"""Sums over the pods of a host."""

from hypothesis import given
from hypothesis import strategies as st

from numalign.core.cluster.scheduling.constraints import HostFacts, HostPort
from numalign.core.cluster.scheduling.totals import HostUse, Lack, requests_of
from numalign.core.pod import Container, Pod
from numalign.core.values.quantity import Quantity

HOST = HostFacts("w1", allocatable={"cpu": 4000, "memory": 8 << 30, "pods": 3, "v.com/nic": 1})


def test_a_pod_fits_until_the_last_of_a_resource_is_taken():
    use = HostUse()
    use.add("a", {"cpu": 3000})
    assert use.lack({"cpu": 1000}, HOST) is None
    assert use.lack({"cpu": 1001}, HOST) == Lack("cpu", 1001, 1000)


def test_a_resource_that_the_host_does_not_have_is_lacking():
    assert HostUse().lack({"v.com/gpu": 1}, HOST) == Lack("v.com/gpu", 1, 0)


def test_the_number_of_pods_is_bounded():
    use = HostUse()
    for uid in "abc":
        use.add(uid, {})
    assert use.lack({}, HOST) == Lack("pods", 1, 0)


def test_host_ports_are_held_as_long_as_the_pod_is_there():
    use = HostUse()
    use.add("a", {}, (HostPort(80),))
    assert use.port_taken((HostPort(80),)) == HostPort(80)
    use.remove("a")
    assert use.port_taken((HostPort(80),)) is None


def test_requests_count_overhead_and_the_hungriest_moment():
    pod = Pod(
        "u",
        init_containers=(Container("i", {"cpu": Quantity.parse("3")}, is_init=True),),
        containers=(Container("c", {"cpu": Quantity.parse("500m")}),),
        overhead={"cpu": Quantity.parse("100m")},
    )
    assert requests_of(pod) == {"cpu": 3100}


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.one_of(
                st.none(),
                st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(1, 9)),
            ),
        )
    )
)
def test_the_sum_is_always_that_of_the_pods(changes):
    use = HostUse()
    slow: dict[str, dict[str, int]] = {}
    for uid, requests in changes:
        if requests is None:
            use.remove(uid)
            slow.pop(uid, None)
        else:
            use.add(uid, requests)
            slow[uid] = requests
    sums: dict[str, int] = {}
    for requests in slow.values():
        for name, amount in requests.items():
            sums[name] = sums.get(name, 0) + amount
    assert use.used == sums
    assert use.pods == slow
