"""Why a text is no JSON, in the words of Go's encoding/json.

Reading itself is left to Python's parser. Only when that one refuses a text do we walk through
it once more, byte by byte and without recursion, to say what the kubelet would say.
"""

from __future__ import annotations

from typing import Final

from numalign.core.gotext import quoted

DEPTH_MAX: Final = 10_000  # Go's own limit of nesting
END_OF_INPUT: Final = "unexpected end of JSON input"

_SPACE: Final = b" \t\r\n"
_DIGITS: Final = b"0123456789"
_HEX: Final = b"0123456789abcdefABCDEF"
_ESCAPED: Final = b'bfnrt\\/"'
_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}


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
        while True:
            if self._value(closers):
                continue
            if not self._after_value(closers):
                return

    def _value(self, closers: list[int]) -> bool:
        """Pass one scalar, or open a bracket; True when a value must follow at once."""
        byte = self._next_visible()
        if byte == ord("{"):
            self._open(closers, byte, ord("}"))
            if self._peek_visible() == ord("}"):
                return False
            self._key("looking for beginning of object key string")
            return True
        if byte == ord("["):
            self._open(closers, byte, ord("]"))
            return self._peek_visible() != ord("]")
        if byte == ord('"'):
            self._string()
        elif byte in _LITERALS:
            self._literal(_LITERALS[byte])
        elif byte == ord("-") or byte in _DIGITS:
            self._number(byte)
        else:
            self._refuse(byte, "looking for beginning of value")
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
                place = "object key:value pair" if is_object else "array element"
                self._refuse(byte, f"after {place}")
            if is_object:
                self._key("looking for beginning of object key string")
            return True
        while self.at < len(self.data):
            byte = self._next()
            if byte not in _SPACE:
                self._refuse(byte, "after top-level value")
        return False

    def _open(self, closers: list[int], byte: int, closer: int) -> None:
        if len(closers) >= DEPTH_MAX:
            self._refuse(byte, "exceeded max depth")
        closers.append(closer)

    def _key(self, place: str) -> None:
        byte = self._next_visible()
        if byte != ord('"'):
            self._refuse(byte, place)
        self._string()
        byte = self._next_visible()
        if byte != ord(":"):
            self._refuse(byte, "after object key")

    def _string(self) -> None:
        while (byte := self._next()) != ord('"'):
            if byte == ord("\\"):
                self._escape()
            elif byte < 0x20:
                self._refuse(byte, "in string literal")

    def _escape(self) -> None:
        byte = self._next()
        if byte == ord("u"):
            for _ in range(4):
                digit = self._next()
                if digit not in _HEX:
                    self._refuse(digit, "in \\u hexadecimal character escape")
        elif byte not in _ESCAPED:
            self._refuse(byte, "in string escape code")

    def _literal(self, word: bytes) -> None:
        for expected in word[1:]:
            byte = self._next()
            if byte != expected:
                self._refuse(byte, f"in literal {word.decode()} (expecting {chr(expected)!r})")

    def _number(self, first: int) -> None:
        if first == ord("-"):
            first = self._next()
            if first not in _DIGITS:
                self._refuse(first, "in numeric literal")
        if first != ord("0"):
            self._skip_digits()
        if self._peek() == ord("."):
            self.at += 1
            self._digits("after decimal point in numeric literal")
        if self._peek() in (ord("e"), ord("E")):
            self.at += 1
            if self._peek() in (ord("+"), ord("-")):
                self.at += 1
            self._digits("in exponent of numeric literal")

    def _digits(self, place: str) -> None:
        byte = self._next()
        if byte not in _DIGITS:
            self._refuse(byte, place)
        self._skip_digits()

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

    def _refuse(self, byte: int, place: str) -> None:
        raise _SyntaxFaultError(f"invalid character {_quoted_byte(byte)} {place}")


def _quoted_byte(byte: int) -> str:
    """A byte in single quotes; like Go we take it for the character of that number."""
    if byte == ord("'"):
        return "'\\''"
    if byte == ord('"'):
        return "'\"'"
    return f"'{quoted(chr(byte))[1:-1]}'"
