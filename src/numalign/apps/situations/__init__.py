"""One host as it is or was, from whatever is known of it: files, a bundle, an agent, this host."""

from numalign.apps.situations.evidence import Evidence, Loaded
from numalign.apps.situations.loading import loaded
from numalign.apps.situations.sources import from_agent, from_bundle, from_files, situation

__all__ = [
    "Evidence",
    "Loaded",
    "from_agent",
    "from_bundle",
    "from_files",
    "loaded",
    "situation",
]
