"""A tree of files that remembers what was read from it, to be written down as a capture."""

from __future__ import annotations

from numalign.adapters.sources.filetree import FileTree


class RecordingTree:
    """Passes everything on to another tree and keeps what it answered."""

    def __init__(self, inner: FileTree) -> None:
        self._inner = inner
        self._texts: dict[str, str] = {}
        self._seen: set[str] = set()  # names that were listed or found to exist

    @property
    def source(self) -> str:
        return self._inner.source

    def read(self, path: str) -> str | None:
        text = self._inner.read(path)
        if text is not None:
            self._texts[path] = text
        return text

    def names(self, path: str) -> list[str]:
        names = self._inner.names(path)
        self._seen.update(f"{path}/{name}" for name in names)
        return names

    def exists(self, path: str) -> bool:
        found = self._inner.exists(path)
        if found:
            self._seen.add(path)
        return found

    def files(self) -> dict[str, str]:
        """Files that give a reader the same answers; empty ones for names alone."""
        directories = {
            path[:end]
            for path in [*self._texts, *self._seen]
            for end in (i for i, letter in enumerate(path) if letter == "/")
        }
        bare = self._seen - self._texts.keys() - directories
        return self._texts | dict.fromkeys(bare, "")
