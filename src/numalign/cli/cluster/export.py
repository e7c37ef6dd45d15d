"""``numalign export``: publish this host's NUMA nodes for schedulers."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import os
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.options import (
    KubeconfigOption,
    MachineOption,
    ProbesOption,
    ShapesOption,
    optional,
)
from numalign.cli.output import Output
from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.apps.exporter.run import Exporter
    from numalign.apps.exporter.scanning import Sources
    from numalign.core.cluster.publish.zones import HostTopology
    from numalign.core.fleet.measures import Mix

LISTEN_DEFAULT: Final = "127.0.0.1:8422"
PAGE_DEFAULT: Final = "127.0.0.1:8428"
KUBELET: Final = Path("/var/lib/kubelet")
INTERVAL_SECONDS_MIN: Final = 1.0

app = new_app()


@dataclass(frozen=True, slots=True)
class _How:
    out: Output
    interval: float
    is_oneshot: bool
    is_printed: bool
    takes_over: bool
    kubeconfig: Path | None
    address: tuple[str, int] | None
    shapes: Path | None
    page: tuple[str, int] | None


@app.command(
    epilog=examples(
        "numalign export --oneshot --no-publish",
        "numalign export --host-name worker-0 --kubeconfig exporter.conf",
        "numalign export --machine /host --interval 30 --listen 0.0.0.0:8422",
    )
)
def export(  # noqa: PLR0913, PLR0917 - one parameter for each option
    ctx: typer.Context,
    host_name: Annotated[
        str,
        optional(
            "--host-name",
            envvar="NODE_NAME",
            help="The name of this host's Node object; without it the host's own name.",
        ),
    ] = "",
    pod_resources: Annotated[
        Path, typer.Option("--pod-resources", help="The PodResources socket to ask.")
    ] = KUBELET / "pod-resources/kubelet.sock",
    kubelet_config: Annotated[
        Path, typer.Option("--kubelet-config", help="The kubelet's configuration file.")
    ] = KUBELET / "config.yaml",
    state: Annotated[
        str,
        typer.Option("--state", help="The kubelet's directory with its state files; '' for none."),
    ] = str(KUBELET),
    machine: MachineOption = None,
    interval: Annotated[
        float, typer.Option("--interval", help="Seconds between looks when nothing changes.")
    ] = 60.0,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="RESOURCE", help="Leave this resource out; repeat."),
    ] = None,
    shapes: ShapesOption = None,
    oneshot: Annotated[bool, typer.Option("--oneshot", help="Publish once and end.")] = False,
    no_publish: Annotated[
        bool, typer.Option("--no-publish", help="Print the object as YAML instead of writing it.")
    ] = False,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over", help="Write the object even if another exporter has written it."
        ),
    ] = False,
    kubeconfig: KubeconfigOption = None,
    listen: ProbesOption = LISTEN_DEFAULT,
    page: Annotated[
        bool, typer.Option("--page", help="Serve a page with this host, at --page-listen.")
    ] = False,
    page_listen: Annotated[
        str, typer.Option("--page-listen", help="Address of that page, on loopback.")
    ] = PAGE_DEFAULT,
) -> None:
    """Publish this host's NUMA nodes as a NodeResourceTopology.

    Looks whenever the kubelet's state files or the host's pods change and once per interval, and
    writes only what is new. With --no-publish the API server is asked only if --kubeconfig is
    given.
    """
    import asyncio

    from numalign.apps.exporter.scanning import Sources
    from numalign.cli.daemon import address

    if interval < INTERVAL_SECONDS_MIN:
        raise ConfigError(
            f"--interval: found {interval:g}, expected {INTERVAL_SECONDS_MIN:g} or more"
        )
    sources = Sources(
        host_name=host_name or os.uname().nodename.lower(),
        pod_resources=pod_resources,
        kubelet_config=kubelet_config,
        state=Path(state) if state else None,
        machine=machine,
        excluded=frozenset(exclude or ()),
    )
    out = Output.of(ctx)
    where = address(page_listen, option="--page-listen") if page else None
    how = _How(
        *(out, interval, oneshot, no_publish, take_over, kubeconfig),
        *(address(listen), shapes, where),
    )
    asyncio.run(_run(sources, how))


async def _run(sources: Sources, how: _How) -> None:
    from contextlib import AsyncExitStack

    from numalign.adapters.kubernetes.api_server import ApiServer
    from numalign.adapters.local.shapes import read_mix
    from numalign.apps.exporter.publishing import Publisher
    from numalign.apps.exporter.run import Exporter
    from numalign.apps.exporter.scanning import Scanner
    from numalign.cli.daemon import configure_logs, until_stopped

    configure_logs()
    async with AsyncExitStack() as stack:
        api = None
        if not how.is_printed or how.kubeconfig is not None:
            api = await stack.enter_async_context(ApiServer.connect(how.kubeconfig))
        scanner = Scanner(sources)
        if how.is_printed or api is None:
            exporter = Exporter(scanner, api, lambda found: _print(how.out, found), how.interval)
        else:
            publisher = Publisher(api, sources.host_name, takes_over=how.takes_over)
            exporter = Exporter(scanner, api, publisher, how.interval)
        mix = read_mix(how.shapes)
        if mix:
            exporter.metrics.follow_capacity(mix)
        if how.is_oneshot:
            await exporter.once()
        else:
            work = exporter.run()
            if how.page is not None:
                work = _with_page(work, exporter, mix, how.page)
            await until_stopped(work, exporter, how.address)


async def _with_page(
    work: Coroutine[None, None, None], exporter: Exporter, mix: Mix, where: tuple[str, int]
) -> None:
    import asyncio

    from numalign import __version__
    from numalign.apps.cluster_view.tiles import FleetSource
    from numalign.web.fleet.beside import serve_fleet
    from numalign.web.fleet.hub import FleetHub

    shown = exporter.shown
    source = FleetSource("exporter", "This host", __version__, live=True)
    hub = FleetHub(shown.look, shown.pods_on, source, mix)
    async with asyncio.TaskGroup() as group:
        group.create_task(work)
        group.create_task(serve_fleet(hub, where, on_started=_say_page))


def _say_page(where: str) -> None:
    print(f"In a browser: {where}/", file=sys.stderr, flush=True)


def _print(out: Output, topology: HostTopology) -> None:
    import yaml

    from numalign.wire.kubernetes import nrt

    out.text("---\n" + yaml.safe_dump(nrt.body(topology), sort_keys=False, width=1000))
