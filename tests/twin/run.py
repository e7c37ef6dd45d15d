"""One configuration from beginning to end: predict, apply to both, compare, hand over, record."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.real.guest import SHARE, HungError
from tests.real.kept import say
from tests.twin import agent, compare, predict, sequences
from tests.twin.configurations import Configuration
from tests.twin.kubelet import CONFIG
from tests.twin.sequences import Step
from tests.twin.worker import CALL_SECONDS_MAX, Worker, clock, shown, worker

from numalign.conformance.live import live, version_of
from numalign.core.settings import Settings

AGENT = "tests.twin.agent"
HANGS_MAX = 2


@dataclass(slots=True)
class Report:
    """What a run has to show."""

    configuration: str
    version: str
    steps: int = 0
    admitted: int = 0
    refused: int = 0
    predicted: int = 0
    asked: int = 0
    compared: int = 0  # steps on which agent and kubelet were compared
    handed_over: bool = False
    differences: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """One line for people."""
        return (
            f"{self.configuration} {self.version}: {self.steps} steps, {self.admitted} admitted, "
            f"{self.refused} refused, predicted {self.predicted} of {self.asked}, agent compared "
            f"on {self.compared}, {'handed over' if self.handed_over else 'not handed over'}, "
            f"{len(self.differences)} differences, {self.seconds:.0f} s"
        )


class Twin:
    """A kubelet and an agent of ours that are given the same."""

    def __init__(self, running: Worker, report: Report) -> None:
        self.worker = running
        self.report = report
        self.configuration = running.configuration
        self.settings = Settings(
            version=version_of(running.version),
            cpu_policy="static",
            memory_policy="Static",
            gates=self.configuration.kubelet.get("featureGates", {}),
        )
        self.record: dict[str, Any] = {
            "name": self.configuration.name,
            "kubernetes": running.version,
            "topology": self.configuration.topology,
            "config": self.configuration.kubelet,
            "machine": running.call("machine"),
            "devices": self.configuration.devices,
            "steps": [],
        }
        self.recorded: int | None = None  # so many steps are for the record; None: all
        self.refused: list[str] = []

    def own_record(self) -> dict[str, Any]:
        """The record up to the hand-over."""
        return {**self.record, "steps": self.record["steps"][: self.recorded]}

    def agent(self, name: str, *arguments: Any) -> Any:
        """A function of the agent's side."""
        return self.worker.guest.call(f"{AGENT}:{name}", *arguments, seconds=CALL_SECONDS_MAX)

    def start_agent(self) -> None:
        """Starts the agent; it is of use once ``ready_agent`` has returned."""
        self.agent("start", str(CONFIG), self.worker.version)

    def ready_agent(self) -> None:
        """Waits for the agent, and starts plugins for it."""
        self.agent("wait")
        place = str(agent.DEVICES)
        self.worker.call("start_plugins", self.worker.plugin, self.configuration.devices, place)

    def stop_agent(self) -> None:
        """Kills the agent and its plugins."""
        self.agent("stop")
        self.worker.call("stop_plugins", str(agent.DEVICES))

    def steps(self, steps: list[Step], watch: Callable[[int, str], None]) -> None:
        """Does all steps. Refused pods are taken away before the kubelet is stopped.

        It would decide about them anew when it starts; the agent remembers that it has decided.
        """
        for step in steps:
            extra = []
            if "restart" in step or "stop" in step:
                extra = [{"delete": name} for name in self.refused]
            for one in [*extra, step]:
                if one.get("delete", "") in self.worker.uids or "delete" not in one:
                    found = list(self._step(one))
                    number = len(self.record["steps"]) - 1
                    watch(
                        number,
                        shown(self.record["steps"][-1], self.record["steps"][-1].get("result")),
                    )
                    for text in found:
                        self.report.differences.append(f"step {number}: {text}")
                        watch(number, f"  {text[:600]}")

    def hand_over(self, watch: Callable[[int, str], None]) -> None:
        """Starts each on a copy of the state that the other left, and goes on.

        Without pods that have run init containers: the kubelet finds their containers running, and
        gives memory to the init containers for good; the agent has to start them again, and takes
        it back.
        """
        self.steps([{"delete": name} for name in self._initialized()], watch)
        before = len(self.report.differences)
        self.recorded = len(self.record["steps"])  # a record knows no state of somebody else
        number = 1 + sum("apply" in step for step in self.record["steps"])
        self.steps([{"stop": True}], watch)
        theirs, ours = self.worker.call("state_files"), self.agent("state_files")
        self.worker.call("put_state_files", ours)
        self.agent("put_state_files", theirs)
        self.steps([{"start": True}, *sequences.after_hand_over(number)], watch)
        self.report.handed_over = len(self.report.differences) == before

    def _initialized(self) -> list[str]:
        """The pods that are there and have had init containers which end."""
        pods = [step["apply"] for step in self.record["steps"] if "apply" in step]
        return [
            pod["metadata"]["name"]
            for pod in pods
            if any("restartPolicy" not in one for one in pod["spec"].get("initContainers", ()))
            and pod["metadata"]["name"] in self.worker.uids
        ]

    def _step(self, step: Step) -> Iterator[str]:
        self.report.steps += 1
        if "apply" in step:
            yield from self._apply(step)
            return
        if "delete" in step:
            self._delete(step)
            return
        if "stop" in step or "restart" in step:
            self.stop_agent()
        is_start = "start" in step or "restart" in step
        if is_start:
            self.start_agent()  # beside the kubelet
        result = self.worker.step(step)
        self.record["steps"].append(step if result is None else {**step, "result": result})
        if is_start:
            self.ready_agent()
            yield from self._after_start(result)

    def _delete(self, step: Step) -> None:
        name = step["delete"]
        uid = self.worker.uids[name]
        self.agent("delete", name)
        self.worker.step(step)
        self.agent("forgotten", uid)
        if name in self.refused:
            self.refused.remove(name)
        self.record["steps"].append(step)

    def _after_start(self, result: dict[str, Any] | None) -> Iterator[str]:
        assert result is not None, "a start has a result"
        ours = self.agent("settled", list(self.worker.uids.values()))
        for name, uid in self.worker.uids.items():
            theirs = result["pods"].get(f"{name}-worker-1")
            if ours.get(uid) != theirs:
                yield f"{name} after the start: agent {ours.get(uid)}, kubelet {theirs}"

    def _apply(self, step: Step) -> Iterator[str]:
        manifest = step["apply"]
        meta = manifest["metadata"]
        answer = predict.predicted(self._captured(), manifest)
        self.agent("submit", manifest)
        result = self.worker.step(step)
        assert result is not None, "an applied pod has a result"
        self.record["steps"].append({**step, "result": result})
        missed = list(predict.mispredictions(answer, result, meta["uid"], self.settings))
        self.report.asked += 1
        self.report.predicted += not missed
        yield from missed
        if compare.is_refused(result):
            self.report.refused += 1
            self.refused.append(meta["name"])
        else:
            self.report.admitted += 1
        yield from self._compared(manifest, result)

    def _captured(self) -> Path:
        """A bundle of the host as it is now."""
        bundle = self.worker.guest.share / "host.tar.gz"
        self.worker.call("capture", f"{SHARE}/{bundle.name}", self.worker.version)
        return bundle

    def _compared(self, manifest: dict[str, Any], theirs: dict[str, Any]) -> Iterator[str]:
        ours = self.agent("decided", manifest)
        self.report.compared += 1
        yield from compare.decision_differences(theirs, ours)
        active = {uid for name, uid in self.worker.uids.items() if name not in self.refused}
        yield from compare.file_differences(theirs, ours, active, self.settings)
        yield from compare.cgroup_differences(theirs, ours)
        views = [self.agent("pod_resources", which) for which in ("kubelet", "agent")]
        yield from compare.view_differences(*views)


