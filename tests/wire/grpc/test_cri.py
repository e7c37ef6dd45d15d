"""What a container runtime is told and answers, as bytes."""

import pytest

from numalign.core.errors import WireError
from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.kubelet.devices.plugin_answer import DeviceNode
from numalign.core.values.sets import CpuSet, NodeSet
from numalign.wire.grpc import cri
from numalign.wire.grpc._generated import cri_v1_pb2 as pb
from numalign.wire.grpc.cri_values import (
    BindMount,
    ContainerSpec,
    Namespaces,
    Propagation,
    Resources,
    RunStatus,
    SandboxSpec,
    Seccomp,
    Security,
)

SANDBOX = SandboxSpec(
    uid="u", name="web", namespace="team", log_directory="/logs", cgroup_parent="/n/podu"
)


def spec(**changes):
    resources = Resources(
        limits=Limits(cpu_shares=2048, cpu_quota_us=None, memory_bytes_max=2**30),
        cpus=CpuSet.of([1, 2, 3, 9]),
        mems=NodeSet.of([0, 1, 2]),
        hugepages={2**21: 2**22, 2**30: 0},
        oom_score_adj=-997,
    )
    found = {"name": "c", "attempt": 2, "image": "web:1", "log_path": "c.log"}
    return ContainerSpec(**{**found, "resources": resources, **changes})


def created(**changes):
    data = cri.create_request("s1", SANDBOX, spec(**changes))
    return pb.CreateContainerRequest.FromString(data).config


def test_a_container_is_told_where_it_runs_and_what_it_may_use():
    found = created().linux.resources
    assert (found.cpuset_cpus, found.cpuset_mems) == ("1-3,9", "0,1,2")
    assert (found.cpu_shares, found.cpu_quota, found.cpu_period) == (2048, -1, 100_000)
    assert (found.memory_limit_in_bytes, found.oom_score_adj) == (2**30, -997)
    assert [(p.page_size, p.limit) for p in found.hugepage_limits] == [("2MB", 2**22), ("1GB", 0)]


def test_a_container_gets_what_device_plugins_and_volumes_give():
    found = created(
        envs={"A": "ä"},
        mounts=(BindMount("/in", "/out", read_only=True, propagation=Propagation.BOTH_WAYS),),
        devices=(DeviceNode("/dev/g0", "/dev/null", "rw"),),
        cdi_names=("vendor.com/gpu=g0",),
    )
    assert [(e.key, e.value) for e in found.envs] == [("A", "ä".encode())]
    [mount], [device], [cdi] = found.mounts, found.devices, found.CDI_devices
    assert (mount.container_path, mount.host_path, mount.readonly) == ("/in", "/out", True)
    assert mount.propagation == pb.PROPAGATION_BIDIRECTIONAL
    assert (device.container_path, device.host_path, device.permissions) == (
        "/dev/g0", "/dev/null", "rw",
    )  # fmt: skip
    assert cdi.name == "vendor.com/gpu=g0"


def test_users_are_left_to_the_image_unless_told():
    found = created().linux.security_context
    assert not found.HasField("run_as_user")
    assert not found.HasField("seccomp")
    told = created(security=Security(user=0, seccomp=Seccomp.UNCONFINED)).linux.security_context
    assert (told.run_as_user.value, told.HasField("run_as_user")) == (0, True)
    assert told.seccomp.profile_type == pb.SecurityProfile.Unconfined


@pytest.mark.parametrize(
    ("namespaces", "wanted"),
    [
        (Namespaces(), (pb.NODE, pb.CONTAINER, pb.POD)),
        (Namespaces(host_network=False), (pb.POD, pb.CONTAINER, pb.POD)),
        (Namespaces(host_pid=True, host_ipc=True), (pb.NODE, pb.NODE, pb.NODE)),
        (Namespaces(shared_pid=True), (pb.NODE, pb.POD, pb.POD)),
    ],
)
def test_namespaces_are_the_pods_or_the_hosts(namespaces, wanted):
    sandbox = SandboxSpec(
        uid="u", name="n", namespace="s", log_directory="", cgroup_parent="", namespaces=namespaces
    )
    data = cri.sandbox_request(sandbox)
    found = pb.RunPodSandboxRequest.FromString(data).config.linux.security_context
    options = found.namespace_options
    assert (options.network, options.pid, options.ipc) == wanted


def test_a_move_names_the_cpuset_alone():
    data = cri.placing_request("c1", CpuSet.of([2]), None)
    found = pb.UpdateContainerResourcesRequest.FromString(data)
    wanted = pb.LinuxContainerResources(cpuset_cpus="2")
    assert (found.container_id, found.linux) == ("c1", wanted)


def test_a_report_has_the_process_and_what_was_asked_for():
    asked = pb.ContainerResources(linux=pb.LinuxContainerResources(cpuset_cpus="3"))
    status = pb.ContainerStatus(id="c1", state=pb.CONTAINER_RUNNING, resources=asked)
    data = pb.ContainerStatusResponse(status=status, info={"info": '{"pid": 42}'})
    found = cri.report_of(data.SerializeToString())
    assert (found.status, found.pid, found.cpus, found.mems) == (RunStatus.RUNNING, 42, "3", "")
    for text in ("", "no json", "[]", '{"pid": "x"}', '{"pid": -1}'):
        bare = pb.ContainerStatusResponse(info={"info": text}).SerializeToString()
        assert (cri.report_of(bare).pid, cri.report_of(bare).cpus) == (0, None)


def test_a_state_of_the_future_is_unknown():
    one = pb.Container(id="c1", state=7)
    [found] = cri.containers_of(pb.ListContainersResponse(containers=[one]).SerializeToString())
    assert found.status is RunStatus.UNKNOWN


@pytest.mark.parametrize(
    ("image", "is_root"),
    [
        (pb.Image(id="i"), True),
        (pb.Image(id="i", uid=pb.Int64Value(value=0)), True),
        (pb.Image(id="i", uid=pb.Int64Value(value=7)), False),
        (pb.Image(id="i", username="web"), None),
    ],
)
def test_an_image_says_as_whom_it_runs(image, is_root):
    found = cri.image_of(pb.ImageStatusResponse(image=image).SerializeToString())
    assert found is not None
    assert found.is_root is is_root


def test_an_image_that_is_not_there_is_none():
    assert cri.image_of(b"") is None


def test_a_runtime_without_a_network_says_why():
    condition = pb.RuntimeCondition(type="NetworkReady", reason="NoPlugin", message="none")
    status = pb.RuntimeStatus(conditions=[condition])
    data = pb.StatusResponse(status=status).SerializeToString()
    assert cri.network_fault_of(data) == "NoPlugin: none"
    assert cri.network_fault_of(b"") == ""


def test_bytes_of_another_kind_are_told():
    with pytest.raises(WireError, match="not a ListContainersResponse"):
        cri.containers_of(b"\xff\xff\xff")
