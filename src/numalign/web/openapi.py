"""The API as an OpenAPI 3.1 document. A test holds it to the routes and to real answers."""

from __future__ import annotations

from typing import Any, Final

from numalign import __version__

Schema = dict[str, Any]

_STRING: Final[Schema] = {"type": "string"}
_INTEGER: Final[Schema] = {"type": "integer"}
_BOOLEAN: Final[Schema] = {"type": "boolean"}
_ANY_OBJECT: Final[Schema] = {"type": "object"}


def _object(required: str, /, **properties: Schema) -> Schema:
    """An object; ``required`` names the members that are always there, or * for all."""
    names = list(properties) if required == "*" else required.split()
    return {"type": "object", "required": names, "properties": properties}


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _map(of: Schema) -> Schema:
    return {"type": "object", "additionalProperties": of}


def _or_null(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def _said(schema: Schema, text: str) -> Schema:
    return {**schema, "description": text}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_CPUS: Final = _said(_STRING, "CPUs in the kernel's list format, such as 0-3,8")

SCHEMAS: Final[dict[str, Schema]] = {
    "Error": _said(
        _object(
            "error reason",
            error=_said(_STRING, "a sentence for people"),
            reason=_said(_STRING, "one word for programs; for a refused pod the kubelet's reason"),
            pod=_or_null(_ref("Pod")),
        ),
        "Every answer that is not a success has this form.",
    ),
    "PodList": _object(
        "*", apiVersion=_STRING, kind=_STRING, metadata=_ANY_OBJECT, items=_list(_ref("Pod"))
    ),
    "Pod": _said(
        _object(
            "*",
            apiVersion=_STRING,
            kind=_STRING,
            metadata=_object(
                "name namespace uid creationTimestamp",
                name=_STRING,
                namespace=_STRING,
                uid=_STRING,
                creationTimestamp=_STRING,
                labels=_map(_STRING),
                annotations=_map(_STRING),
            ),
            spec=_said(_ANY_OBJECT, "as it was given, what numalign does not look at left out"),
            status=_ref("PodStatus"),
            numalign=_ref("Placement"),
        ),
        "A v1.Pod of Kubernetes, and the extra member numalign.",
    ),
    "PodStatus": _object(
        "phase qosClass startTime",
        phase=_said(_STRING, "Pending, Running, Succeeded or Failed"),
        reason=_said(_STRING, "why a pod was refused, such as TopologyAffinityError"),
        message=_STRING,
        qosClass=_said(_STRING, "Guaranteed, Burstable or BestEffort"),
        startTime=_STRING,
        conditions=_list(
            _object(
                "type status",
                type=_STRING,
                status=_STRING,
                reason=_STRING,
                lastTransitionTime=_STRING,
            )
        ),
        initContainerStatuses=_list(_ref("ContainerStatus")),
        containerStatuses=_list(_ref("ContainerStatus")),
    ),
    "ContainerStatus": _object(
        "name image imageID ready started restartCount state",
        name=_STRING,
        image=_STRING,
        imageID=_STRING,
        ready=_BOOLEAN,
        started=_BOOLEAN,
        restartCount=_INTEGER,
        state=_said(_ANY_OBJECT, "one of waiting, running and terminated, as in v1"),
        lastState=_said(_ANY_OBJECT, "how the run before ended, as terminated"),
        containerID=_said(_STRING, "process://UID/CONTAINER/ATTEMPT"),
    ),
    "Placement": _object(
        "source deleting awaitedDevices notes containers",
        source=_said(_STRING, "api, or file: and the name of the manifest"),
        deleting=_BOOLEAN,
        awaitedDevices=_said(_list(_STRING), "resources whose plugin has not answered yet"),
        notes=_said(_list(_STRING), "what of the pod a plain process cannot have, one line each"),
        podCpus=_said(_STRING, "the CPUs of a pod with resources of its own"),
        podMemory=_list(_ref("Block")),
        containers=_said(
            _map(
                _object(
                    "*",
                    cpus=_said(_CPUS, "such as 0-3,8; empty for a container that has ended"),
                    exclusive=_said(_BOOLEAN, "whether no other container may use these CPUs"),
                    memory=_list(_ref("Block")),
                    devices=_said(_map(_list(_STRING)), "device ids by resource"),
                    hint=_or_null(_ref("Hint")),
                    pid=_or_null(_INTEGER),
                )
            ),
            "by name of the container; empty for a pod that has ended or was refused",
        ),
    ),
    "Block": _object(
        "*",
        type=_said(_STRING, "memory or hugepages-SIZE"),
        nodes=_said(_list(_INTEGER), "the NUMA nodes that hold it together"),
        sizeBytes=_INTEGER,
    ),
    "Hint": _object(
        "*",
        nodes=_said({"type": ["array", "null"], "items": _INTEGER}, "null: any node"),
        preferred=_BOOLEAN,
    ),
    "Node": _object(
        "*",
        machine=_object(
            "*",
            name=_STRING,
            sockets=_INTEGER,
            cores=_INTEGER,
            cpus=_CPUS,
            cpuCount=_INTEGER,
            offline=_CPUS,
            numaNodes=_STRING,
            memoryBytes=_INTEGER,
            notes=_list(_STRING),
        ),
        settings=_object(
            "*",
            version=_said(_STRING, "the Kubernetes version whose decisions are made"),
            topologyManagerPolicy=_STRING,
            topologyManagerScope=_STRING,
            topologyManagerPolicyOptions=_map(_STRING),
            cpuManagerPolicy=_STRING,
            cpuManagerPolicyOptions=_map(_STRING),
            memoryManagerPolicy=_STRING,
        ),
        reserved=_object(
            "*",
            cpus=_CPUS,
            memory=_list(_object("*", node=_INTEGER, type=_STRING, sizeBytes=_INTEGER)),
            total=_said(_map(_STRING), "what is kept from pods, as quantities by resource"),
        ),
        sharedPool=_object("*", cpus=_CPUS, count=_INTEGER),
        allocatable=_said(_map(_STRING), "what pods can have in total, as quantities"),
        requested=_said(_map(_STRING), "what pods have asked for, as quantities"),
        nodes=_list(_ref("NumaNode")),
        devices=_list(_ref("Device")),
        largest=_list(_ref("Shape")),
    ),
    "NumaNode": _object(
        "*",
        id=_INTEGER,
        distances={"type": ["array", "null"], "items": _INTEGER},
        cpus=_object(
            "*",
            all=_CPUS,
            exclusive=_said(_STRING, "given to containers"),
            shared=_said(_STRING, "of the pool of all other containers"),
            free=_said(_STRING, "of the pool, could be given to a container"),
            reserved=_said(_STRING, "never given to a container"),
        ),
        memory=_list(
            _object(
                "*",
                type=_STRING,
                totalBytes=_INTEGER,
                systemReservedBytes=_INTEGER,
                usedBytes=_INTEGER,
                freeBytes=_INTEGER,
            )
        ),
        cores=_said(_list(_CPUS), "the CPUs of each core"),
        memoryGroup=_said(_list(_INTEGER), "the nodes whose memory is now given together"),
        occupants=_list(
            _object(
                "*",
                namespace=_STRING,
                pod=_STRING,
                uid=_STRING,
                container=_STRING,
                cpus=_CPUS,
                exclusive=_BOOLEAN,
                memory=_list(_ref("Block")),
            )
        ),
    ),
    "Device": _object(
        "*",
        resource=_STRING,
        id=_STRING,
        nodes=_list(_INTEGER),
        healthy=_BOOLEAN,
        holder=_or_null(
            _object("*", namespace=_STRING, pod=_STRING, uid=_STRING, container=_STRING)
        ),
    ),
    "Shape": _said(
        _object(
            "*",
            node=_INTEGER,
            cpus=_said(_INTEGER, "CPUs of its own"),
            memory=_said(_map(_INTEGER), "bytes by kind of memory"),
            devices=_said(_map(_INTEGER), "free devices by resource"),
        ),
        "The largest container that one NUMA node alone can still hold.",
    ),
    "Decisions": _object("*", items=_list(_ref("Decision"))),
    "Decision": _object(
        "time outcome pod",
        time=_said({"type": "number"}, "seconds since 1970"),
        outcome=_said(_STRING, "pod_admitted or pod_rejected"),
        namespace=_STRING,
        pod=_STRING,
        uid=_STRING,
        reason=_STRING,
        message=_STRING,
        seconds=_said({"type": "number"}, "how long it took to decide"),
        why=_said(_STRING, "a refusal in one sentence, once it is known"),
        trace=_said(_list(_ANY_OBJECT), "what each provider answered, merged and gave, in order"),
        explanation=_said(
            {"anyOf": [_ANY_OBJECT, {"type": "null"}]},
            "of a refusal: step, container, resources, demands by node, facts and hints",
        ),
    ),
    "Health": _object("*", status=_said(_STRING, "ok or failing"), problems=_list(_STRING)),
}


def _answer(text: str, schema: Schema | None = None, kind: str = "application/json") -> Schema:
    return {"description": text, "content": {kind: {"schema": schema or _STRING}}}


def _errors(**texts: str) -> dict[str, Schema]:
    return {name.removeprefix("e"): _answer(text, _ref("Error")) for name, text in texts.items()}


def _parameter(name: str, where: str, text: str, schema: Schema = _STRING) -> Schema:
    return {
        "name": name,
        "in": where,
        "required": where == "path",
        "description": text,
        "schema": schema,
    }


_UID: Final = _parameter("uid", "path", "metadata.uid of the pod")
_NAME: Final = _parameter("name", "query", "only the pod of this name")
_NAMESPACE: Final = _parameter("namespace", "query", "only pods of this namespace")
_TOKEN: Final[list[dict[str, list[str]]]] = [{"token": []}]
_CHANGE_ERRORS: Final = {
    "e401": "no token over TCP",
    "e429": "too many changes; see Retry-After",
    "e503": "the state could not be saved; see Retry-After",
}


def _get(summary: str, answers: dict[str, Schema], *parameters: Schema) -> Schema:
    found: Schema = {"summary": summary, "responses": answers}
    if parameters:
        found["parameters"] = list(parameters)
    return found


PATHS: Final[dict[str, dict[str, Schema]]] = {
    "/": {
        "get": _get(
            "A page for people that shows pods, NUMA nodes and decisions.",
            {"200": _answer("the page", kind="text/html")},
        )
    },
    "/pods": {
        "get": _get(
            "All pods. Over TCP without the token, values of environment variables are left out.",
            {"200": _answer("a v1.PodList", _ref("PodList"))},
            _NAME,
            _NAMESPACE,
        ),
        "post": {
            "summary": "Have a pod admitted and run.",
            "security": _TOKEN,
            "requestBody": {
                "required": True,
                "description": "A v1.Pod, or a workload with a pod template; at most 1 MiB.",
                "content": {
                    "application/json": {"schema": _ANY_OBJECT},
                    "application/yaml": {"schema": _STRING},
                },
            },
            "responses": {
                "201": _answer("admitted", _ref("Pod")),
                **_errors(
                    e400="not a pod",
                    e401="no token over TCP",
                    e408="the body did not come",
                    e409="a pod of this name or uid exists",
                    e413="the body is larger than 1 MiB",
                    e422="refused: the kubelet's reason and message, and the pod, which stays "
                    "visible",
                    e429="too many changes; see Retry-After",
                    e503="the state could not be saved; see Retry-After",
                ),
            },
        },
        "delete": {
            "summary": "End the pod of a name.",
            "security": _TOKEN,
            "parameters": [
                {**_NAME, "required": True, "description": "the name of the pod"},
                {**_NAMESPACE, "description": "its namespace; default without it"},
            ],
            "responses": {
                "200": _answer("gone; the pod as it was", _ref("Pod")),
                "202": _answer("its containers are being ended", _ref("Pod")),
                **_errors(e400="no name", e404="no such pod", **_CHANGE_ERRORS),
            },
        },
    },
    "/pods/{uid}": {
        "get": _get(
            "One pod.",
            {"200": _answer("a v1.Pod", _ref("Pod")), **_errors(e404="no such pod")},
            _UID,
        ),
        "delete": {
            "summary": "End a pod.",
            "security": _TOKEN,
            "parameters": [_UID],
            "responses": {
                "200": _answer("gone; the pod as it was", _ref("Pod")),
                "202": _answer("its containers are being ended", _ref("Pod")),
                **_errors(e404="no such pod", **_CHANGE_ERRORS),
            },
        },
    },
    "/pods/{uid}/log": {
        "get": {
            **_get(
                "What a container has written.",
                {
                    "200": _answer("the text", kind="text/plain"),
                    **_errors(
                        e400="no such container",
                        e401="no token over TCP",
                        e404="no such pod",
                        e503="too many streams",
                    ),
                },
                _UID,
                _parameter("container", "query", "needed if the pod has several"),
                _parameter("follow", "query", "go on until the container has ended", _BOOLEAN),
                _parameter("tail", "query", "only so many lines from the end", _INTEGER),
            ),
            "security": _TOKEN,
        }
    },
    "/node": {
        "get": _get(
            "The host: machine, who sits where, and what would still fit.",
            {"200": _answer("the host", _ref("Node"))},
        )
    },
    "/capture": {
        "get": _get(
            "The host as a bundle: machine, configuration, state files, devices and the resources "
            "of pods, for 'numalign admit --on' and the like. No environment, commands or names "
            "beyond those of pods and containers.",
            {"200": _answer("a gzipped tar archive", kind="application/gzip")},
        )
    },
    "/decisions": {
        "get": _get(
            "The last decisions with their traces, newest first.",
            {"200": _answer("decisions", _ref("Decisions")), **_errors(e400="a bad limit")},
            _parameter("uid", "query", "only those about this pod"),
            _parameter("limit", "query", "at most so many", _INTEGER),
            _parameter("trace", "query", "false leaves the traces out, which are long", _BOOLEAN),
        )
    },
    "/events": {
        "get": _get(
            "Everything that happens from now on, as server-sent events. A slow reader loses the "
            "oldest.",
            {
                "200": _answer("events", kind="text/event-stream"),
                **_errors(e503="too many streams"),
            },
        )
    },
    "/metrics": {
        "get": _get(
            "Metrics in Prometheus' text format, with the kubelet's names.",
            {"200": _answer("metrics", kind="text/plain")},
        )
    },
    "/healthz": {
        "get": _get("Whether the agent lives.", {"200": _answer("it does", _ref("Health"))})
    },
    "/readyz": {
        "get": _get(
            "Whether all is well.",
            {
                "200": _answer("yes", _ref("Health")),
                "503": _answer("no, and what is wrong", _ref("Health")),
            },
        )
    },
    "/openapi.json": {"get": _get("This document.", {"200": _answer("OpenAPI 3.1", _ANY_OBJECT)})},
}


def document() -> dict[str, Any]:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "numalign agent",
            "version": __version__,
            "description": "Pods on one NUMA host: what runs where, and why.",
        },
        "paths": PATHS,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of the agent's state directory; not needed on the "
                    "unix socket.",
                }
            },
        },
    }
