"""``python -m numalign`` is the same as ``numalign``."""

from numalign.cli.main import run

run()
