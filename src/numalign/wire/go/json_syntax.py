"""Why a text is no JSON, in the words of Go's encoding/json.

Reading itself is left to Python's parser. Only when that one refuses a text do we walk through
it once more, byte by byte and without recursion, to say what the kubelet would say.

Go has two implementations of encoding/json with different words. These are the words of the
newer one, which made the reference records of the kubelets 1.36 and 1.37.
"""

from __future__ import annotations

from typing import Final, NoReturn

from numalign.core.values.gotext import quoted

DEPTH_MAX: Final = 10_000  # Go's own limit of nesting
TOO_DEEP: Final = "exceeded max depth"
END_OF_INPUT: Final = "unexpected end of JSON input"

_SPACE: Final = b" \t\r\n"
_DIGITS: Final = b"0123456789"
_HEX: Final = b"0123456789abcdefABCDEF"
_ESCAPED: Final = b'bfnrt\\/"'
_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_RUNE_BYTES_MAX: Final = 4
_HARD_TO_SEE: Final = " `\ufffd"


class _SyntaxFaultError(Exception):
    """Carries the text out of the walk."""


def fault_in(data: bytes) -> str | None:
    """Go's message for the first fault in a JSON text, or None where there is none."""
    try:
        _Walk(data).whole()
    except _SyntaxFaultError as fault:
        return str(fault)
    return None


class _Walk:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def whole(self) -> None:
        """Walk through one value and what encloses it, with our own stack of brackets."""
        closers: list[int] = []
        while self._value(closers) or self._after_value(closers):
            pass

    def _value(self, closers: list[int]) -> bool:
        """Pass one scalar, or open a bracket; True when a value must follow at once."""
        byte = self._next_visible()
        if byte == ord("{"):
            self._open(closers, ord("}"))
            if self._peek_visible() == ord("}"):
                return False
            self._key()
            return True
        if byte == ord("["):
            self._open(closers, ord("]"))
            return self._peek_visible() != ord("]")
        if byte == ord('"'):
            self._string()
        elif byte in _LITERALS:
            self._literal(_LITERALS[byte])
        elif byte == ord("-") or byte in _DIGITS:
            self._number(byte)
        else:
            self._refuse("looking for beginning of value")
        return False

    def _after_value(self, closers: list[int]) -> bool:
        """Pass closing brackets up to the next value; False at the end of the text."""
        while closers:
            byte = self._next_visible()
            if byte == closers[-1]:
                closers.pop()
                continue
            is_object = closers[-1] == ord("}")
            if byte != ord(","):
                self._refuse("after object key:value pair" if is_object else "after array element")
            if is_object:
                self._key()
            return True
        while self.at < len(self.data):
            if self._next() not in _SPACE:
                self._refuse("after top-level value")
        return False

    def _open(self, closers: list[int], closer: int) -> None:
        if len(closers) >= DEPTH_MAX:
            raise _SyntaxFaultError(TOO_DEEP)
        closers.append(closer)

    def _key(self) -> None:
        if self._next_visible() != ord('"'):
            self._refuse("looking for beginning of object key string")
        self._string()
        if self._next_visible() != ord(":"):
            self._refuse("after object key")

    def _string(self) -> None:
        while (byte := self._next()) != ord('"'):
            if byte == ord("\\"):
                self._escape()
            elif byte < 0x20:
                self._refuse("in string")

    def _escape(self) -> None:
        start = self.at - 1
        byte = self._next()
        if byte in _ESCAPED:
            return
        if byte != ord("u"):
            self._refuse_escape(self.data[start : self.at])
        digits = self.data[self.at : self.at + 4]
        if any(digit not in _HEX for digit in digits):
            self._refuse_escape(self.data[start : start + 6])
        for _ in range(4):
            self._next()

    def _literal(self, word: bytes) -> None:
        for expected in word[1:]:
            if self._next() != expected:
                self._refuse(f"in literal {word.decode()} (expecting {chr(expected)!r})")

    def _number(self, first: int) -> None:
        if first == ord("-"):
            first = self._digit()
        if first != ord("0"):
            self._skip_digits()
        if self._peek() == ord("."):
            self.at += 1
            self._digit()
            self._skip_digits()
        if self._peek() in (ord("e"), ord("E")):
            self.at += 1
            if self._peek() in (ord("+"), ord("-")):
                self.at += 1
            self._digit()
            self._skip_digits()

    def _digit(self) -> int:
        byte = self._next()
        if byte not in _DIGITS:
            self._refuse("in numeric literal")
        return byte

    def _skip_digits(self) -> None:
        while self._peek() in _DIGITS:
            self.at += 1

    def _peek(self) -> int:
        """The next byte, or a space at the end, which ends every number."""
        return self.data[self.at] if self.at < len(self.data) else ord(" ")

    def _next(self) -> int:
        if self.at >= len(self.data):
            raise _SyntaxFaultError(END_OF_INPUT)
        self.at += 1
        return self.data[self.at - 1]

    def _next_visible(self) -> int:
        byte = self._next()
        while byte in _SPACE:
            byte = self._next()
        return byte

    def _peek_visible(self) -> int:
        byte = self._next_visible()
        self.at -= 1
        return byte

    def _refuse(self, place: str) -> NoReturn:
        """Refuse the character that begins with the byte just passed."""
        start = self.at - 1
        character = _quoted_rune(self.data[start : start + _RUNE_BYTES_MAX])
        raise _SyntaxFaultError(f"invalid character '{character}' {place}")

    def _refuse_escape(self, sequence: bytes) -> NoReturn:
        raise _SyntaxFaultError(f"invalid escape sequence {_quoted_bytes(sequence)} in string")


def _quoted_rune(data: bytes) -> str:
    """The first character as Go shows it in single quotes; a byte that begins none as ``\\xff``."""
    for length in range(1, len(data) + 1):
        try:
            character = data[:length].decode()
        except UnicodeDecodeError:
            continue
        return {"'": "\\'", '"': '"'}.get(character) or quoted(character)[1:-1]
    return f"\\x{data[0]:02x}"


def _quoted_bytes(data: bytes) -> str:
    """The bytes in back quotes where all can be seen, else in double quotes with escapes."""
    text = data.decode(errors="surrogateescape")
    if all(char.isprintable() and char not in _HARD_TO_SEE for char in text):
        return f"`{text}`"
    shown = (
        f"\\x{ord(char) - 0xDC00:02x}" if "\udc80" <= char <= "\udcff" else quoted(char)[1:-1]
        for char in text
    )
    return f'"{"".join(shown)}"'
