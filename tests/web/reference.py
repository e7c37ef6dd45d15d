"""Writes docs/reference/api.md from the OpenAPI document: ``python -m tests.web.reference``."""

from __future__ import annotations

from typing import Any

from tests.paths import DOCS

from numalign.web.openapi import document

PAGE = DOCS / "reference" / "api.md"
HEAD = """\
# The agent's API

<!-- Written by `python -m tests.web.reference`; do not edit by hand. -->

HTTP on a unix socket, `agent.sock` in the state directory, and on loopback TCP. `/openapi.json` is
this page for programs; `/` is a page for people.

    curl --unix-socket /var/lib/numalign/agent.sock http://localhost/pods
    curl http://127.0.0.1:8421/node
    curl -H "Authorization: Bearer $(cat /var/lib/numalign/api-token)" \\
      --data-binary @pod.yaml http://127.0.0.1:8421/pods

## Who may do what

| way | look | environment values, annotations, logs, changes |
| --- | --- | --- |
| unix socket (mode 0600: its owner and root) | yes | yes |
| TCP with the token from `api-token` in the state directory | yes | yes |
| loopback TCP without it | yes | no |
| TCP from other hosts with the token from `read-token` | yes | no |
| TCP from other hosts without a token | no | no |

Annotations hold copies of the whole manifest (`last-applied-configuration` and its like), so that
only those of `numalign.io/` are shown to everybody. On TCP the agent answers only to the names of
loopback and to the address that it listens on, so that a web page of another site cannot read it.

Other hosts are let in with TLS only, and `--allowed-host` adds the names that they use:

    numalign agent --listen 0.0.0.0:8443 --tls-cert agent.crt --tls-key agent.key \\
      --allowed-host numa-1.example.com

```yaml
scrape_configs: # of Prometheus
  - job_name: numalign
    scheme: https
    authorization: {credentials_file: /etc/prometheus/numalign-read-token}
    tls_config: {ca_file: /etc/prometheus/numalign-ca.crt}
    static_configs: [{targets: ["numa-1.example.com:8443"]}]
```

The commands of `numalign` send the token of this host to its unix socket and to loopback only;
for `--server https://elsewhere` give it in `NUMALIGN_TOKEN`, and the authority of a certificate of
your own in `SSL_CERT_FILE`.

No state directory, token or socket is used that another user could have made or could replace:
every component of the path belongs to the agent's user or to root, and only they may write there
(a sticky directory such as /tmp may stand above one of ours).

## Limits

| what | limit | beyond it |
| --- | --- | --- |
| body of a request | 1 MiB, within 10 s | 413, 408 |
| head of a request | 16 KiB, within 10 s | 431 or 400, or the connection ends |
| changes | 200 a second, 400 at once | 429 with `Retry-After` |
| streams (`/events`, logs) | 64 for each socket | 503 with `Retry-After` |
| questions (`/admission`, explanations) | 4 a second, 12 at once, 2 s each; 8 may wait | 429, 503 |
| body of a question | 256 KiB, 64 pods | 413; the rest is `leftOut` |
| long answers (lists, metrics) | 16 at once for each socket | they wait, at most 10 s; then 503 |
| connections | 128 for each socket, 32 from one other host | an idle one is closed; else 503 |
| descriptors | 32 (or a quarter) are kept back | connections are refused; `/readyz` tells |
| a client that reads nothing | 30 s | the connection ends |

## Routes

"""
AFTER_ROUTES = """
All of them also answer `HEAD` where they answer `GET`. 🔑 marks what needs the token over TCP. An
error is JSON with `error` (a sentence) and `reason` (a word); for a refused pod (422) the reason is
the kubelet's, such as `TopologyAffinityError`, and `pod` is there too.

"""


def page() -> str:
    """The whole page."""
    found = document()
    parts = [HEAD, "| request | what | answers |\n| --- | --- | --- |\n"]
    details = []
    for path, ways in found["paths"].items():
        for method, way in ways.items():
            key = " 🔑" if "security" in way else ""
            codes = ", ".join(way["responses"])
            parts.append(f"| `{method.upper()} {path}`{key} | {way['summary']} | {codes} |\n")
            details += _details(method, path, way)
    parts += [AFTER_ROUTES, *details, "## Shapes\n"]
    for name, schema in found["components"]["schemas"].items():
        parts += _shape(name, schema)
    return "".join(parts)


def _details(method: str, path: str, way: dict[str, Any]) -> list[str]:
    """What one request takes and gives."""
    parts = [f"### {method.upper()} {path}\n\n{way['summary']}\n"]
    if "requestBody" in way:
        parts.append(f"\nBody: {way['requestBody']['description']}\n")
    if "parameters" in way:
        parts.append("\n| parameter | in | meaning |\n| --- | --- | --- |\n")
        parts += [
            f"| `{p['name']}` | {p['in']} | {p['description']} |\n" for p in way["parameters"]
        ]
    parts.append("\n| answer | meaning | shape |\n| --- | --- | --- |\n")
    for code, answer in way["responses"].items():
        ((kind, content),) = answer["content"].items()
        shape = _kind(content["schema"]) if kind == "application/json" else f"`{kind}`"
        parts.append(f"| {code} | {answer['description']} | {shape} |\n")
    return [*parts, "\n"]


def _shape(name: str, schema: dict[str, Any]) -> list[str]:
    parts = [f"\n### {name}\n\n"]
    if "description" in schema:
        parts.append(f"{schema['description']}\n\n")
    parts.append("| member | type | meaning |\n| --- | --- | --- |\n")
    return parts + list(_members(schema, ""))


def _members(schema: dict[str, Any], prefix: str) -> Any:
    for name, member in schema["properties"].items():
        optional = "" if name in schema["required"] else " (optional)"
        path = f"{prefix}{name}"
        yield f"| `{path}`{optional} | {_kind(member)} | {member.get('description', '')} |\n"
        inner, more = member, path + "."
        while "items" in inner or "additionalProperties" in inner:
            more = more[:-1] + ("[]." if "items" in inner else ".NAME.")
            inner = inner.get("items") or inner["additionalProperties"]
        if "properties" in inner:
            yield from _members(inner, more)


def _kind(schema: dict[str, Any]) -> str:
    """The type of a member in a few words."""
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return " or ".join(_one(kind, schema) for kind in kinds)


def _one(kind: str, schema: dict[str, Any]) -> str:
    if kind == "array":
        return f"list of {_kind(schema['items'])}"
    if kind == "object" and "additionalProperties" in schema:
        return f"map of {_kind(schema['additionalProperties'])}"
    return kind


if __name__ == "__main__":
    PAGE.write_text(page())
