"""The members of a v1.Pod that numalign looks at, typed. All others are passed over.

Names are Kubernetes', so these records are also what the API gives back.
"""

from __future__ import annotations

from typing import Any

import msgspec

Amounts = dict[str, str | int | float]


class Resources(msgspec.Struct, omit_defaults=True):
    requests: Amounts | None = None
    limits: Amounts | None = None


class EnvVar(msgspec.Struct, omit_defaults=True):
    """One environment variable; ``valueFrom`` needs a cluster and is not followed."""

    name: str
    value: str = ""
    valueFrom: Any = None  # noqa: N815


class VolumeMount(msgspec.Struct, omit_defaults=True):
    name: str
    mountPath: str  # noqa: N815
    readOnly: bool = False  # noqa: N815
    subPath: str = ""  # noqa: N815
    subPathExpr: str = ""  # noqa: N815
    mountPropagation: str = ""  # noqa: N815


class Capabilities(msgspec.Struct, omit_defaults=True):
    """What a container may do beside the runtime's own list, or not of it."""

    add: list[str] | None = None
    drop: list[str] | None = None


class SeccompProfile(msgspec.Struct, omit_defaults=True):
    """Which system calls are let through."""

    type: str
    localhostProfile: str = ""  # noqa: N815


class SecurityContext(msgspec.Struct, omit_defaults=True):
    """What a container, or by default all containers of a pod, may do.

    The last three are only known so that a container that asks for them is not run without.
    """

    privileged: bool = False
    runAsUser: int | None = None  # noqa: N815
    runAsGroup: int | None = None  # noqa: N815
    runAsNonRoot: bool | None = None  # noqa: N815
    readOnlyRootFilesystem: bool = False  # noqa: N815
    allowPrivilegeEscalation: bool | None = None  # noqa: N815
    capabilities: Capabilities | None = None
    supplementalGroups: list[int] | None = None  # noqa: N815 of a pod
    fsGroup: int | None = None  # noqa: N815 of a pod
    seccompProfile: SeccompProfile | None = None  # noqa: N815
    appArmorProfile: Any = None  # noqa: N815
    seLinuxOptions: Any = None  # noqa: N815
    procMount: str = ""  # noqa: N815


class ContainerRecord(msgspec.Struct, omit_defaults=True):
    name: str
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    workingDir: str = ""  # noqa: N815
    env: list[EnvVar] | None = None
    resources: Resources | None = None
    restartPolicy: str | None = None  # noqa: N815
    # For container runtimes; a plain process has none of it.
    imagePullPolicy: str = ""  # noqa: N815
    volumeMounts: list[VolumeMount] | None = None  # noqa: N815
    securityContext: SecurityContext | None = None  # noqa: N815


class HostPath(msgspec.Struct, omit_defaults=True):
    path: str
    type: str = ""


class EmptyDir(msgspec.Struct, omit_defaults=True):
    """A directory that lives as long as its pod."""

    medium: str = ""
    sizeLimit: str | int | None = None  # noqa: N815


class Volume(msgspec.Struct, omit_defaults=True):
    """A volume; of all kinds only two need no cluster."""

    name: str
    hostPath: HostPath | None = None  # noqa: N815
    emptyDir: EmptyDir | None = None  # noqa: N815


class OwnerReference(msgspec.Struct, omit_defaults=True, frozen=True):
    """Who made a pod; of several owners the one with ``controller`` did."""

    apiVersion: str = ""  # noqa: N815
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(msgspec.Struct, omit_defaults=True):
    name: str = ""
    generateName: str = ""  # noqa: N815
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creationTimestamp: str | None = None  # noqa: N815
    ownerReferences: list[OwnerReference] | None = None  # noqa: N815

    @property
    def controller(self) -> OwnerReference | None:
        """The workload that this is one of, None for one that stands alone."""
        return next((o for o in self.ownerReferences or () if o.controller), None)

    @property
    def owner(self) -> str:
        """The same as kind/name; empty for one that stands alone."""
        found = self.controller
        return "" if found is None else f"{found.kind}/{found.name}"


class PodSpec(msgspec.Struct, omit_defaults=True):
    containers: list[ContainerRecord] | None = None
    initContainers: list[ContainerRecord] | None = None  # noqa: N815
    resources: Resources | None = None
    overhead: Amounts | None = None
    restartPolicy: str = "Always"  # noqa: N815
    terminationGracePeriodSeconds: int | None = None  # noqa: N815
    nodeName: str = ""  # noqa: N815
    priority: int | None = None
    # For container runtimes; a plain process has none of it.
    hostNetwork: bool = False  # noqa: N815
    hostPID: bool = False  # noqa: N815
    hostIPC: bool = False  # noqa: N815
    shareProcessNamespace: bool = False  # noqa: N815
    volumes: list[Volume] | None = None
    securityContext: SecurityContext | None = None  # noqa: N815


class PodStatusRecord(msgspec.Struct, omit_defaults=True):
    """The little of a status that a decision needs."""

    qosClass: str = ""  # noqa: N815


class PodRecord(msgspec.Struct, omit_defaults=True):
    apiVersion: str = "v1"  # noqa: N815
    kind: str = "Pod"
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatusRecord = msgspec.field(default_factory=PodStatusRecord)
