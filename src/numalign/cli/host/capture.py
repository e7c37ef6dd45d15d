"""``numalign capture``: all that placement on a host depends on, in one file."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.host import source_options
from numalign.cli.options import ClusterOptions, KubeconfigOption, optional
from numalign.cli.output import Output
from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.core.kubelet.older_versions import Kubernetes
    from numalign.wire.bundle import Bundle

app = new_app()


@app.command(
    epilog=examples(
        "sudo numalign capture -o worker-3.tar.gz",
        "kubectl get pods -A -o json --field-selector spec.nodeName=worker-3 | "
        "numalign capture --pods - -o worker-3.tar.gz",
        "numalign capture --on http://127.0.0.1:8421 -o agent.tar.gz",
        "numalign capture --cluster -o fleet.tar.gz",
    )
)
def capture(  # noqa: PLR0913, PLR0917 - one parameter for each option
    ctx: typer.Context,
    output: Annotated[
        Path | None,
        optional(
            "--output-file",
            "-o",
            metavar="FILE.tar.gz",
            help="Where to write the bundle; by default HOST.tar.gz here, - for stdout.",
        ),
    ] = None,
    on: Annotated[
        str | None,
        optional(
            "--on",
            metavar="URL",
            help="Capture a running agent of ours: http://127.0.0.1:8421 or unix:///PATH.",
        ),
    ] = None,
    root: Annotated[
        Path, typer.Option("--root", metavar="DIR", help="Where the host's / is mounted.")
    ] = Path("/"),
    kubelet_config: source_options.KubeletConfigOption = None,
    state: source_options.StateOption = None,
    pod_resources: Annotated[
        Path | None,
        optional(
            "--pod-resources",
            metavar="SOCKET",
            help="The PodResources socket, if it is not pod-resources/kubelet.sock in the state.",
        ),
    ] = None,
    pods: source_options.PodsOption = None,
    kubernetes: source_options.KubernetesOption = None,
    cluster: Annotated[
        bool,
        typer.Option("--cluster", help="Capture a whole cluster instead: topologies and pods."),
    ] = False,
    kubeconfig: KubeconfigOption = None,
    context: Annotated[
        str | None, optional("--context", help="The context of the kubeconfig to use.")
    ] = None,
) -> None:
    """Write all that placement on this host depends on into one file.

    In it: the kernel's view of the machine, the kubelet's configuration as far as it decides about
    placement, the three state files, what the PodResources API answers, and the names and resources
    of pods. Not in it: environments, commands, annotations, images, keys, tokens and addresses.
    With --cluster: what all hosts publish, and names, labels, owners and resources of all pods.
    """
    if cluster:
        _fleet(Output.of(ctx), ClusterOptions(kubeconfig, context), output)
        return
    from numalign.wire.bundle import packed

    if on is not None:
        found = _from_agent(on)
    else:
        found = _from_host(
            root,
            kubelet_config,
            state,
            pod_resources,
            pods,
            source_options.chosen_version(kubernetes),
        )
    out = Output.of(ctx)
    data = packed(found)
    if output is not None and str(output) == "-":
        out.binary(data, "A bundle")
        return
    path = output or Path(f"{found.about.host.replace('/', '_') or 'host'}.tar.gz")
    out.private_file(path, data)
    source_options.tell(found.about.notes)
    out.text(f"{path}: {len(data)} bytes, {len(found.files)} files of {found.about.host}\n")


def _fleet(out: Output, options: ClusterOptions, output: Path | None) -> None:
    from numalign.cli.cluster.client import capture as captured_cluster
    from numalign.wire.fleet.capture import packed

    found = captured_cluster(options)
    data = packed(found)
    if output is not None and str(output) == "-":
        out.binary(data, "A capture")
        return
    path = output or Path("fleet.tar.gz")
    out.private_file(path, data)
    out.text(
        f"{path}: {len(data)} bytes, {len(found.hosts)} hosts, {len(found.topologies)} topologies, "
        f"{len(found.pods)} pods\n"
    )


def _from_agent(url: str) -> Bundle:
    from numalign.adapters.local.agent_client import capture_of
    from numalign.adapters.sources.bundles import bundle_from_bytes

    if not url.startswith(("http://", "https://", "unix://")):
        raise ConfigError(
            f"--on: found {url!r}, expected http://HOST:PORT or unix:///PATH. Without it this host "
            "is captured."
        )
    return bundle_from_bytes(capture_of(url), url)


def _from_host(
    root: Path,
    kubelet_config: Path | None,
    state: Path | None,
    pod_resources: Path | None,
    pods: Path | None,
    version: Kubernetes | None,
) -> Bundle:
    import time

    from numalign.apps.snapshots.this_host import Places, captured

    places = Places(root=root, config=kubelet_config, state=state, pod_resources=pod_resources)
    found, _ = captured(
        places,
        created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        kubernetes=version,
        pods=source_options.running(pods),
    )
    return found
