"""``python -m tests.twin [CONFIGURATION...] [--records DIR]``: the twin test, with a table.


Without names all configurations run, on every version that they are for.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.real.guest import CallError, GuestError
from tests.real.kept import MissingError, say
from tests.twin.configurations import CONFIGURATIONS, Configuration
from tests.twin.run import Report, twinned

SHOWN_MAX = 1000  # characters of a difference


def attempted(configuration: Configuration, version: str, records: Path | None) -> Report:
    """One run; that it broke off is told as a difference, so that the others go on."""
    try:
        return twinned(configuration, version, record_to=records)
    except (CallError, GuestError) as error:
        say(f"{configuration.name} {version} broke off: {error}")
        return Report(configuration.name, version, differences=[f"broke off: {error}"])


def main() -> int:
    """Runs what is asked for; 0 if nothing differs, or if there is nothing to run it with."""
    parser = argparse.ArgumentParser(prog="python -m tests.twin", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="CONFIGURATION", help=", ".join(CONFIGURATIONS))
    parser.add_argument("--kubernetes", metavar="VERSION", help="only this version")
    parser.add_argument("--records", type=Path, metavar="DIR", help="where to write records")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in CONFIGURATIONS]
    if unknown:
        parser.error(f"found {unknown[0]!r}, expected one of {', '.join(CONFIGURATIONS)}")
    if os.geteuid() != 0:
        say("skipped: the twin test needs root, since the guest reads this host's files as root")
        return 0
    runs = [
        (CONFIGURATIONS[name], version)
        for name in options.names or CONFIGURATIONS
        for version in CONFIGURATIONS[name].versions
        if options.kubernetes in (None, version)
    ]
    began = time.monotonic()
    try:
        reports = [attempted(*run, options.records) for run in runs]
    except MissingError as error:
        say(f"skipped: {error}")
        return 0
    for report in reports:
        sys.stdout.write(f"{report.line}\n")
        for text in report.differences:
            sys.stdout.write(f"  {text[:SHOWN_MAX]}\n")
    asked = sum(report.asked for report in reports)
    minutes = (time.monotonic() - began) / 60
    predicted = sum(report.predicted for report in reports)
    sys.stdout.write(f"predicted {predicted} of {asked}; {minutes:.1f} minutes\n")
    return 1 if any(report.differences for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
