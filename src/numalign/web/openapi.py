"""The API as an OpenAPI 3.1 document: the routes are told here, the answers by their types.

A test holds it to the routes and to real answers.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from numalign import __version__
from numalign.apps.agent.views.answers import (
    Changes,
    Decisions,
    Error,
    Explained,
    Health,
    History,
    HostCapacity,
    ManifestList,
    Node,
    PastMoment,
    PodList,
    Run,
)
from numalign.apps.past.recorder import MOMENTS_MAX
from numalign.web.host.history import ID_MAX
from numalign.web.requests import DECISIONS_MAX, TAIL_LINES_MAX
from numalign.wire.pods.asked import COUNT_MAX
from numalign.wire.pods.manifests import LISTS
from numalign.wire.pods.workloads import KINDS

Schema = dict[str, Any]

_STRING: Final[Schema] = {"type": "string"}
_NAME_TEXT: Final[Schema] = {"type": "string", "minLength": 1}
# In a query it is a text: '?follow' alone means yes.
_BOOLEAN: Final[Schema] = {
    "type": "string",
    "pattern": "^([01]|[tT][rR][uU][eE]|[fF][aA][lL][sS][eE])?$",
}
_ANY_OBJECT: Final[Schema] = {"type": "object"}
_OF_ANY_KIND: Final[Schema] = {"apiVersion": _STRING, "metadata": _ANY_OBJECT}
_MANIFEST: Final[Schema] = {
    "oneOf": [
        {
            "type": "object",
            "required": ["kind"],
            "properties": {
                "kind": {"type": "string", "enum": list(KINDS)},
                **_OF_ANY_KIND,
                "spec": _ANY_OBJECT,
            },
        },
        {
            "type": "object",
            "required": ["kind", "items"],
            "properties": {
                "kind": {"type": "string", "enum": sorted(LISTS)},
                **_OF_ANY_KIND,
                "items": {"type": "array", "items": _ANY_OBJECT, "minItems": 1},
            },
        },
    ]
}
_QUESTION: Final[Schema] = {
    "type": "object",
    "properties": {
        "shape": {
            "type": ["object", "null"],
            "additionalProperties": {"type": ["string", "integer"]},
        },
        "manifest": {"type": ["string", "null"]},
        "name": {"type": "string", "maxLength": 253},
        "count": {"type": "integer", "minimum": 1, "maximum": COUNT_MAX},
        "search": {"type": "boolean"},
    },
    "additionalProperties": False,
}
# With all that is in them.
_ANSWERS: Final = (
    *(Error, PodList, Changes, Node, HostCapacity, Explained),
    *(ManifestList, Decisions, Health, Run, History, PastMoment),
)
_PLACES: Final = "#/components/schemas/{name}"


def _schemas() -> dict[str, Schema]:
    return msgspec.json.schema_components(_ANSWERS, ref_template=_PLACES)[1]


def _ref(name: str) -> Schema:
    return {"$ref": _PLACES.format(name=name)}


def _answer(text: str, schema: Schema | None = None, kind: str = "application/json") -> Schema:
    return {"description": text, "content": {kind: {"schema": schema or _STRING}}}


def _errors(**texts: str) -> dict[str, Schema]:
    found = {name.removeprefix("e"): _answer(text, _ref("Error")) for name, text in texts.items()}
    return dict(sorted(found.items()))


def _parameter(name: str, where: str, text: str, schema: Schema = _STRING) -> Schema:
    return {
        "name": name,
        "in": where,
        "required": where == "path",
        "description": text,
        "schema": schema,
    }


def _numbers(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


_UID: Final = _parameter("uid", "path", "metadata.uid of the pod")
_NAME: Final = _parameter("name", "query", "only the pod of this name")
_NAMESPACE: Final = _parameter("namespace", "query", "only pods of this namespace")
_CHANGE_ERRORS: Final = {
    "e401": "no token over TCP",
    "e500": "nobody foresaw it; the reason is InternalError, and the agent goes on",
    "e429": "too many changes; see Retry-After",
    "e503": "the state could not be saved; see Retry-After",
}


def _way(
    summary: str, answers: dict[str, Schema], *parameters: Schema, is_guarded: bool = False
) -> Schema:
    found: Schema = {"summary": summary, "responses": answers}
    if parameters:
        found["parameters"] = list(parameters)
    if is_guarded:
        found["security"] = [{"token": []}]
    return found


# How one comes from a pod that was made to the rest of its life.
_POD_LINKS: Final = {
    name: {"operationId": name, "parameters": {"uid": "$response.body#/metadata/uid"}}
    for name in ("showPod", "deletePod", "readLog")
}
_BUSY: Final = _errors(e503="too many long answers are being sent; see Retry-After")
_DELETED: Final = {
    "200": _answer("gone; the pod as it was", _ref("Pod")),
    "202": _answer("its containers are being ended", _ref("Pod")),
}
_EXAMPLE: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "example-"},
    "spec": {"containers": [{"name": "main", "command": ["sleep", "1"]}]},
}
_POD_BODY: Final = {
    "required": True,
    "description": "Pods and workloads (Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, "
    "CronJob, List), also several documents; others are passed over. At most 1 MiB.",
    "content": {
        "application/json": {"schema": _MANIFEST, "example": _EXAMPLE},
        "application/yaml": {"schema": _MANIFEST},
    },
}
_RUN_BODY: Final = {
    "required": True,
    "description": "A pod of one container, the process that becomes its command (number, start "
    "in clock ticks, boot id), and whether it waits until it fits. At most 1 MiB.",
    "content": {"application/json": {"schema": _ANY_OBJECT}},
}

_QUESTION_BODY: Final = {
    "required": True,
    "description": "A shape (amounts of one container, and how many such pods), or a manifest as "
    "text or by itself as YAML. At most 256 KiB; of more than 64 pods the first are asked about.",
    "content": {
        "application/json": {
            "schema": _QUESTION,
            "example": {"shape": {"cpu": "2", "memory": "1Gi"}, "count": 2},
        },
        "application/yaml": {"schema": _MANIFEST},
    },
}
_ASK_ERRORS: Final = {
    "e429": "more than 4 questions in a second; see Retry-After",
    "e503": "too many questions are waiting; see Retry-After",
}

PATHS: Final[dict[str, dict[str, Schema]]] = {
    "/": {
        "get": _way(
            "A page for people that shows pods, NUMA nodes and decisions.",
            {"200": _answer("the page", kind="text/html")},
        )
    },
    "/pods": {
        "get": _way(
            "All pods. Over TCP without the token, values of environment variables and annotations "
            "of others are left out.",
            {"200": _answer("a v1.PodList", _ref("PodList")), **_BUSY},
            _NAME,
            _NAMESPACE,
        ),
        "post": {
            **_way(
                "Have a pod admitted and run, or apply manifests.",
                {
                    "200": _answer(
                        "of a workload, of several pods, or with apply: every pod is as written, "
                        "or waits until the one that it replaces has ended",
                        _ref("Changes"),
                    ),
                    "201": {**_answer("one pod: admitted", _ref("Pod")), "links": _POD_LINKS},
                    **_errors(
                        e400="not a pod",
                        e408="the body did not come",
                        e409="a pod of this name or uid exists",
                        e413="the body is larger than 1 MiB",
                        e422="refused: the kubelet's reason and message, and the pod, which stays "
                        "visible; of applied manifests, all changes",
                        **_CHANGE_ERRORS,
                    ),
                },
                _parameter(
                    "apply",
                    "query",
                    "true: replace what differs, as is always done for workloads; a single pod "
                    "that exists is else a 409",
                    _BOOLEAN,
                ),
                is_guarded=True,
            ),
            "requestBody": _POD_BODY,
        },
        "delete": _way(
            "End the pod of a name.",
            {**_DELETED, **_errors(e400="no name", e404="no such pod", **_CHANGE_ERRORS)},
            {
                **_NAME,
                "required": True,
                "description": "the name of the pod",
                "schema": _NAME_TEXT,
            },
            {**_NAMESPACE, "description": "its namespace; default without it"},
            is_guarded=True,
        ),
    },
    "/pods/{uid}": {
        "get": _way(
            "One pod.",
            {"200": _answer("a v1.Pod", _ref("Pod")), **_errors(e404="no such pod")},
            _UID,
        ),
        "delete": _way(
            "End a pod.",
            {**_DELETED, **_errors(e404="no such pod", **_CHANGE_ERRORS)},
            _UID,
            is_guarded=True,
        ),
    },
    "/pods/{uid}/explanation": {
        "get": _way(
            "What a pod costs where it sits; of one that was refused, why the host would refuse it "
            "now and what would help, as 'numalign explain' says.",
            {
                "200": _answer("an explanation with its time", _ANY_OBJECT),
                **_errors(e404="no such pod", **_ASK_ERRORS),
            },
            _UID,
        )
    },
    "/pods/{uid}/log": {
        "get": _way(
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
            _parameter(
                "tail", "query", "only so many lines from the end", _numbers(0, TAIL_LINES_MAX)
            ),
            is_guarded=True,
        )
    },
    "/runs": {
        "post": {
            **_way(
                "Have the process that asks run a command in the place of a pod of its own. Only "
                "over the unix socket.",
                {
                    "201": _answer("admitted, and the process is in its place", _ref("Run")),
                    "202": _answer("it waits; ask /runs/{uid} what became of it", _ref("Run")),
                    **_errors(
                        e400="not a run, or no such process",
                        e403="not over the unix socket",
                        e408="the body did not come",
                        e409="a pod of this name exists",
                        e413="the body is larger than 1 MiB",
                        e422="refused, and why",
                        **{k: _CHANGE_ERRORS[k] for k in ("e429", "e500", "e503")},
                    ),
                },
            ),
            "requestBody": _RUN_BODY,
        }
    },
    "/runs/{uid}": {
        "get": _way(
            "What became of a run.",
            {
                "200": _answer("it waits, is being started or runs", _ref("Run")),
                **_errors(e403="not over the unix socket", e404="it has ended, or never was"),
            },
            _UID,
        )
    },
    "/node": {
        "get": _way(
            "The host: machine, who sits where, and what would still fit.",
            {"200": _answer("the host", _ref("Node")), **_BUSY},
        )
    },
    "/capacity": {
        "get": _way(
            "How many more pods of each reference shape (--shapes) the host would take, and what "
            "is idle on its NUMA nodes to no use.",
            {"200": _answer("shapes and stranded resources", _ref("HostCapacity")), **_BUSY},
        )
    },
    "/admission": {
        "post": {
            **_way(
                "Would these pods be admitted now, and where, or what would help? Nothing changes. "
                "Each is asked about on the host as those before it left it.",
                {
                    "200": _answer("the same as of 'numalign explain -o json'", _ref("Explained")),
                    **_errors(
                        e400="not a shape or a pod",
                        e403="from a web page of another site",
                        e408="the body did not come",
                        e413="the body is larger than 256 KiB",
                        e415="another type than JSON or YAML",
                        **_ASK_ERRORS,
                    ),
                },
            ),
            "requestBody": _QUESTION_BODY,
        }
    },
    "/history": {
        "get": _way(
            "The last decisions and other moments of the host, newest last, and charts of the last "
            "day. Kept over restarts of the agent, within 9 MiB.",
            {"200": _answer("moments", _ref("History")), **_errors(e400="a bad number"), **_BUSY},
            _parameter("limit", "query", "at most so many of the newest", _numbers(1, MOMENTS_MAX)),
            _parameter("before", "query", "only those before this id", _numbers(0, ID_MAX)),
            _parameter("since", "query", "only those after this id", _numbers(0, ID_MAX)),
            _parameter("series", "query", "false leaves the charts out", _BOOLEAN),
        )
    },
    "/history/{moment}": {
        "get": _way(
            "The host right after a moment: who was there, and how it was decided.",
            {
                "200": _answer("the host then", _ref("PastMoment")),
                **_errors(e400="a bad flag", e404="no such moment, or it is forgotten"),
                **_BUSY,
            },
            _parameter("moment", "path", "the id of the moment"),
            _parameter("trace", "query", "true: with the trace of the decision", _BOOLEAN),
        )
    },
    "/manifests": {
        "get": _way(
            "The files of the directory of manifests, their pods, and what is wrong with them.",
            {"200": _answer("the files", _ref("ManifestList"))},
        )
    },
    "/capture": {
        "get": _way(
            "The host as a bundle: machine, configuration, state files, devices and the resources "
            "of pods, for 'numalign admit --on' and the like. No environment, commands or names "
            "beyond those of pods and containers.",
            {"200": _answer("a gzipped tar archive", kind="application/gzip"), **_BUSY},
        )
    },
    "/decisions": {
        "get": _way(
            "The last decisions with their traces, newest first.",
            {
                "200": _answer("decisions", _ref("Decisions")),
                **_errors(e400="a bad limit"),
                **_BUSY,
            },
            _parameter("uid", "query", "only those about this pod"),
            _parameter("limit", "query", "at most so many", _numbers(1, DECISIONS_MAX)),
            _parameter("trace", "query", "false leaves the traces out, which are long", _BOOLEAN),
        )
    },
    "/events": {
        "get": _way(
            "Everything that happens from now on, as server-sent events; 'still' says every 15 s "
            "that nothing did. A slow reader loses the oldest.",
            {
                "200": _answer("events", kind="text/event-stream"),
                **_errors(e503="too many streams"),
            },
        )
    },
    "/metrics": {
        "get": _way(
            "Metrics in Prometheus' text format, with the kubelet's names.",
            {"200": _answer("metrics", kind="text/plain"), **_BUSY},
        )
    },
    "/healthz": {
        "get": _way("Whether the agent lives.", {"200": _answer("it does", _ref("Health"))})
    },
    "/readyz": {
        "get": _way(
            "Whether all is well.",
            {
                "200": _answer("yes", _ref("Health")),
                "503": _answer("no, and what is wrong", _ref("Health")),
            },
        )
    },
    "/openapi.json": {"get": _way("This document.", {"200": _answer("OpenAPI 3.1", _ANY_OBJECT)})},
}


_OPERATIONS: Final = {
    ("/", "get"): "showPage",
    ("/pods", "get"): "listPods",
    ("/pods", "post"): "createPod",
    ("/pods", "delete"): "deleteNamedPod",
    ("/pods/{uid}", "get"): "showPod",
    ("/pods/{uid}", "delete"): "deletePod",
    ("/pods/{uid}/explanation", "get"): "explainPod",
    ("/pods/{uid}/log", "get"): "readLog",
    ("/runs", "post"): "createRun",
    ("/runs/{uid}", "get"): "showRun",
    ("/node", "get"): "showNode",
    ("/capacity", "get"): "showCapacity",
    ("/admission", "post"): "askAdmission",
    ("/history", "get"): "listHistory",
    ("/history/{moment}", "get"): "showMoment",
    ("/manifests", "get"): "listManifests",
    ("/capture", "get"): "capture",
    ("/decisions", "get"): "listDecisions",
    ("/events", "get"): "followEvents",
    ("/metrics", "get"): "showMetrics",
    ("/healthz", "get"): "showHealth",
    ("/readyz", "get"): "showReadiness",
    ("/openapi.json", "get"): "showDocument",
}


def document() -> dict[str, Any]:
    paths = {
        path: {
            method: {"operationId": _OPERATIONS[path, method], **way}
            for method, way in ways.items()
        }
        for path, ways in PATHS.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "numalign agent",
            "version": __version__,
            "description": "Pods on one NUMA host: what runs where, and why.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(),
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
