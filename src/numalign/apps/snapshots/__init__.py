"""One host as it is or was, from whatever is known of it: files, a bundle, an agent, this host."""

from numalign.apps.snapshots.inputs import Evidence, Loaded
from numalign.apps.snapshots.loading import loaded
from numalign.apps.snapshots.sources import from_agent, from_bundle, from_files, situation

__all__ = [
    "Evidence",
    "Loaded",
    "from_agent",
    "from_bundle",
    "from_files",
    "loaded",
    "situation",
]
