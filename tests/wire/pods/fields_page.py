"""Writes docs/reference/pod-fields.md from the table of fields."""

from tests.paths import CHECKOUT

from numalign.wire.pods.fields import TABLE

HEAD = """# What becomes of each field of a pod

<!-- Written by `python -m tests.wire.pods.fields_page`; do not edit by hand. -->

Every member of v1.Pod is carried out, refused or told; none is passed over in silence. A row
speaks for everything below it. `container` stands for containers and init containers.

- *refused*: the pod fails with reason `FieldNotSupported` and says which member; so it is with
  what promises safety or data and cannot be given.
- *told*: once in the log (`fields_not_carried_out`), and for as long as the pod is there in its
  condition `numalign.io/AsWritten` and in `numalign describe pod`. Values that change nothing,
  such as the API server's own defaults, are not told.
- *not a wish*: the API server or a kubelet writes it.

With a kubelet (numalign then places, and the kubelet and its runtime run the pods, also where a
plugin for NRI does the pinning) all of it is the kubelet's.

Processes run as who asked: the owner of the manifest file or the peer of the unix socket; over
TCP with the token it is the agent's own user. Another user (`runAsUser`), other groups, more
capabilities or `privileged` only if root asked. Another user than who asked has the group of its
own number unless `runAsGroup` says otherwise. Volumes and a read-only root need an agent that is
root and Linux 5.12; where nothing is at a `mountPath`, an empty directory is made there, with the
rights of who asked, and stays. A process that is not root and has volumes cannot gain rights
(no_new_privs), so that a volume over `/etc` fools no setuid program.

| field | process | CRI |
| --- | --- | --- |
"""


def text() -> str:
    rows = [f"| `{field.path}` | {field.process} | {field.cri} |\n" for field in TABLE]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    (CHECKOUT / "docs" / "reference" / "pod-fields.md").write_text(text())
