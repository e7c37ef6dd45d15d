"""The files of the agent's directory of manifests as rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from numalign.cli.client.formats.tables import Column


def manifest_records(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One record for each file, after one for the directory if that itself has a problem."""
    whole = {"file": answer["directory"], "pods": [], "problem": answer["problem"]}
    files = [{"problem": "", **item} for item in answer["items"]]
    return [whole, *files] if answer["problem"] else files


def _pods(record: Mapping[str, Any]) -> str:
    names = [f"{pod['namespace']}/{pod['name']}" for pod in record["pods"]]
    return " ".join(names) or "-"


MANIFESTS: Final = (
    Column("FILE", lambda r: r["file"]),
    Column("STATUS", lambda r: "Failing" if r["problem"] else "Taken"),
    Column("PODS", _pods, flexible=True),
    Column("PROBLEM", lambda r: r["problem"] or "-", flexible=True),
)
