"""The table of all commands, and the help of ``numalign`` itself, which is made of it.

A new command is one line here and one module in a folder beside it. A module has ``app``, made by
``app.new_app``, with one command (or several: then they are sub-commands). Modules are loaded only
when their command is called, so a summary stands here and not only in the module; a test holds the
two together. The help needs nothing of the machinery that commands need, so it comes at once.
"""

from __future__ import annotations

from numalign.cli.main import PROGRAM, program

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


# By title: the folder of the modules, then each command with its summary.
_TABLE: Final = {
    "Look at machines": (
        "numalign.cli.machines",
        {
            "topology": "Show sockets, NUMA nodes, caches, CPUs, memory and devices.",
            "machines": "List the built-in example machines.",
        },
    ),
    "Ask about a host": (
        "numalign.cli.host",
        {
            "capture": "Write all that placement on this host depends on into one file.",
            "admit": "Say whether pods would be admitted, and where they would sit.",
            "explain": "Say why pods are admitted or refused, and what would help.",
            "advise": "Try a workload with all settings of a host; recommend the best.",
            "replay": "Say whether a kubelet would start again with its state files.",
            "diff": "Show what has changed between two captures.",
            "view": "Show a host, a capture or a fleet as a page in the browser.",
        },
    ),
    "Run pods on this host": (
        "numalign.cli.agent",
        {
            "up": "Run the agent on this host with a few example pods.",
            "agent": "Run the node agent: admit pods, run and pin them, repair drift.",
            "run": "Run a command on CPUs, memory and devices of its own.",
            "state": "Look at, and clear, what the agent has saved.",
        },
    ),
    "Work with the agent": (
        "numalign.cli.client",
        {
            "apply": "Have the pods of manifests admitted and run.",
            "delete": "End pods and give back what they hold.",
            "get": "Show pods, CPUs, memory, devices or manifests: who sits where.",
            "describe": "Show all about a pod or the host: status, who sits where and why.",
            "logs": "Print what a container has written to its stdout and stderr.",
            "top": "Watch NUMA nodes and pods in the terminal.",
        },
    ),
    "In a cluster": (
        "numalign.cli.cluster",
        {
            "crd": "Print the NodeResourceTopology CRD for a cluster.",
            "export": "Publish this host's NUMA nodes as a NodeResourceTopology.",
            "scheduler": "Place the pods of a cluster so that no kubelet refuses them.",
            "hosts": "Show the hosts of a cluster by NUMA node, with what is free.",
            "pods": "Show where the containers of a cluster sit.",
            "fit": "Say which hosts of a cluster would take a pod, and why not.",
            "nri": "Place containers under an unchanged kubelet, inside its runtime.",
            "redeploy": "Clean up after pods that kubelets refused, and end the storm.",
            "withdraw": "Open gates and take off taints, so that pods go on without us.",
        },
    ),
    "See a fleet before you change it": (
        "numalign.cli.fleet",
        {
            "capacity": "Say how many more pods of a shape fit, by host, pool and fleet.",
            "defrag": "Plan the moves of pods that let others in, align or waste less.",
            "simulate": "Simulate a fleet: schedulers and settings side by side.",
        },
    ),
    "Set up": (
        "numalign.cli",
        {
            "completion": "Print the completion script for a shell.",
        },
    ),
}

GROUPS: Final = tuple(
    (title, tuple(Entry(name, f"{folder}.{name}", text) for name, text in commands.items()))
    for title, (folder, commands) in _TABLE.items()
)

_USAGE = """\
Usage: numalign [OPTIONS] COMMAND [ARGS]...

  Place work on NUMA machines exactly as the Kubernetes node managers do.

Options:
  --version      Print the version and exit.
  --no-color     Do not colour the output; NO_COLOR in the environment does the
                 same.
  -v, --verbose  Say more on stderr; for a bug, where it happened. Repeat for
                 yet more.
  -h, --help     Show this message and exit.
"""
_EXAMPLES = """
Examples:
  numalign topology
  numalign topology --machine epyc-2s-nps4
  numalign topology -o png --output-file machine.png
  numalign COMMAND --help
"""


def root_help() -> str:
    """The whole help, without a newline at its end."""
    width = max(len(entry.name) for _, entries in GROUPS for entry in entries)
    parts = [_USAGE]
    for title, entries in GROUPS:
        lines = (f"  {entry.name:{width}}  {entry.summary}\n" for entry in entries)
        parts += [f"\n{title}:\n", *lines]
    text = "".join([*parts, _EXAMPLES]).rstrip()
    return text.replace(f" {PROGRAM} ", f" {program()} ")
