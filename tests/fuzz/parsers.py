"""Every parser of the project with good inputs to start from.

A parser may refuse with an error of ours and with nothing else. What it lets through must be fit
for what comes next, so some go further: a pod goes through the agent's step, and is saved and read.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.adapters.sources.captures import PACKERS, sysfs_files, tar_bytes
from tests.core.hosts import machine as small_machine
from tests.core.hosts import settings
from tests.fuzz import fleets_and_nri, seeds
from tests.paths import CHECKOUT

from numalign.adapters.processes.records import RunDirectory
from numalign.adapters.sources.filetree import MappingTree
from numalign.adapters.sources.machine_files import machine_from_file
from numalign.adapters.sources.sysfs.sysfs import read_machine
from numalign.apps.agent import config as agent_config
from numalign.apps.agent import events, run, saved
from numalign.apps.agent.model import AgentSetup, AgentState
from numalign.apps.agent.runtimes.environment import ValueSources
from numalign.apps.agent.runtimes.expansion import arguments
from numalign.apps.agent.runtimes.processes import records_of
from numalign.apps.agent.starting import refusals
from numalign.apps.agent.step import step
from numalign.apps.agent.steps.recovery import recovered
from numalign.cli.client.formats import jsonpath
from numalign.core.cluster.scheduling.rebuild import rebuilt
from numalign.core.errors import NumalignError
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission import node_fit
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.machine.synthetic import synthetic_machine
from numalign.core.settings import Version
from numalign.core.values import goduration
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import parse_list
from numalign.wire.checkpoints import state_files
from numalign.wire.grpc import cri, device_plugin, podresources
from numalign.wire.kubelet import config as kubelet_config
from numalign.wire.kubelet import edit, flags
from numalign.wire.kubernetes import api, extender, nrt, placement, redeploy_pods, scheduling
from numalign.wire.machine import machine_yaml
from numalign.wire.pods import running
from numalign.wire.pods.records import ContainerRecord
from numalign.wire.pods.workloads import expanded

SCRATCH = Path(tempfile.gettempdir())
REFUSALS = (NumalignError,)
VALUES = (NumalignError, ValueError)  # what the simple values of the core may raise


@dataclass(frozen=True)
class Parser:
    name: str
    seeds: list[bytes]
    parse: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = REFUSALS


@functools.cache
def _host() -> tuple[AgentSetup, AgentState]:
    configured, info = settings("single-numa-node", safe=True), small_machine(nodes=2)
    built = hosts.build(configured, info)
    setup = AgentSetup(built, node_fit.allocatable(configured, info))
    return setup, AgentState(hosts.cleaned(built, hosts.start(built)))


def through_the_agent(data: bytes) -> None:
    """Reads manifests and has the first pods of them admitted, saved, and read again."""
    setup, state = _host()
    for number, record in enumerate(expanded(data, source="fuzz").required().pods[:3]):
        uid = record.metadata.uid or f"uid-{number}"
        state, _ = step(setup, state, events.PodSubmitted(uid, record, "api", 1.0, number))
        known = state.pods.get(uid)
        for container in records_of(known) if known else ():
            env = _plain(container)
            arguments([*(container.command or ()), *(container.args or ())], env)
    assert not state.problems(), state.problems()
    again = saved.dump(state.pods)
    assert saved.load(again) == state.pods
    assert saved.unusable(again) is None


def _plain(container: ContainerRecord) -> dict[str, str]:
    """The variables that need nothing but the manifest."""
    own = [item for item in container.env or () if not item.valueFrom]
    plain = ContainerRecord(container.name, env=own)
    return ValueSources(None, None, {}).variables(None, plain, {})


def through_the_host(data: bytes) -> None:
    """Reads a machine and sets the managers up for it."""
    with tempfile.NamedTemporaryFile(dir=SCRATCH, prefix="numalign-fuzz-") as file:
        file.write(data)
        file.flush()
        found = machine_from_file(Path(file.name))
    if len(found.cpus) <= 256:
        run.setup_of(agent_config.AgentConfig(), found)


def sysfs(data: bytes) -> None:
    try:
        files = json.loads(data)
    except (ValueError, RecursionError):
        return  # only a tree is of interest here
    if isinstance(files, dict) and all(isinstance(text, str) for text in files.values()):
        machine_info(read_machine(MappingTree(files, source="fuzz"), "fuzz"))


def configuration(data: bytes) -> None:
    found = agent_config.load(data, source="fuzz", read=lambda _: seeds.KUBELET)
    run.setup_of(found, synthetic_machine("2s:1n:4c:2t"))


def kubelet(data: bytes) -> None:
    for version in Version:
        try:
            found = kubelet_config.load(data, version=version)
        except NumalignError:
            continue
        edit.edited(data, found)
    kubelet_config.load_older(data)


def checkpoints(name: str) -> Callable[[bytes], object]:
    def parse(data: bytes) -> None:
        for version in Version:
            state_files.decoded({name: data}, settings(version=version))

    return parse


def run_files(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="numalign-fuzz-") as root:
        for name in ("record.json", "run.json", "exit.json"):
            (Path(root) / name).write_bytes(data)
        directory = RunDirectory(Path(root))
        for read in ("record", "run", "exit"):
            try:
                getattr(directory, read)
            except NumalignError:
                continue


def watched(data: bytes) -> None:
    for read in (api.page_of, api.watch_line_of):
        try:
            read(data)
        except NumalignError:
            continue
    api.head_of(data)
    api.refusal_of(data, code=0)


def redeployed(data: bytes) -> None:
    redeploy_pods.watched_pod(data)
    redeploy_pods.gate_patch(data, "u", ("w1",))
    redeploy_pods.recreated(data, "u", ("w1",))


def text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: parse(data.decode(errors="replace"))


def every(*parse: Callable[[bytes], object]) -> Callable[[bytes], object]:
    def all_of_them(data: bytes) -> None:
        for one in parse:
            try:
                one(data)
            except NumalignError:
                continue

    return all_of_them


def cluster_pods(data: bytes) -> None:
    scheduling.pods_of_manifest(data, source="fuzz")


def flagged(line: str) -> None:
    flags.overlaid({}, flags.flags_of(line.split()))


def saved_pods(data: bytes) -> None:
    """A list of pods under a checksum that is right: what cannot be used is set aside."""
    checksum = saved.checksum(data).encode()
    file = b'{"version":1,"checksum":"%s","pods":%s}' % (checksum, data)
    pods = saved.load(file)
    saved.unusable(file)
    setup, _ = _host()
    state, _ = recovered(
        setup,
        cpu=None,
        memory=None,
        saved_devices=None,
        pods=pods,
        alive={},
        ended={},
        now=1.0,
    )
    again = saved.dump(state.pods)
    assert saved.unusable(again) is None, "what was taken up once is taken up again"


def placement_text(content: bytes) -> bytes:
    return b"1:" + base64.b64encode(zlib.compress(content))


def placed(content: bytes) -> None:
    """What a host publishes, and the host that a scheduler makes of it."""
    found = placement.decode(placement_text(content).decode())
    rebuilt(found, [])


def rendered(template: str) -> None:
    jsonpath.rendered(template, {"items": [{"metadata": {"name": "a", "n": 3}}, {}]})


def parsers() -> list[Parser]:
    manifests = [path.read_bytes() for path in sorted(CHECKOUT.glob("examples/*/*.yaml"))]
    manifests += [seeds.POD, seeds.DEPLOYMENT, seeds.POD_LIST]
    tree = sysfs_files(synthetic_machine("2s:1n:2c:2t"))
    captures = [tar_bytes(tree), tar_bytes(tree, prefix="host/")]
    captures += [PACKERS[packer](captures[0]) for packer in PACKERS]
    shapes = [b"2s:1n:16c:2t", b"8s:8n:32c:2t", b"1s:4n:2c"]
    texts = seeds.machine_texts()
    plugin = seeds.plugin()
    cpu, memory = state_files.CPU, state_files.MEMORY
    pod_list = [seeds.POD_LIST, seeds.POD]
    asked = [seeds.FILTER, seeds.BIND, seeds.PREEMPT]
    paths = [b"{.items[*].metadata.name}", b"{range .items[*]}{.a}{end}"]
    return [
        Parser("manifests through the agent", manifests, through_the_agent),
        Parser("manifests of a scheduler", manifests, cluster_pods),
        Parser("running pods", pod_list, lambda data: running.running_pods(data, "fuzz")),
        Parser("pod of the API server", [seeds.POD], api_pod),
        Parser("node of the API server", [seeds.NODE], scheduling.host_from_json),
        Parser("pod of the redeploy loop", [seeds.GATED], redeployed),
        Parser("watch", [seeds.WATCH_LINE, seeds.POD_LIST, seeds.STATUS], watched),
        Parser("extender", asked, extended),
        Parser("topology object", [seeds.NRT], nrt.read),
        Parser("placement", [seeds.placement()], placed),
        Parser("placement as text", [placement_text(seeds.placement())], text(placement.decode)),
        Parser("agent configuration", [seeds.AGENT, seeds.KUBELET], configuration),
        Parser("kubelet configuration", [seeds.KUBELET, *manifests[:1]], kubelet),
        Parser("kubelet flags", [seeds.FLAGS], text(flagged)),
        Parser("CPU checkpoint", seeds.checkpoints(cpu), checkpoints(cpu)),
        Parser("memory checkpoint", seeds.checkpoints(memory), checkpoints(memory)),
        Parser("device checkpoint", [seeds.DEVICES], checkpoints(state_files.DEVICES)),
        Parser("pods.json", [seeds.pods_file()], saved.load),
        Parser("pods in pods.json", [seeds.pods_list()], saved_pods),
        Parser("refusals.json", [seeds.REFUSALS], lambda data: refusals.load(data, {}, path="x")),
        Parser("records of runs", [seeds.RECORD, seeds.RUN], run_files),
        Parser("machine files", [*texts, *captures], through_the_host),
        Parser("captures", captures, through_the_host),
        Parser("bundle", [seeds.bundle()], through_the_host),
        Parser("unpacked bundle", [gzip.decompress(seeds.bundle())], through_the_host),
        Parser("sysfs", [json.dumps(tree).encode()], sysfs),
        Parser("machine YAML", [texts[0]], text(machine_yaml.load)),
        Parser("machine in short", shapes, text(synthetic_machine)),
        Parser("container runtime", seeds.cri(), runtime_answers),
        Parser("device plugin", plugin, plugin_answers),
        Parser("PodResources", plugin, resource_answers),
        Parser("quantity", [b"1.5Gi", b"100m", b"2e3", b"0.1"], text(Quantity.parse), VALUES),
        Parser("list of CPUs", [b"0-3,8,12-15", b"0"], text(parse_list), VALUES),
        Parser("duration", [b"1h30m5.5s", b"100ms"], text(goduration.parse), VALUES),
        Parser("JSONPath", paths, text(rendered)),
        Parser("columns", [b"NAME:.metadata.name,N:.n"], text(jsonpath.custom_columns)),
        *(Parser(*one) for one in fleets_and_nri.parsers()),
    ]


extended = every(extender.read_hosts_asked, extender.read_bind_asked, extender.read_preempt_asked)
api_pod = every(scheduling.pod_from_json, running.known_pod)
runtime_answers = every(
    *(cri.version_of, cri.network_fault_of, cri.has_systemd_driver, cri.sandboxes_of),
    *(cri.containers_of, cri.report_of, cri.event_id_of, cri.image_of),
)
plugin_answers = every(
    *(device_plugin.registration_of, device_plugin.options_of, device_plugin.devices_of),
    *(device_plugin.preferred_of, device_plugin.allocation_of),
    *(device_plugin.saved_allocation_of, device_plugin.plugin_info_of),
)
resource_answers = every(podresources.wanted_of, podresources.pods_of, podresources.allocatable_of)
