"""What a daemon writes to its log."""

import subprocess
import sys

TROUBLE = """
import structlog
from numalign.cli.daemon import configure_logs
configure_logs()
try:
    {}["gone"]
except KeyError:
    structlog.get_logger().exception("effect_failed", what="x")
"""


def test_an_error_that_nobody_foresaw_is_told_with_the_place_where_it_happened():
    found = subprocess.run(
        [sys.executable, "-c", TROUBLE], capture_output=True, text=True, check=True
    )
    [line] = (found.stdout + found.stderr).splitlines()
    assert "event=effect_failed what=x" in line
    assert "KeyError: 'gone'" in line
    assert r"\n  File" in line
