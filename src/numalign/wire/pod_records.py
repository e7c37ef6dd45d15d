"""The members of a v1.Pod that numalign looks at, typed. All others are passed over.

Names are Kubernetes', so these records are also what the API gives back.
"""

from __future__ import annotations

from typing import Any

import msgspec

Amounts = dict[str, str | int | float]


class Resources(msgspec.Struct, omit_defaults=True):
    """Requests and limits as written."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class EnvVar(msgspec.Struct, omit_defaults=True):
    """One environment variable; ``valueFrom`` needs a cluster and is not followed."""

    name: str
    value: str = ""
    valueFrom: Any = None  # noqa: N815


class ContainerRecord(msgspec.Struct, omit_defaults=True):
    """One container of a pod."""

    name: str
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    workingDir: str = ""  # noqa: N815
    env: list[EnvVar] | None = None
    resources: Resources | None = None
    restartPolicy: str | None = None  # noqa: N815


class Metadata(msgspec.Struct, omit_defaults=True):
    """What a pod is called."""

    name: str = ""
    generateName: str = ""  # noqa: N815
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creationTimestamp: str | None = None  # noqa: N815


class PodSpec(msgspec.Struct, omit_defaults=True):
    """What a pod is made of."""

    containers: list[ContainerRecord] | None = None
    initContainers: list[ContainerRecord] | None = None  # noqa: N815
    resources: Resources | None = None
    overhead: Amounts | None = None
    restartPolicy: str = "Always"  # noqa: N815
    terminationGracePeriodSeconds: int | None = None  # noqa: N815
    nodeName: str = ""  # noqa: N815
    priority: int | None = None


class PodStatusRecord(msgspec.Struct, omit_defaults=True):
    """The little of a status that a decision needs."""

    qosClass: str = ""  # noqa: N815


class PodRecord(msgspec.Struct, omit_defaults=True):
    """A v1.Pod."""

    apiVersion: str = "v1"  # noqa: N815
    kind: str = "Pod"
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatusRecord = msgspec.field(default_factory=PodStatusRecord)
