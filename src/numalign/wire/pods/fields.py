"""What becomes of each member of a v1.Pod, in the process runtime and with CRI: one table.

A row speaks for its path and everything below it; the longest path counts. ``container`` stands for
the containers and the init containers of the spec. What promises safety and cannot be given is
refused, what does not is told. ``asks_nothing`` are values that change nothing, such as the API
server's own defaults: nobody needs to hear of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Care(StrEnum):
    DONE = "carried out"
    REFUSED = "refused"
    TOLD = "told"
    WRITTEN = "not a wish"  # the API server or a kubelet writes it


@dataclass(frozen=True, slots=True)
class Treatment:
    care: Care
    text: str = ""  # why, or how far

    def __str__(self) -> str:
        return f"{self.care}: {self.text}" if self.text else self.care.value


@dataclass(frozen=True, slots=True)
class Field:
    path: str
    process: Treatment
    cri: Treatment
    asks_nothing: tuple[object, ...] = ()


def _done(text: str = "") -> Treatment:
    return Treatment(Care.DONE, text)


def _told(text: str) -> Treatment:
    return Treatment(Care.TOLD, text)


def _refused(text: str) -> Treatment:
    return Treatment(Care.REFUSED, text)


_WRITTEN: Final = Treatment(Care.WRITTEN)
_NO_SCHEDULER: Final = _told("one host has no scheduler: the pod is given to this one")
_NO_CLUSTER: Final = _told("there is no API server behind the agent")
_NO_PROFILE: Final = "the container is not run without it"
_ONE_NETWORK: Final = _told("processes have the network of the host")
_WINDOWS: Final = _told("this is Linux")
_AS_ROOT: Final = "another user than who asked only if root asked"
_IN_MOUNTS: Final = "in a mount namespace; refused where the agent is not root"
_FROM_FILES: Final = "from --objects-dir, as far as who asked may read it; refused without"
_NOT_ASKED: Final = _told("probes are not asked with CRI; the container counts as ready")
_NO_HOOKS: Final = _told("hooks are not run with CRI")
_OTHER_VOLUME: Final = _refused("needs a cluster; give a hostPath, emptyDir, configMap or secret")


def _both(path: str, treatment: Treatment, *asks_nothing: object) -> Field:
    """The same in both runtimes; the texts are YAML's own for booleans."""
    plain = {"true": True, "false": False}
    return Field(
        path,
        treatment,
        treatment,
        tuple(plain.get(v, v) if isinstance(v, str) else v for v in asks_nothing),
    )


_PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")

