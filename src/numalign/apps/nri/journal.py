"""What was decided, for the log and the metrics."""

from __future__ import annotations

from typing import assert_never

import structlog

from numalign.apps.nri import events
from numalign.apps.nri.metrics import NriMetrics
from numalign.apps.nri.model import NriState

log = structlog.get_logger("numalign.nri")


class Journal:
    """Each fact is told once, here."""

    def __init__(self, metrics: NriMetrics) -> None:
        self._metrics = metrics

    def note(self, note: events.Note) -> None:
        """Tells log and counters of one thing that was decided."""
        match note:
            case events.Placed(pod, container, cpus, mems, is_shared, is_adopted):
                kind = "adopted" if is_adopted else "shared" if is_shared else "exclusive"
                self._metrics.placed.labels(kind).inc()
                if not is_shared:
                    log.info(
                        "container_placed",
                        pod=pod,
                        container=container,
                        cpus=cpus,
                        mems=mems,
                        how=kind,
                    )
            case events.Refused(pod, container, reason, message):
                self._metrics.refused.labels(reason).inc()
                log.warning(
                    "container_refused",
                    pod=pod,
                    container=container,
                    reason=reason,
                    message=message,
                )
            case events.Released(pod, cpus):
                log.info("pod_released", pod=pod, cpus=cpus)
            case events.Unplaced(pod, container, message):
                log.warning("container_unplaced", pod=pod, container=container, message=message)
            case events.Repaired(count):
                self._metrics.repaired.inc(count)
                log.info("containers_repaired", containers=count)
            case events.HostFileApplied(keys, message):
                if keys:
                    log.warning("host_file_waits", containers=len(keys), reason=message)
                else:
                    log.info("host_file_applied")
            case _:
                assert_never(note)

    def measure(self, state: NriState) -> None:
        """Shows the state in the gauges."""
        cpu = state.host.cpu
        held = sum(c.bit_count() for pod in cpu.entries.values() for c in pod.values())
        self._metrics.connected.set(state.is_synchronized)
        self._metrics.unplaced.set(len(state.unplaced))
        self._metrics.exclusive.set(held)
        self._metrics.shared.set(cpu.shared.bit_count())
