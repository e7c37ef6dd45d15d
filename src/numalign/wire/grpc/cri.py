"""Messages of the Container Runtime Interface (runtime.v1), from and to bytes.

What a runtime is told and what it answers are the values of ``cri_values``; of its answers only the
few facts that count are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from numalign.core.kubelet.cgroup_limits import mems_text, page_size_text
from numalign.core.values.sets import CpuSet, NodeSet
from numalign.wire.grpc._generated import cri_v1_pb2 as v1
from numalign.wire.grpc.cri_values import (
    ContainerSpec,
    ImageFound,
    Listed,
    Namespaces,
    Report,
    Resources,
    RunStatus,
    RuntimeVersion,
    Sandbox,
    SandboxSpec,
    Seccomp,
    Security,
)
from numalign.wire.grpc.protobuf import parsed

_RUNTIME: Final = "/runtime.v1.RuntimeService/"
_IMAGE: Final = "/runtime.v1.ImageService/"
VERSION: Final = _RUNTIME + "Version"
STATUS: Final = _RUNTIME + "Status"
RUNTIME_CONFIG: Final = _RUNTIME + "RuntimeConfig"
RUN_SANDBOX: Final = _RUNTIME + "RunPodSandbox"
STOP_SANDBOX: Final = _RUNTIME + "StopPodSandbox"
REMOVE_SANDBOX: Final = _RUNTIME + "RemovePodSandbox"
LIST_SANDBOXES: Final = _RUNTIME + "ListPodSandbox"
CREATE_CONTAINER: Final = _RUNTIME + "CreateContainer"
START_CONTAINER: Final = _RUNTIME + "StartContainer"
STOP_CONTAINER: Final = _RUNTIME + "StopContainer"
REMOVE_CONTAINER: Final = _RUNTIME + "RemoveContainer"
LIST_CONTAINERS: Final = _RUNTIME + "ListContainers"
CONTAINER_STATUS: Final = _RUNTIME + "ContainerStatus"
UPDATE_RESOURCES: Final = _RUNTIME + "UpdateContainerResources"
REOPEN_LOG: Final = _RUNTIME + "ReopenContainerLog"
EVENTS: Final = _RUNTIME + "GetContainerEvents"
IMAGE_STATUS: Final = _IMAGE + "ImageStatus"
PULL_IMAGE: Final = _IMAGE + "PullImage"

EMPTY: Final = b""  # any message without fields
NETWORK_READY: Final = "NetworkReady"

# The labels by which Kubernetes' tools know what belongs to a pod.
POD_NAME: Final = "io.kubernetes.pod.name"
POD_NAMESPACE: Final = "io.kubernetes.pod.namespace"
POD_UID: Final = "io.kubernetes.pod.uid"
CONTAINER_NAME: Final = "io.kubernetes.container.name"

# Our own annotation of a sandbox.
HOST_NETWORK: Final = "numalign.io/host-network"


# What a runtime is told.


def sandbox_request(spec: SandboxSpec) -> bytes:
    return v1.RunPodSandboxRequest(config=_sandbox(spec)).SerializeToString()


def _sandbox(spec: SandboxSpec) -> v1.PodSandboxConfig:
    security = spec.security
    return v1.PodSandboxConfig(
        metadata=v1.PodSandboxMetadata(
            name=spec.name, uid=spec.uid, namespace=spec.namespace, attempt=spec.attempt
        ),
        hostname=spec.hostname,
        log_directory=spec.log_directory,
        labels=spec.labels,
        annotations=spec.annotations,
        linux=v1.LinuxPodSandboxConfig(
            cgroup_parent=spec.cgroup_parent,
            security_context=v1.LinuxSandboxSecurityContext(
                namespace_options=_namespaces(spec.namespaces),
                privileged=security.privileged,
                run_as_user=_number(security.user),
                run_as_group=_number(security.group),
                supplemental_groups=security.groups,
            ),
        ),
    )


def _namespaces(found: Namespaces) -> v1.NamespaceOption:
    pid = v1.POD if found.shared_pid else v1.CONTAINER
    return v1.NamespaceOption(
        network=v1.NODE if found.host_network else v1.POD,
        pid=v1.NODE if found.host_pid else pid,
        ipc=v1.NODE if found.host_ipc else v1.POD,
    )


def _number(value: int | None) -> v1.Int64Value | None:
    return None if value is None else v1.Int64Value(value=value)


def create_request(sandbox_id: str, sandbox: SandboxSpec, spec: ContainerSpec) -> bytes:
    config = v1.ContainerConfig(
        metadata=v1.ContainerMetadata(name=spec.name, attempt=spec.attempt),
        image=v1.ImageSpec(image=spec.image_id, user_specified_image=spec.image),
        command=spec.command,
        args=spec.args,
        working_dir=spec.working_dir,
        envs=[v1.KeyValue(key=key, value=value.encode()) for key, value in spec.envs.items()],
        mounts=[
            v1.Mount(
                container_path=mount.container_path,
                host_path=mount.host_path,
                readonly=mount.read_only,
                propagation=v1.MountPropagation.Name(mount.propagation),
            )
            for mount in spec.mounts
        ],
        devices=[
            v1.Device(
                container_path=device.container_path,
                host_path=device.host_path,
                permissions=device.permissions,
            )
            for device in spec.devices
        ],
        CDI_devices=[v1.CDIDevice(name=name) for name in spec.cdi_names],
        labels=spec.labels,
        annotations=spec.annotations,
        log_path=spec.log_path,
        linux=v1.LinuxContainerConfig(
            resources=_resources(spec.resources),
            security_context=_security(spec.security, sandbox.namespaces),
        ),
    )
    return v1.CreateContainerRequest(
        pod_sandbox_id=sandbox_id, config=config, sandbox_config=_sandbox(sandbox)
    ).SerializeToString()


def _resources(found: Resources) -> v1.LinuxContainerResources:
    limits = found.limits
    return v1.LinuxContainerResources(
        cpu_shares=limits.cpu_shares,
        cpu_period=limits.cpu_period_us,
        cpu_quota=-1 if limits.cpu_quota_us is None else limits.cpu_quota_us,
        memory_limit_in_bytes=limits.memory_bytes_max or 0,
        oom_score_adj=found.oom_score_adj,
        cpuset_cpus=_cpus_text(found.cpus),
        cpuset_mems=mems_text(found.mems),
        hugepage_limits=[
            v1.HugepageLimit(page_size=page_size_text(size), limit=amount)
            for size, amount in sorted(found.hugepages.items())
        ],
        unified={"memory.oom.group": "1"} if found.kills_as_group else {},
    )


def _cpus_text(cpus: CpuSet | None) -> str:
    return str(cpus) if cpus else ""


def _security(found: Security, namespaces: Namespaces) -> v1.LinuxContainerSecurityContext:
    return v1.LinuxContainerSecurityContext(
        capabilities=v1.Capability(
            add_capabilities=found.capabilities_added,
            drop_capabilities=found.capabilities_dropped,
        ),
        privileged=found.privileged,
        namespace_options=_namespaces(namespaces),
        run_as_user=_number(found.user),
        run_as_group=_number(found.group),
        supplemental_groups=found.groups,
        readonly_rootfs=found.read_only_root,
        no_new_privs=found.no_new_privileges,
        seccomp=_profile(found.seccomp),
    )


def _profile(seccomp: Seccomp | None) -> v1.SecurityProfile | None:
    if seccomp is None:
        return None
    return v1.SecurityProfile(profile_type=v1.SecurityProfile.ProfileType.Name(seccomp))


def placing_request(container_id: str, cpus: CpuSet | None, mems: NodeSet | None) -> bytes:
    """An UpdateContainerResourcesRequest for the cpuset alone; what is None stays as it is."""
    linux = v1.LinuxContainerResources(cpuset_cpus=_cpus_text(cpus), cpuset_mems=mems_text(mems))
    request = v1.UpdateContainerResourcesRequest(container_id=container_id, linux=linux)
    return request.SerializeToString()


def container_request(container_id: str) -> bytes:
    """The request of every call that names a container and nothing else."""
    return v1.StartContainerRequest(container_id=container_id).SerializeToString()


def sandbox_id_request(sandbox_id: str) -> bytes:
    """The request of every call that names a sandbox and nothing else."""
    return v1.StopPodSandboxRequest(pod_sandbox_id=sandbox_id).SerializeToString()


def stop_request(container_id: str, grace_seconds: int) -> bytes:
    """A StopContainerRequest; without a grace period the container is killed at once."""
    request = v1.StopContainerRequest(container_id=container_id, timeout=grace_seconds)
    return request.SerializeToString()


def status_request(container_id: str) -> bytes:
    """A ContainerStatusRequest that asks for the process number too."""
    return v1.ContainerStatusRequest(container_id=container_id, verbose=True).SerializeToString()


def sandboxes_request(labels: Mapping[str, str]) -> bytes:
    found = v1.PodSandboxFilter(label_selector=labels)
    return v1.ListPodSandboxRequest(filter=found).SerializeToString()


def containers_request(labels: Mapping[str, str]) -> bytes:
    found = v1.ContainerFilter(label_selector=labels)
    return v1.ListContainersRequest(filter=found).SerializeToString()


def image_request(image: str) -> bytes:
    return v1.ImageStatusRequest(image=v1.ImageSpec(image=image)).SerializeToString()


def pull_request(image: str) -> bytes:
    """A PullImageRequest, with whatever credentials the runtime has itself."""
    return v1.PullImageRequest(image=v1.ImageSpec(image=image)).SerializeToString()


# What a runtime answers.


def version_of(data: bytes) -> RuntimeVersion:
    found = parsed(v1.VersionResponse, data)
    return RuntimeVersion(found.runtime_name, found.runtime_version, found.runtime_api_version)


def network_fault_of(data: bytes) -> str:
    """Why pods cannot have a network of their own, from a StatusResponse; "" if they can."""
    for condition in parsed(v1.StatusResponse, data).status.conditions:
        if condition.type == NETWORK_READY and not condition.status:
            return f"{condition.reason}: {condition.message}".strip(": ") or "not ready"
    return ""


def has_systemd_driver(data: bytes) -> bool:
    """Whether cgroups are made by systemd, from a RuntimeConfigResponse."""
    found = parsed(v1.RuntimeConfigResponse, data)
    return found.HasField("linux") and found.linux.cgroup_driver == v1.SYSTEMD


def sandbox_id_of(data: bytes) -> str:
    return parsed(v1.RunPodSandboxResponse, data).pod_sandbox_id


def container_id_of(data: bytes) -> str:
    return parsed(v1.CreateContainerResponse, data).container_id


def sandboxes_of(data: bytes) -> list[Sandbox]:
    return [
        Sandbox(
            item.id,
            item.metadata.uid,
            item.metadata.name,
            item.metadata.namespace,
            item.metadata.attempt,
            item.state == v1.SANDBOX_READY,
            HOST_NETWORK in item.annotations,
        )
        for item in parsed(v1.ListPodSandboxResponse, data).items
    ]


def containers_of(data: bytes) -> list[Listed]:
    return [
        Listed(
            item.id,
            item.pod_sandbox_id,
            item.labels.get(POD_UID, ""),
            item.metadata.name,
            item.metadata.attempt,
            _run_status(item.state),
        )
        for item in parsed(v1.ListContainersResponse, data).containers
    ]


def report_of(data: bytes) -> Report:
    found = parsed(v1.ContainerStatusResponse, data)
    status = found.status
    asked = status.resources.linux if status.resources.HasField("linux") else None
    return Report(
        status.id,
        _run_status(status.state),
        status.exit_code,
        status.reason,
        status.message,
        status.started_at,
        status.finished_at,
        _pid(found.info.get("info", "")),
        None if asked is None else asked.cpuset_cpus,
        None if asked is None else asked.cpuset_mems,
    )


def _run_status(number: int) -> RunStatus:
    return RunStatus(number) if number in set(RunStatus) else RunStatus.UNKNOWN


def _pid(text: str) -> int:
    """The process number in the runtime's own JSON; 0 where it says none."""
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return 0
    pid = found.get("pid", 0) if isinstance(found, dict) else 0
    return pid if isinstance(pid, int) and pid > 0 else 0


def event_id_of(data: bytes) -> str:
    """Which container a ContainerEventResponse is about."""
    return parsed(v1.ContainerEventResponse, data).container_id


def image_of(data: bytes) -> ImageFound | None:
    """The image in an ImageStatusResponse; None if it is not there."""
    found = parsed(v1.ImageStatusResponse, data)
    if not found.HasField("image"):
        return None
    image = found.image
    user = image.uid.value if image.HasField("uid") else None
    return ImageFound(image.id, user, image.username)


def pulled_of(data: bytes) -> str:
    return parsed(v1.PullImageResponse, data).image_ref
