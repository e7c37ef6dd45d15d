"""Submitting pods to an agent without sockets, and what it then shows."""

import asyncio
import json

import msgspec

from numalign.apps.agent.views.node import node_view
from numalign.apps.agent.views.pods import pod_view
from numalign.wire.pods.manifests import load_all


def record_of(value):
    found = load_all(json.dumps(value).encode(), source="test")[0]
    found.metadata.uid = found.metadata.uid or f"uid-{found.metadata.name}"
    return found


def submit(agent, value):
    return asyncio.run(agent.submit(record_of(value)))


def view(agent, name):
    return msgspec.to_builtins(pod_view(agent.setup, agent.state, f"uid-{name}"))


def node(agent):
    return msgspec.to_builtins(node_view(agent.setup, agent.state, agent.machine))
