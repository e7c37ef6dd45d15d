"""The CustomResourceDefinition of NodeResourceTopology, in both versions."""

from __future__ import annotations

from typing import Any, Final

import yaml

from numalign.wire.kubernetes.api import NRTS

NAME: Final = f"{NRTS.plural}.{NRTS.group}"
# The group ends in k8s.io, so the API server asks who approved it.
_APPROVAL: Final = "https://github.com/kubernetes/enhancements/pull/1870"
_QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def crd() -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "annotations": {"api-approved.kubernetes.io": _APPROVAL}},
        "spec": {
            "group": NRTS.group,
            "names": {
                "kind": NRTS.name,
                "listKind": f"{NRTS.name}List",
                "plural": NRTS.plural,
                "singular": "noderesourcetopology",
                "shortNames": ["node-res-topo"],
            },
            "scope": "Cluster",
            "versions": [
                _version("v1alpha1", is_storage=False),
                _version("v1alpha2", is_storage=True),
            ],
        },
    }


def text() -> str:
    return yaml.dump(crd(), Dumper=_Plain, sort_keys=False, width=1000)


class _Plain(yaml.SafeDumper):
    """Writes every part out, where the standard one would refer to an equal part before."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401 - as in the base
        return True


def _version(name: str, *, is_storage: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "apiVersion": _text("The version of this representation of the object."),
        "kind": _text("The kind of this object."),
        "metadata": {"type": "object"},
        "topologyPolicies": _list(
            {"type": "string"}, "Policy and scope of the topology manager in one word; deprecated."
        ),
        "zones": _list(_zone(), "The parts of the host, most of all its NUMA nodes."),
    }
    required = ["topologyPolicies", "zones"]
    if is_storage:
        properties["attributes"] = _list(_named(), "What is true of the whole host.")
        required = ["zones"]
    schema = {
        "description": "The resources of one host by NUMA node.",
        "type": "object",
        "required": required,
        "properties": properties,
    }
    return {
        "name": name,
        "served": True,
        "storage": is_storage,
        "schema": {"openAPIV3Schema": schema},
    }


def _zone() -> dict[str, Any]:
    return _object(
        ["name", "type"],
        {
            "name": _text("For NUMA nodes node- and the number."),
            "type": _text("Node for a NUMA node."),
            "parent": _text("The zone around this one."),
            "attributes": _list(_named(), "What is true of this zone."),
            "costs": _list(_cost(), "The distances from here to all zones."),
            "resources": _list(_resource(), "What this zone has."),
        },
    )


def _resource() -> dict[str, Any]:
    return _object(
        ["allocatable", "available", "capacity", "name"],
        {
            "name": _text("Such as cpu, memory or a device's."),
            "capacity": _quantity("All there is."),
            "allocatable": _quantity("What pods may ever use."),
            "available": _quantity("What no pod holds for itself."),
        },
    )


def _cost() -> dict[str, Any]:
    return _object(
        ["name", "value"],
        {"name": _text("The other zone."), "value": {"type": "integer", "format": "int64"}},
    )


def _named() -> dict[str, Any]:
    return _object(["name", "value"], {"name": {"type": "string"}, "value": {"type": "string"}})


def _object(required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def _list(items: dict[str, Any], description: str) -> dict[str, Any]:
    return {"description": description, "type": "array", "items": items}


def _text(description: str) -> dict[str, Any]:
    return {"description": description, "type": "string"}


def _quantity(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "pattern": _QUANTITY_PATTERN,
    }
