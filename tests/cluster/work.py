"""Pods and Deployments to try a cluster with."""

from __future__ import annotations

import json


def pod_spec(cpu: str = "3", memory: str = "1Gi", **others) -> dict:
    """A Guaranteed pod of one container that never runs anything."""
    amounts = {"cpu": cpu, "memory": memory, **others.pop("amounts", {})}
    container = {"name": "app", "image": "none", "resources": {"limits": amounts}}
    return {"containers": [container], "terminationGracePeriodSeconds": 0, **others}


def pod(name: str, host: str = "", *, annotations=None, labels=None, **spec) -> str:
    """The manifest of a bare pod, perhaps already bound."""
    found = pod_spec(**spec)
    if host:
        found["nodeName"] = host
    metadata = {"name": name, "annotations": annotations or {}, "labels": labels or {}}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": found})


def deployment(name: str, replicas: int, *, namespace: str = "default", labels=None, **spec) -> str:
    """The manifest of a Deployment."""
    chosen = {"app": name, **(labels or {})}
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": chosen}, "spec": pod_spec(**spec)},
            },
        }
    )
