"""actionlint, built with Go from its published module and kept outside the checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.real.go_program import go_output
from tests.real.kept import cache, kept

VERSION: Final = "1.7.7"


def actionlint() -> Path:
    """The program; built at the first call, which needs the network."""
    return kept(cache() / "actionlint" / VERSION / "actionlint", _build)


def _build(scratch: Path, ready: Path) -> None:
    go_output(
        ["install", f"github.com/rhysd/actionlint/cmd/actionlint@v{VERSION}"],
        scratch,
        needed_for=f"actionlint {VERSION}",
        env={"GOBIN": str(scratch), "GOFLAGS": ""},
    )
    (scratch / "actionlint").rename(ready)
