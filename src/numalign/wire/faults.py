"""What msgspec raises for bytes that are not in the agreed form.

Beside its own errors, bytes that are no UTF-8 are a UnicodeDecodeError, and a text that is nested
deeper than Python's stack is a RecursionError. Whoever decodes catches all three.
"""

from __future__ import annotations

from typing import Final

import msgspec

DECODE_FAULTS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
