"""How the kernel writes numbers and sets in its files, and what we note where it does not.

A file that is missing gives None. A file whose text makes no sense gives None too, with a note,
because the rest of the machine may still be usable; the reader that cannot go on without the
value raises.
"""

from __future__ import annotations

import re
from typing import Final

from numalign.adapters.sources.filetree import FileTree
from numalign.core.values.sets import ID_MAX, format_list, parse_list

NOTES_MAX: Final = 50
_SPACE: Final = " \t\r\n\0"  # some files end in a zero byte
_SHOWN_CHARACTERS: Final = 40
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_HEX_NUMBER: Final = re.compile(r"(?:0x)?[0-9a-fA-F]{1,16}", re.ASCII)
_SIZE: Final = re.compile(r"([0-9]{1,15})([KMG]?)", re.ASCII)
_UNITS: Final = {"": 0, "K": 10, "M": 20, "G": 30}
_BITMAP: Final = re.compile(r"[0-9a-fA-F]{1,8}(?:,[0-9a-fA-F]{8})*", re.ASCII)
_BITMAP_CHARACTERS_MAX: Final = (ID_MAX + 1) // 32 * 9
_LIST_CHARACTERS_MAX: Final = (ID_MAX + 1) * 6


class Notes:
    """What the source lacked or contradicted. The same remark on many CPUs becomes one note."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self._by_cpu: dict[str, int] = {}

    def add(self, text: str) -> None:
        """Note a sentence once."""
        self._texts[text] = None

    def about_cpu(self, cpu: int, remark: str) -> None:
        """Note a remark on a CPU, to be told together with the others that it is true for."""
        self._by_cpu[remark] = self._by_cpu.get(remark, 0) | 1 << cpu

    def texts(self) -> tuple[str, ...]:
        """All notes; of very many only the first."""
        cpus = [f"{_cpus_text(mask)} {remark}" for remark, mask in self._by_cpu.items()]
        texts = [*cpus, *self._texts]
        if len(texts) > NOTES_MAX:
            more = len(texts) - NOTES_MAX
            texts = [*texts[:NOTES_MAX], f"and {more} more remarks of this kind"]
        return tuple(texts)


def _cpus_text(mask: int) -> str:
    return f"{'CPU' if mask.bit_count() == 1 else 'CPUs'} {format_list(mask)}:"


class SysfsText:
    def __init__(self, tree: FileTree, notes: Notes) -> None:
        self.tree = tree
        self.notes = notes

    def words(self, path: str) -> str | None:
        """The text of a file without the space around it; None where it is missing or empty."""
        text = self.tree.read(path)
        return None if text is None else text.strip(_SPACE) or None

    def number(self, path: str) -> int | None:
        text = self.words(path)
        if text is None or _NUMBER.fullmatch(text):
            return None if text is None else int(text)
        self._note_strange(path, text, "a number")
        return None

    def code(self, path: str) -> int | None:
        """The hexadecimal number in a file, as PCI ids are written."""
        text = self.words(path)
        if text is None or _HEX_NUMBER.fullmatch(text):
            return None if text is None else int(text, 16)
        self._note_strange(path, text, "a hexadecimal number")
        return None

    def size(self, path: str) -> int | None:
        """The number of bytes that a file names as 32K or 8M."""
        text = self.words(path)
        if text is None:
            return None
        match = _SIZE.fullmatch(text)
        if match is None:
            self._note_strange(path, text, "a size such as 32K")
            return None
        return int(match[1]) << _UNITS[match[2]]

    def numbers(self, path: str, count_max: int) -> list[int] | None:
        """The decimal numbers in a file, with spaces between them."""
        text = self.words(path)
        if text is None:
            return None
        parts = text.split()
        if len(parts) <= count_max and all(_NUMBER.fullmatch(part) for part in parts):
            return [int(part) for part in parts]
        self._note_strange(path, text, f"at most {count_max} numbers")
        return None

    def mask(self, *paths: str) -> int | None:
        """The set that the first of these files which is there names, as a list or a bitmap."""
        for path in paths:
            text = self.tree.read(path)
            if text is None:
                continue
            text = text.strip(_SPACE)
            found = list_mask(text) if _holds_list(path) else bitmap_mask(text)
            if found is None:
                self._note_strange(path, text, "a set of numbers")
            return found
        return None

    def _note_strange(self, path: str, text: str, expected: str) -> None:
        shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
        self.notes.add(f"{path} holds {shown!r}, which is not {expected}; left out")


def _holds_list(path: str) -> bool:
    # The names tell: core_cpus_list and online hold "0-3", core_cpus and cpumap "0000000f".
    return path.endswith(("list", "online", "possible", "present"))


def list_mask(text: str) -> int | None:
    """The set in the kernel's list format; None where the text is not one."""
    if len(text) > _LIST_CHARACTERS_MAX:
        return None
    try:
        return parse_list(text)
    except ValueError:
        return None


def bitmap_mask(text: str) -> int | None:
    """The set in the kernel's bitmap format, groups of 32 bits; None where the text is not one."""
    if len(text) > _BITMAP_CHARACTERS_MAX or not _BITMAP.fullmatch(text):
        return None
    return int(text.replace(",", ""), 16)
