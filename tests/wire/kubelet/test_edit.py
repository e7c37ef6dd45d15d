"""Advised keys change; everything else in a kubelet's file stays."""

import json
import random
from dataclasses import replace

import pytest
import yaml

from numalign.core.errors import WireError
from numalign.core.settings import ReservedMemory, Version
from numalign.core.values.quantity import Quantity
from numalign.wire import yaml as plain_yaml
from numalign.wire.kubelet import config as kubelet_config
from numalign.wire.kubelet.edit import ADVISED, advised_values, drop_in, edited, merged
from numalign.wire.kubelet.keys import KubeletConfig

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
FILE = (
    "# rack 7\n"
    + HEAD
    + """\
clusterDNS: [10.96.0.10]  # coredns
authentication:
  x509:
    clientCAFile: /etc/ca.crt
cpuManagerPolicy: none  # for now
# the managers
cpuManagerPolicyOptions:
  full-pcpus-only: "true"
# afterwards
staticPodPath: /etc/kubernetes/manifests
reservedMemory:
- numaNode: 0
  limits: {memory: 1Gi}

# the end
"""
)
STATIC = KubeletConfig(
    cpu_policy="static",
    topology_policy="restricted",
    reserved_system_cpus="0-1",
    memory_policy="Static",
    reserved_memory=(ReservedMemory(1, "memory", Quantity.parse("2Gi")),),
)


def test_keys_are_changed_where_they_stand_and_comments_stay():
    assert edited(FILE.encode(), STATIC).decode() == (
        "# rack 7\n"
        + HEAD
        + """\
clusterDNS: [10.96.0.10]  # coredns
authentication:
  x509:
    clientCAFile: /etc/ca.crt
cpuManagerPolicy: static  # for now
# the managers
# afterwards
staticPodPath: /etc/kubernetes/manifests
reservedMemory:
- numaNode: 1
  limits:
    memory: 2Gi

# the end
memoryManagerPolicy: Static
topologyManagerPolicy: restricted
reservedSystemCPUs: 0-1
"""
    )


def test_a_file_that_says_it_already_stays_byte_for_byte():
    once = edited(FILE.encode(), STATIC)
    assert edited(once, STATIC) == once


def test_a_default_that_nobody_wrote_is_not_written():
    assert edited(HEAD.encode(), KubeletConfig()) == HEAD.encode()


def test_a_key_without_a_value_gets_one():
    text = HEAD + "cpuManagerPolicy:\nclusterDomain: cluster.local\n"
    new = edited(text.encode(), replace(KubeletConfig(), cpu_policy="static")).decode()
    assert new == HEAD + "cpuManagerPolicy: static\nclusterDomain: cluster.local\n"


def test_json_stays_json_in_its_order():
    text = json.dumps({**plain_yaml.load(HEAD.encode()), "port": 1, "cpuManagerPolicy": "none"})
    new = json.loads(edited(text.encode(), replace(KubeletConfig(), cpu_policy="static")))
    assert list(new) == ["apiVersion", "kind", "port", "cpuManagerPolicy"]
    assert new["cpuManagerPolicy"] == "static"


def test_a_document_mark_at_the_end_stays_at_the_end():
    new = edited((HEAD + "...\n").encode(), replace(KubeletConfig(), cpu_policy="static"))
    assert new.decode() == HEAD + "cpuManagerPolicy: static\n...\n"


def test_what_is_no_map_is_refused():
    with pytest.raises(WireError, match="found no map"):
        edited(b"- 1\n", STATIC)


def some_config(rng):
    options = {o: "true" for o in ("full-pcpus-only", "align-by-socket") if rng.random() < 0.5}
    memory = [ReservedMemory(n, "memory", Quantity.parse("1Gi")) for n in range(rng.randrange(3))]
    return KubeletConfig(
        cpu_policy=rng.choice(["none", "static"]),
        cpu_options=options,
        memory_policy=rng.choice(["None", "Static"]),
        reserved_memory=tuple(memory),
        topology_policy=rng.choice(["none", "restricted"]),
        topology_scope=rng.choice(["container", "pod"]),
        topology_options={"max-allowable-numa-nodes": "9"} if rng.random() < 0.3 else {},
        reserved_system_cpus=rng.choice(["", "0", "0,4"]),
    )


def some_file(rng, config):
    """A file with these values: keys in any order and style, comments and others between."""
    others = {
        "clusterDNS": ["10.0.0.1", "10.0.0.2"],
        "authentication": {"webhook": {"enabled": True, "cacheTTL": "2m0s"}},
        "cgroupDriver": "systemd",
        "tlsCertFile": "/a: b #c",
    }
    values = {k: v for k, v in advised_values(config).items() if v}
    members = [*values.items(), *others.items()]
    rng.shuffle(members)
    text = HEAD
    for key, value in members:
        if rng.random() < 0.4:
            text += f"# about {key}: x\n"
        written = yaml.safe_dump({key: value}, default_flow_style=rng.choice([None, True, False]))
        text += written[1:-2] + "\n" if written.startswith("{") else written
        if rng.random() < 0.2:
            text += "\n"
    return text.rstrip("\n") + rng.choice(["", "\n"]), others


@pytest.mark.parametrize("seed", range(200))
def test_a_changed_file_says_what_was_wanted_and_all_else_as_before(seed):
    rng = random.Random(f"edit {seed}")
    before, after = some_config(rng), some_config(rng)
    lines, others = some_file(rng, before)
    new = edited(lines.encode(), after)
    read = kubelet_config.load(new, version=Version.V1_36)
    assert advised_values(read) == advised_values(after)
    content = plain_yaml.load(new)
    assert {key: content[key] for key in others} == others
    kept = [key for key in plain_yaml.load(lines.encode()) if key in content]
    assert [key for key in content if key in kept] == kept
    comments = [line for line in lines.splitlines() if line.startswith("#")]
    assert [line for line in new.decode().splitlines() if line.startswith("#")] == comments


@pytest.mark.parametrize("seed", range(100))
def test_a_drop_in_over_the_file_says_what_was_wanted(seed):
    rng = random.Random(f"drop-in {seed}")
    before, after = some_config(rng), some_config(rng)
    patch = drop_in(before, after)
    assert set(patch) <= {"apiVersion", "kind", *ADVISED}
    whole = merged(kubelet_config.document_of(before), patch)
    read = kubelet_config.load(json.dumps(whole), version=Version.V1_36)
    assert advised_values(read) == advised_values(after)