def _progress(report: Report, at: Callable[[], str]) -> Callable[[int, str], None]:
    what = f"{report.configuration} {report.version}"
    return lambda number, text: say(f"{what} {at()} {number:2d} {text}")


def _write(record: dict[str, Any], place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    with gzip.open(place / f"{record['name']}-{record['kubernetes']}.json.gz", "wt") as stream:
        json.dump(record, stream)


def twinned(
    configuration: Configuration,
    version: str,
    *,
    record_to: Path | None = None,
) -> Report:
    """Runs one configuration; every difference is in the report.

    Now and then the emulated kernel hangs, which says nothing of anybody: then it is run again.
    """
    for _ in range(HANGS_MAX):
        try:
            return _twinned(configuration, version, record_to)
        except HungError as error:
            say(f"{configuration.name} {version}: once more: {error}")
    return _twinned(configuration, version, record_to)


def _twinned(configuration: Configuration, version: str, record_to: Path | None) -> Report:
    at = clock()
    report = Report(configuration.name, version)
    with worker(configuration, version, first=f"{AGENT}:load") as running:
        say(f"{at()} {configuration.name} {version}: the kubelet runs")
        twin = Twin(running, report)
        twin.start_agent()
        twin.ready_agent()
        say(f"{at()} the agent runs")
        watch = _progress(report, at)
        try:
            twin.steps(configuration.steps, watch)
            twin.hand_over(watch)
        finally:
            if record_to is not None:  # also what there is of a run that broke off
                _write(twin.own_record(), record_to)
    report.differences += [f"replay: {text}" for text in live(twin.own_record())]
    report.seconds = float(at().split()[0])
    say(report.line)
    return report
