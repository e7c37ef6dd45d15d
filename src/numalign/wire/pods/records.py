"""The members of a v1.Pod that numalign looks at, typed.

Names are Kubernetes', so these records are also what the API gives back. What else a manifest has
is remembered by its path alone (see ``fields``), so that it can be told.
"""

from __future__ import annotations

from typing import Any

import msgspec

Amounts = dict[str, str | int | float]


class Resources(msgspec.Struct, omit_defaults=True):
    requests: Amounts | None = None
    limits: Amounts | None = None


class FieldRef(msgspec.Struct, omit_defaults=True):
    fieldPath: str  # noqa: N815


class ResourceFieldRef(msgspec.Struct, omit_defaults=True):
    resource: str
    containerName: str = ""  # noqa: N815
    divisor: str | int | float | None = None


class KeyRef(msgspec.Struct, omit_defaults=True):
    """A key of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool | None = None


class ValueFrom(msgspec.Struct, omit_defaults=True):
    """Where a value comes from; exactly one is given."""

    fieldRef: FieldRef | None = None  # noqa: N815
    resourceFieldRef: ResourceFieldRef | None = None  # noqa: N815
    configMapKeyRef: KeyRef | None = None  # noqa: N815
    secretKeyRef: KeyRef | None = None  # noqa: N815
    fileKeyRef: Any = None  # noqa: N815


class EnvVar(msgspec.Struct, omit_defaults=True):
    name: str
    value: str = ""
    valueFrom: ValueFrom | None = None  # noqa: N815


class ObjectRef(msgspec.Struct, omit_defaults=True):
    name: str = ""
    optional: bool | None = None


class EnvFrom(msgspec.Struct, omit_defaults=True):
    """All keys of a ConfigMap or Secret as variables."""

    prefix: str = ""
    configMapRef: ObjectRef | None = None  # noqa: N815
    secretRef: ObjectRef | None = None  # noqa: N815


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

    The last ones are only known so that a container that asks for them is not run without.
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
    sysctls: Any = None  # of a pod


class ExecAction(msgspec.Struct, omit_defaults=True):
    command: list[str] | None = None


class HttpHeader(msgspec.Struct, omit_defaults=True):
    name: str
    value: str = ""


class HttpGetAction(msgspec.Struct, omit_defaults=True):
    port: int | str
    path: str = ""
    host: str = ""
    scheme: str = "HTTP"
    httpHeaders: list[HttpHeader] | None = None  # noqa: N815


class TcpSocketAction(msgspec.Struct, omit_defaults=True):
    port: int | str
    host: str = ""


class GrpcAction(msgspec.Struct, omit_defaults=True):
    port: int
    service: str | None = None


class SleepAction(msgspec.Struct, omit_defaults=True):
    seconds: int


class Probe(msgspec.Struct, omit_defaults=True):
    """A question to a container, asked again and again; one kind of action is given."""

    exec: ExecAction | None = None
    httpGet: HttpGetAction | None = None  # noqa: N815
    tcpSocket: TcpSocketAction | None = None  # noqa: N815
    grpc: GrpcAction | None = None
    initialDelaySeconds: int = 0  # noqa: N815
    timeoutSeconds: int = 1  # noqa: N815
    periodSeconds: int = 10  # noqa: N815
    successThreshold: int = 1  # noqa: N815
    failureThreshold: int = 3  # noqa: N815
    terminationGracePeriodSeconds: int | None = None  # noqa: N815


class Hook(msgspec.Struct, omit_defaults=True):
    """What is done after a container starts, or before it is stopped."""

    exec: ExecAction | None = None
    httpGet: HttpGetAction | None = None  # noqa: N815
    tcpSocket: TcpSocketAction | None = None  # noqa: N815
    sleep: SleepAction | None = None


class Lifecycle(msgspec.Struct, omit_defaults=True):
    postStart: Hook | None = None  # noqa: N815
    preStop: Hook | None = None  # noqa: N815


class ContainerPort(msgspec.Struct, omit_defaults=True):
    """A port with the name that probes may call it by."""

    containerPort: int = 0  # noqa: N815
    name: str = ""
    hostPort: int = 0  # noqa: N815
    hostIP: str = ""  # noqa: N815
    protocol: str = "TCP"


class ContainerRecord(msgspec.Struct, omit_defaults=True):
    name: str
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    workingDir: str = ""  # noqa: N815
    env: list[EnvVar] | None = None
    envFrom: list[EnvFrom] | None = None  # noqa: N815
    resources: Resources | None = None
    restartPolicy: str | None = None  # noqa: N815
    imagePullPolicy: str = ""  # noqa: N815
    volumeMounts: list[VolumeMount] | None = None  # noqa: N815
    securityContext: SecurityContext | None = None  # noqa: N815
    ports: list[ContainerPort] | None = None
    startupProbe: Probe | None = None  # noqa: N815
    livenessProbe: Probe | None = None  # noqa: N815
    readinessProbe: Probe | None = None  # noqa: N815
    lifecycle: Lifecycle | None = None


class HostPath(msgspec.Struct, omit_defaults=True):
    path: str
    type: str = ""


class EmptyDir(msgspec.Struct, omit_defaults=True):
    """A directory that lives as long as its pod."""

    medium: str = ""
    sizeLimit: str | int | None = None  # noqa: N815


class KeyToPath(msgspec.Struct, omit_defaults=True):
    key: str
    path: str
    mode: int | None = None


class ConfigMapVolume(msgspec.Struct, omit_defaults=True):
    name: str = ""
    items: list[KeyToPath] | None = None
    defaultMode: int | None = None  # noqa: N815
    optional: bool | None = None


class SecretVolume(msgspec.Struct, omit_defaults=True):
    secretName: str = ""  # noqa: N815
    items: list[KeyToPath] | None = None
    defaultMode: int | None = None  # noqa: N815
    optional: bool | None = None


class Volume(msgspec.Struct, omit_defaults=True):
    """A volume; the kinds that need no cluster."""

    name: str
    hostPath: HostPath | None = None  # noqa: N815
    emptyDir: EmptyDir | None = None  # noqa: N815
    configMap: ConfigMapVolume | None = None  # noqa: N815
    secret: SecretVolume | None = None


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
    activeDeadlineSeconds: int | None = None  # noqa: N815
    hostname: str = ""
    serviceAccountName: str = ""  # noqa: N815
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
    # Paths of the manifest that not every runtime carries out; not a member of v1.Pod.
    unheeded: list[str] | None = None
