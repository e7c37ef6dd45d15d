"""``numalign simulate``: a fleet over time, schedulers and settings side by side."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.main import FAILED, OK
from numalign.cli.options import optional
from numalign.cli.output import Output
from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.apps.simulator.report.summary import Row
    from numalign.wire.fleet.scenario.reading import Scenario

HEAD: Final = (
    *("SCHEDULER", "PLACED", "REFUSALS", "AGAIN", "WAIT", "P95", "ALIGNED", "USED"),
    *("USELESS", "FRAGMENTS"),
)
JOBS_MAX: Final = 256

app = new_app()


@app.command(
    epilog=examples(
        "numalign simulate examples/scenarios/telco.yaml",
        "numalign simulate examples/scenarios/telco.yaml -o report --jobs 4",
        "numalign simulate fleet.yaml --host edge-0007 --at 36h -o edge-0007.tar.gz",
        "numalign simulate fleet.yaml --host edge-0007 --scheduler totals -o edge-0007.tar.gz",
    )
)
def simulate(  # noqa: PLR0913, PLR0917 - one parameter for each option
    ctx: typer.Context,
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.yaml", show_default=False)],
    output: Annotated[
        Path | None,
        optional(
            "--output-file",
            "-o",
            metavar="DIR|FILE",
            help="Write report.html, report.json, summary.csv and samples.csv into this directory; "
            "with --host, the host into this file, as a bundle.",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, max=JOBS_MAX, help="Runs at the same time.")
    ] = 1,
    seeds: Annotated[
        str | None,
        optional("--seeds", metavar="N|N-M", help="Other seeds than the scenario's."),
    ] = None,
    scheduler: Annotated[
        list[str] | None,
        optional("--scheduler", help="Only this scheduler. Repeat for more."),
    ] = None,
    host: Annotated[
        str | None,
        optional("--host", metavar="NAME", help="Write one simulated host instead."),
    ] = None,
    at: Annotated[
        str | None,
        optional("--at", metavar="TIME", help="When to look at that host: seconds, 90m or 36h."),
    ] = None,
    fleet: Annotated[
        bool,
        typer.Option("--fleet", help="Write the whole fleet at that time as a capture instead."),
    ] = False,
) -> int:
    """Simulate a fleet: schedulers and settings side by side.

    Every host decides with its managers, so refusals are the kubelet's. The table ranks the
    schedulers and variants of the scenario, the best first. USELESS is the share of idle CPUs that
    the reference mix cannot use (F_numa), FRAGMENTS the 16-core fragment rate. The same seeds give
    the same report, to the byte, with any number of jobs. A bundle that --host writes is opened by
    'numalign explain --on' and the others that ask about a host.
    """
    found = _read(scenario, seeds, scheduler)
    out = Output.of(ctx)
    if host is not None:
        return _one_host(out, found, host, at, output)
    if fleet:
        return _whole_fleet(out, found, at, output)
    if at is not None:
        raise ConfigError("--at: found it alone, expected --host NAME or --fleet with it.")
    return _compared(out, found, output, jobs)


def _read(path: Path, seeds: str | None, schedulers: list[str] | None) -> Scenario:
    import msgspec

    from numalign.adapters.local.packed import read_file
    from numalign.core.fleet.simulation.schedulers import scheduler_of
    from numalign.wire.fleet.scenario.reading import Scenario, read, seeds_of

    found = read(read_file(path, str(path)), str(path))
    form = found.form
    if schedulers:
        for name in schedulers:
            scheduler_of(name, ())
        variants = [msgspec.structs.replace(v, schedulers=None) for v in form.variants]
        form = msgspec.structs.replace(form, schedulers=schedulers, variants=variants)
    chosen = found.seeds if seeds is None else seeds_of(seeds)
    if chosen is None:
        raise ConfigError(f"--seeds: found {seeds!r}, expected a number or a range such as 1-3")
    return Scenario(found.source, form, chosen, found.lines)


def _compared(out: Output, scenario: Scenario, output: Path | None, jobs: int) -> int:
    from numalign.apps.simulator.notes import notes_of
    from numalign.apps.simulator.report.files import HTML, files
    from numalign.apps.simulator.report.summary import rows
    from numalign.apps.simulator.report.words import words
    from numalign.apps.simulator.running import all_done, in_order, tasks_of
    from numalign.cli.fleet.run_progress import RunProgress

    with RunProgress() as progress:
        done = list(all_done(scenario, jobs, progress.at))
    results = in_order(scenario, done)
    notes = list(notes_of(scenario.form))
    missing = len(tasks_of(scenario)) - sum(1 for result in results if result.is_complete)
    if not results:
        raise ConfigError("interrupted before any pod came: there is nothing to report.")
    if missing:
        notes.insert(
            0, f"Interrupted: {missing} of {len(tasks_of(scenario))} runs did not come to an end."
        )
        out.text(f"{notes[0]}\n")
    _show(out, rows(results))
    for text in words(rows(results)):
        out.text(f"{text}\n")
    attempts = sum(one.result.attempts for one in done)
    seconds = sum(one.seconds for one in done)
    rate = attempts / seconds if seconds else 0.0
    out.text(
        f"{attempts} decisions of kubelets in {seconds:.1f} s of CPU time: {rate:,.0f} per second\n"
    )
    if output is not None:
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{output}: cannot make the directory: {error.strerror}") from error
        for name, data in files(scenario.form, results, notes).items():
            out.file(output / name, data)
        out.text(f"{output / HTML}\n")
    return FAILED if missing else OK


def _show(out: Output, found: list[Row]) -> None:
    from numalign.apps.render.columns import columns
    from numalign.apps.simulator.report.summary import ranked

    lines = []
    for row in ranked(found):
        values: Any = {name: spread.mean for name, spread in row.values.items()}
        lines.append(
            (
                row.label,
                f"{(1 - values['unplaced']) * 100:.2f} %",
                f"{values['refusals']:.0f}",
                f"{values['refused_again']:.0f}",
                f"{values['wait_mean']:.0f} s",
                f"{values['wait_p95']:.0f} s",
                f"{values['aligned'] * 100:.1f} %",
                f"{values.get('cpu_used', 0) * 100:.1f} %",
                f"{values.get('f_numa_cpu_share', 0) * 100:.1f} %",
                f"{values.get('fragment_rate', 0) * 100:.1f} %",
            )
        )
    out.lines(columns(HEAD, lines, width=out.table_width, right=tuple(range(1, len(HEAD)))))


def _whole_fleet(out: Output, scenario: Scenario, at: str | None, output: Path | None) -> int:
    from numalign.apps.simulator.captured import fleet_capture
    from numalign.apps.simulator.moments import run_until, seconds_of
    from numalign.wire.fleet.capture import packed

    run = run_until(scenario, seconds_of(at))
    found = fleet_capture(run)
    path = output or Path(f"{scenario.form.name}.tar.gz")
    data = packed(found)
    out.private_file(path, data)
    out.text(
        f"{path}: {len(data)} bytes, {len(found.hosts)} hosts and {len(found.pods)} pods after "
        f"{run.now:.0f} s; open it with 'numalign capacity --from {path}'\n"
    )
    return OK


def _one_host(
    out: Output, scenario: Scenario, name: str, at: str | None, output: Path | None
) -> int:
    from numalign.apps.simulator.moments import host_bundle, opened_host, seconds_of, when

    opened = opened_host(scenario, name, seconds_of(at))
    path = output or Path(f"{name}.tar.gz")
    out.text(f"{when(scenario, opened)}\n")
    from numalign.wire.bundle import packed

    data = packed(host_bundle(scenario, opened))
    out.private_file(path, data)
    out.text(
        f"{path}: {len(data)} bytes; see it with 'numalign view {path}', ask it with "
        f"'numalign explain --on {path}'\n"
    )
    return OK
