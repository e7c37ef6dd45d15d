"""The table of all commands. A new command is one line here and one module in this folder.

A module has ``app``, made by ``frame.new_app``, with one command (or several: then they are
sub-commands). Modules are loaded only when their command is called, so a summary stands here
and not only in the module; a test holds the two together.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing; see main
if TYPE_CHECKING:
    from typing import Final


class Entry:
    """One command: its name, where it is, and what it does in a line."""

    # Not a dataclass: that module takes as long to load as all of --help.
    __slots__ = ("module", "name", "summary")

    def __init__(self, name: str, module: str, summary: str) -> None:
        self.name = name
        self.module = module
        self.summary = summary


GROUPS: Final[tuple[tuple[str, tuple[Entry, ...]], ...]] = (
    (
        "Look at machines",
        (
            Entry(
                "topology",
                "numalign.cli.machines.topology",
                "Show sockets, NUMA nodes, caches, CPUs, memory and devices.",
            ),
            Entry(
                "machines", "numalign.cli.machines.machines", "List the built-in example machines."
            ),
        ),
    ),
    (
        "Ask about a host",
        (
            Entry(
                "capture",
                "numalign.cli.host.capture",
                "Write all that placement on this host depends on into one file.",
            ),
            Entry(
                "admit",
                "numalign.cli.host.admit",
                "Say whether pods would be admitted, and where they would sit.",
            ),
            Entry(
                "explain",
                "numalign.cli.host.explain",
                "Say why pods are admitted or refused, and what would help.",
            ),
            Entry(
                "advise",
                "numalign.cli.host.advise",
                "Try a workload with all settings of a host; recommend the best.",
            ),
            Entry(
                "replay",
                "numalign.cli.host.replay",
                "Say whether a kubelet would start again with its state files.",
            ),
            Entry("diff", "numalign.cli.host.diff", "Show what has changed between two captures."),
        ),
    ),
    (
        "Run pods on this host",
        (
            Entry(
                "up", "numalign.cli.agent.up", "Run the agent on this host with a few example pods."
            ),
            Entry(
                "agent",
                "numalign.cli.agent.agent",
                "Run the node agent: admit pods, run and pin them, keep it true.",
            ),
            Entry(
                "state", "numalign.cli.agent.state", "Look at, and clear, what the agent has saved."
            ),
        ),
    ),
    (
        "Work with the agent",
        (
            Entry(
                "apply", "numalign.cli.client.apply", "Have the pods of manifests admitted and run."
            ),
            Entry("delete", "numalign.cli.client.delete", "End pods and give back what they hold."),
            Entry(
                "get",
                "numalign.cli.client.get",
                "Show pods, CPUs, memory or devices, and who sits where.",
            ),
            Entry(
                "describe",
                "numalign.cli.client.describe",
                "Show all about a pod: how it fares, where it sits and why.",
            ),
            Entry(
                "logs",
                "numalign.cli.client.logs",
                "Print what a container has written to its stdout and stderr.",
            ),
            Entry("top", "numalign.cli.client.top", "Watch NUMA nodes and pods in the terminal."),
        ),
    ),
    (
        "In a cluster",
        (
            Entry(
                "crd",
                "numalign.cli.cluster.crd",
                "Print the NodeResourceTopology CRD for a cluster.",
            ),
            Entry(
                "export",
                "numalign.cli.cluster.export",
                "Publish this host's NUMA nodes as a NodeResourceTopology.",
            ),
            Entry(
                "scheduler",
                "numalign.cli.cluster.scheduler",
                "Place the pods of a cluster so that no kubelet refuses them.",
            ),
            Entry(
                "hosts",
                "numalign.cli.cluster.hosts",
                "Show the hosts of a cluster by NUMA node, with what is free.",
            ),
            Entry(
                "pods",
                "numalign.cli.cluster.pods",
                "Show where the containers of a cluster sit.",
            ),
            Entry(
                "fit",
                "numalign.cli.cluster.fit",
                "Say which hosts of a cluster would take a pod, and why not.",
            ),
            Entry(
                "redeploy",
                "numalign.cli.cluster.redeploy",
                "Clean up after pods that kubelets refused, and end the storm.",
            ),
        ),
    ),
    (
        "Set up",
        (
            Entry(
                "completion",
                "numalign.cli.completion",
                "Print the completion script for a shell.",
            ),
        ),
    ),
)
