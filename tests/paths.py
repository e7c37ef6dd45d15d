"""Where the tests find what lies outside their own folder."""

from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[1]
SOURCES: Final = CHECKOUT / "src"
DOCS: Final = CHECKOUT / "docs"
VECTORS: Final = CHECKOUT / "tests" / "vectors"
GOLDEN: Final = CHECKOUT / "tests" / "golden"
# A Go module: the managers of the published kubelet, to replay scenarios with and to measure.
MANAGERS: Final = CHECKOUT / "tests" / "real" / "managers"
# Inputs that are no part of the project; tests that want them skip where they are missing.
SHARED: Final = CHECKOUT.parent / "shared"
