"""Our annotations: the container's own policy wins over its pod's; nonsense is refused."""

import pytest

from numalign.core.errors import WireError
from numalign.wire.pods.annotations import MEMORY_POLICY, mempolicy_of
from numalign.wire.pods.manifests import record_of


def record(**annotations):
    names = {
        MEMORY_POLICY + ("" if key == "pod" else f".{key}"): text
        for key, text in annotations.items()
    }
    return record_of(
        {
            "kind": "Pod",
            "metadata": {"name": "p", "annotations": {**names, "other": "x"}},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
        },
        "pod.yaml",
    )


def test_a_containers_own_policy_wins_over_that_of_its_pod():
    found = record(pod="interleave", b="preferred=1")
    assert str(mempolicy_of(found, "a")) == "interleave"
    assert str(mempolicy_of(found, "b")) == "preferred=1"
    assert mempolicy_of(record(b="bind"), "a") is None


def test_a_policy_that_is_none_is_refused_with_the_name_of_the_annotation():
    with pytest.raises(WireError, match=r"annotation numalign.io/memory-policy: found 'near', exp"):
        record(pod="near")


def test_a_policy_of_a_container_that_is_not_there_is_refused():
    with pytest.raises(WireError, match=r"policy.c: found no such container, expected one of a, b"):
        record(c="bind")