TABLE: Final[tuple[Field, ...]] = (
    _both("apiVersion", _done()),
    _both("kind", _done()),
    _both("status", _WRITTEN),
    _both("status.qosClass", _done("the class, where the API server has set it")),
    # Metadata.
    _both("metadata", _WRITTEN),
    _both("metadata.name", _done()),
    _both("metadata.generateName", _done("over the API")),
    _both("metadata.namespace", _done("as a name; nothing is kept apart by it")),
    _both("metadata.uid", _done()),
    _both("metadata.labels", _done("shown, and chosen by")),
    _both("metadata.annotations", _done("shown")),
    _both("metadata.ownerReferences", _done("the controller owns the pod")),
    _both("metadata.finalizers", _NO_CLUSTER),
    # The pod.
    Field("spec.activeDeadlineSeconds", _done(), _done()),
    _both("spec.affinity", _NO_SCHEDULER),
    _both("spec.automountServiceAccountToken", _NO_CLUSTER, "false"),
    _both("spec.dnsConfig", _told("/etc/resolv.conf is that of the host")),
    _both("spec.dnsPolicy", _told("/etc/resolv.conf is that of the host"), "ClusterFirst"),
    _both("spec.enableServiceLinks", _NO_CLUSTER, "true", "false"),
    _both("spec.ephemeralContainers", _told("only for pods that run, and not started here")),
    _both("spec.evictionResponders", _NO_CLUSTER),
    _both("spec.hostAliases", _told("/etc/hosts is that of the host")),
    Field("spec.hostIPC", _told("processes always have the IPC of the host"), _done(), (False,)),
    Field("spec.hostNetwork", _done("always"), _done()),
    Field("spec.hostPID", _told("processes always see those of the host"), _done(), (False,)),
    _both("spec.hostUsers", _refused("there is no user namespace"), "true"),
    Field(
        "spec.hostname",
        _done("in a UTS namespace where the agent is root, else only in the variable HOSTNAME"),
        _told("the host name is the name of the pod"),
    ),
    _both("spec.hostnameOverride", _told("give hostname instead")),
    _both("spec.imagePullSecrets", _told("images are pulled without credentials")),
    _both("spec.nodeName", _done("shown")),
    _both("spec.nodeSelector", _NO_SCHEDULER),
    _both("spec.os", _WINDOWS, {"name": "linux"}),
    _both("spec.overhead", _done()),
    _both("spec.preemptionPolicy", _NO_SCHEDULER, "PreemptLowerPriority"),
    _both("spec.priority", _told("nobody is evicted for a pod of higher priority"), 0),
    _both("spec.priorityClassName", _told("nobody is evicted for a pod of higher priority")),
    _both("spec.readinessGates", _NO_CLUSTER),
    _both("spec.resourceClaims", _refused("there is no dynamic resource allocation here")),
    _both("spec.resources", _done()),
    _both("spec.resources.claims", _refused("there is no dynamic resource allocation here")),
    _both("spec.restartPolicy", _done()),
    _both("spec.runtimeClassName", _refused("there is only one runtime, and it may isolate less")),
    _both("spec.schedulerName", _NO_SCHEDULER, "default-scheduler"),
    _both("spec.schedulingGates", _NO_SCHEDULER),
    _both("spec.schedulingGroup", _NO_SCHEDULER),
    _both("spec.serviceAccount", _NO_CLUSTER, "default"),
    _both("spec.serviceAccountName", _NO_CLUSTER, "default"),
    _both("spec.setHostnameAsFQDN", _told("the host name has no domain"), "false"),
    Field(
        "spec.shareProcessNamespace",
        _told("processes always see those of the host"),
        _done(),
        (False,),
    ),
    _both("spec.subdomain", _told("the host name has no domain")),
    _both("spec.terminationGracePeriodSeconds", _done("up to 10 minutes")),
    _both("spec.tolerations", _NO_SCHEDULER),
    _both("spec.topologySpreadConstraints", _NO_SCHEDULER),
    # What the pod, and a container, may do.
    Field("spec.securityContext.runAsUser", _done(_AS_ROOT), _done()),
    Field("spec.securityContext.runAsGroup", _done("another group only if root asked"), _done()),
    _both("spec.securityContext.runAsNonRoot", _done("refused where it would be root")),
    Field(
        "spec.securityContext.supplementalGroups",
        _done("groups of who asked, any if root asked"),
        _done(),
    ),
    _both("spec.securityContext.supplementalGroupsPolicy", _told("no image adds groups"), "Merge"),
    Field(
        "spec.securityContext.fsGroup",
        _done("as a group, and as that of emptyDir volumes"),
        _done("as a group; the owner of volumes is not changed"),
    ),
    _both(
        "spec.securityContext.fsGroupChangePolicy",
        _told("only new emptyDir volumes get a group"),
        "OnRootMismatch",
        "Always",
    ),
    _both("spec.securityContext.seccompProfile", _done("see the container's")),
    _both("spec.securityContext.appArmorProfile", _refused(_NO_PROFILE), {"type": "Unconfined"}),
    _both("spec.securityContext.seLinuxOptions", _refused(_NO_PROFILE)),
    _both("spec.securityContext.seLinuxChangePolicy", _told("there is no SELinux label to change")),
    _both("spec.securityContext.sysctls", _refused("they would change the host"), []),
    _both("spec.securityContext.windowsOptions", _WINDOWS),
    Field("container.securityContext.runAsUser", _done(_AS_ROOT), _done()),
    Field(
        "container.securityContext.runAsGroup", _done("another group only if root asked"), _done()
    ),
    _both("container.securityContext.runAsNonRoot", _done("refused where it would be root")),
    Field(
        "container.securityContext.privileged",
        _done("only if root asked: all rights of the agent"),
        _done(),
    ),
    Field(
        "container.securityContext.capabilities",
        _done("add only if root asked and the agent has it; without root drop forbids to gain any"),
        _done(),
    ),
    _both("container.securityContext.allowPrivilegeEscalation", _done("false sets no_new_privs")),
    Field("container.securityContext.readOnlyRootFilesystem", _done(_IN_MOUNTS), _done()),
    Field(
        "container.securityContext.seccompProfile",
        _done("Unconfined; any other is refused"),
        _done("RuntimeDefault and Unconfined; Localhost is refused"),
    ),
    _both(
        "container.securityContext.appArmorProfile", _refused(_NO_PROFILE), {"type": "Unconfined"}
    ),
    _both("container.securityContext.seLinuxOptions", _refused(_NO_PROFILE)),
    Field(
        "container.securityContext.procMount",
        _told("/proc is that of the host"),
        _refused(_NO_PROFILE),
        ("Default",),
    ),
    _both("container.securityContext.windowsOptions", _WINDOWS),
    # Containers.
    _both("container.name", _done()),
    Field("container.image", _told("the commands run on the host itself"), _done(), ("", "none")),
    Field("container.imagePullPolicy", _told("no image is pulled"), _done(), ("", "IfNotPresent")),
    _both("container.command", _done()),
    _both("container.args", _done()),
    _both("container.workingDir", _done()),
    _both("container.resources", _done()),
    _both("container.resources.claims", _refused("there is no dynamic resource allocation here")),
    _both("container.resizePolicy", _told("pods are not resized; apply a changed one")),
    _both("container.restartPolicy", _done("Always on an init container: a sidecar")),
    _both("container.restartPolicyRules", _told("restartPolicy alone counts")),
    _both("container.env", _done()),
    _both("container.env[].valueFrom.configMapKeyRef", _done(_FROM_FILES)),
    _both("container.env[].valueFrom.secretKeyRef", _done(_FROM_FILES)),
    _both("container.env[].valueFrom.fileKeyRef", _refused("a variable is never set to nothing")),
    _both("container.envFrom", _done(_FROM_FILES)),
    Field(
        "container.ports",
        _done("as names for probes; processes listen on the host itself"),
        _done("as names; nothing is forwarded"),
    ),
    _both("container.ports[].hostPort", _told("no port is forwarded")),
    _both("container.ports[].hostIP", _told("no port is forwarded")),
    *(Field(f"container.{probe}", _done(), _NOT_ASKED) for probe in _PROBES),
    *(_both(f"container.{probe}.grpc.mode", _told("asked without TLS")) for probe in _PROBES),
    *(_both(f"container.{probe}.httpGet.protocol", _told("HTTP/1.1")) for probe in _PROBES),
    Field("container.lifecycle", _done(), _NO_HOOKS),
    _both("container.lifecycle.stopSignal", _told("containers are stopped with SIGTERM")),
    *(
        _both(f"container.lifecycle.{hook}.httpGet.protocol", _told("HTTP/1.1"))
        for hook in ("postStart", "preStop")
    ),
    _both("container.stdin", _told("standard input is empty"), "false"),
    _both("container.stdinOnce", _told("standard input is empty"), "false"),
    _both("container.tty", _told("output goes to a log, not to a terminal"), "false"),
    _both(
        "container.terminationMessagePath",
        _told("no message is read; see the log"),
        "/dev/termination-log",
    ),
    _both("container.terminationMessagePolicy", _told("no message is read; see the log"), "File"),
    _both("container.volumeDevices", _refused("there are no block volumes here")),
    Field("container.volumeMounts", _done(_IN_MOUNTS), _done()),
    _both("container.volumeMounts[].subPath", _refused("mount the volume whole")),
    _both("container.volumeMounts[].subPathExpr", _refused("mount the volume whole")),
    Field(
        "container.volumeMounts[].mountPropagation",
        _done("None and HostToContainer; Bidirectional is refused"),
        _done(),
    ),
    Field(
        "container.volumeMounts[].recursiveReadOnly",
        _done("readOnly always is recursive"),
        _told("as the runtime does it"),
        ("Disabled",),
    ),
    _both("container.volumeMounts[].bindMountOptions", _told("mounted without options")),
    # Volumes.
    _both("spec.volumes", _OTHER_VOLUME),
    _both("spec.volumes[].name", _done()),
    _both("spec.volumes[].hostPath", _done("with the rights of who asked")),
    _both("spec.volumes[].emptyDir", _done()),
    _both("spec.volumes[].emptyDir.sizeLimit", _told("only kept on medium Memory")),
    _both("spec.volumes[].configMap", _done(_FROM_FILES)),
    _both("spec.volumes[].secret", _done(_FROM_FILES)),
)

_BY_PATH: Final = {field.path: field for field in TABLE}
_CONTAINERS: Final = ("spec.containers[]", "spec.initContainers[]")


def field_at(path: str) -> Field | None:
    """The row that speaks for a path such as ``spec.containers[].tty``; None without one."""
    for containers in _CONTAINERS:
        if path.startswith(containers):
            path = "container" + path.removeprefix(containers)
    while path:
        found = _BY_PATH.get(path) or _BY_PATH.get(path.removesuffix("[]"))
        if found is not None:
            return found
        path = path.rpartition(".")[0]
    return None
