"""``numalign nri``: place containers as a plugin of containerd or CRI-O."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.options import KubeconfigOption, MachineOption, ProbesOption, optional
from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.apps.nri.run import Places

LISTEN_DEFAULT: Final = "127.0.0.1:8424"
KUBELET: Final = Path("/var/lib/kubelet")
# What a runtime gives to plugins that it starts itself.
SOCKET_VARIABLE: Final = "NRI_PLUGIN_SOCKET"
NAME_VARIABLE: Final = "NRI_PLUGIN_NAME"
INDEX_VARIABLE: Final = "NRI_PLUGIN_IDX"

app = new_app()


@app.command(
    epilog=examples(
        "numalign nri",
        "numalign nri --config /etc/numalign/nri.yaml --listen 0.0.0.0:8424",
        "numalign nri --socket /run/nri/nri.sock --index 20 --state-dir /var/lib/numalign/nri",
    )
)
def nri(  # noqa: PLR0913, PLR0917 - one parameter for each option
    config: Annotated[
        Path | None,
        optional(
            "--config",
            help="The host file: a KubeletConfiguration. Without it containers of Guaranteed pods "
            "are pinned, nobody is refused for his NUMA nodes, and CPU 0 is reserved.",
        ),
    ] = None,
    socket: Annotated[Path, typer.Option("--socket", help="The runtime's NRI socket.")] = Path(
        "/var/run/nri/nri.sock"
    ),
    index: Annotated[
        str, typer.Option("--index", help="When we are asked among all plugins: two digits.")
    ] = "10",
    name: Annotated[str, typer.Option("--name", help="The plugin's name.")] = "numalign",
    state_dir: Annotated[
        Path, typer.Option("--state-dir", help="Where what is held is kept.")
    ] = Path("/var/lib/numalign/nri"),
    pod_resources: Annotated[
        str,
        typer.Option(
            "--pod-resources",
            help="Our own PodResources socket, in the state directory; '' for none.",
        ),
    ] = "pod-resources.sock",
    kubelet_config: Annotated[
        Path, typer.Option("--kubelet-config", help="The kubelet's configuration, to be checked.")
    ] = KUBELET / "config.yaml",
    kubelet_dir: Annotated[
        Path,
        typer.Option("--kubelet-dir", help="The kubelet's directory: state files and devices."),
    ] = KUBELET,
    cgroups: Annotated[
        Path,
        typer.Option("--cgroups", help="The host's cgroups: where containers really are."),
    ] = Path("/sys/fs/cgroup"),
    taint: Annotated[
        bool,
        typer.Option(
            "--taint",
            help="Keep the taint numalign.io/nri-not-ready on this host's Node object while "
            "nothing is placed: for runtimes that cannot demand a plugin.",
        ),
    ] = False,
    host_name: Annotated[
        str,
        optional(
            "--host-name",
            envvar="NODE_NAME",
            help="The name of this host's Node object; without it the host's own name.",
        ),
    ] = "",
    kubeconfig: KubeconfigOption = None,
    machine: MachineOption = None,
    listen: ProbesOption = LISTEN_DEFAULT,
) -> None:
    """Place containers under an unchanged kubelet, inside its runtime.

    An NRI plugin of containerd or CRI-O. It decides when a container is created, with the
    kubelet's own rules, and saves before it answers. The kubelet's CPU and memory managers must be
    off. The runtime can also start it from its directory of plugins.
    """
    import asyncio

    from numalign.apps.nri.run import Places
    from numalign.cli.daemon import address

    descriptor = _descriptor()
    places = Places(
        state=state_dir,
        config=config,
        socket=socket,
        descriptor=descriptor,
        pod_resources=state_dir / pod_resources if pod_resources else None,
        kubelet_config=kubelet_config,
        kubelet=kubelet_dir,
        cgroups=cgroups,
        machine=machine,
        index=os.environ.get(INDEX_VARIABLE, index) if descriptor is not None else index,
        name=os.environ.get(NAME_VARIABLE, name) if descriptor is not None else name,
    )
    name_of_host = host_name or os.uname().nodename.lower()
    tainted = (name_of_host, kubeconfig) if taint else None
    asyncio.run(_run(places, address(listen), tainted))


def _descriptor() -> int | None:
    text = os.environ.get(SOCKET_VARIABLE)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(f"{SOCKET_VARIABLE}: found {text!r}, expected a number of a descriptor")
    return int(text)


async def _run(
    places: Places, address: tuple[str, int] | None, tainted: tuple[str, Path | None] | None
) -> None:
    import gc
    from contextlib import AsyncExitStack

    from numalign.adapters.kubernetes.api_server import ApiServer
    from numalign.apps.nri.run import Plugin
    from numalign.apps.nri.taint import HostTaint
    from numalign.cli.daemon import all_until_stopped, configure_logs
    from numalign.web import probes

    configure_logs()
    plugin = Plugin(places)
    # What was loaded stays: looking through it for garbage would hold an answer up for 20 ms.
    gc.collect()
    gc.freeze()
    async with AsyncExitStack() as stack:
        works = [plugin.run()]
        if address is not None:
            works.append(probes.serve(plugin, address))
        if tainted is not None:
            name, kubeconfig = tainted
            api = await stack.enter_async_context(ApiServer.connect(kubeconfig))
            works.append(HostTaint(api, name, plugin.is_synchronized).run())
        await all_until_stopped(works)
