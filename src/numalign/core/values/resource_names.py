"""Names of extended resources, as the kubelet checks them when a device plugin registers."""

from __future__ import annotations

import re
from typing import Final

_PREFIX_LENGTH_MAX: Final = 253
_QUOTA_PREFIX: Final = "requests."
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def is_extended(name: str) -> bool:
    """Whether a resource of this name can be offered by a device plugin.

    It must be qualified also with ``requests.`` before it, which is how quotas name it.
    """
    prefix, slash, rest = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith(_QUOTA_PREFIX):
        return False
    prefix = _QUOTA_PREFIX + prefix
    return (
        len(prefix) <= _PREFIX_LENGTH_MAX
        and _SUBDOMAIN.fullmatch(prefix) is not None
        and _NAME.fullmatch(rest) is not None
    )
