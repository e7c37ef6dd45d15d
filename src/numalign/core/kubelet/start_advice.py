"""What to do about those of the kubelet's texts that lead an operator the wrong way.

The texts themselves stay as they are: people search for them.
"""

from __future__ import annotations

import re
from typing import Final

_ADVICE: Final = (
    (
        re.compile(r"json: cannot unmarshal .*\bof type\b"),
        "The state file is damaged or of another version; the configuration is not at fault. Drain "
        "the host, move the file away and start again",
    ),
    (
        re.compile(r"unsupported on machines with more than \d+ NUMA Nodes"),
        "Set topologyManagerPolicyOptions: max-allowable-numa-nodes to the number of NUMA nodes of "
        "the machine, or topologyManagerPolicy: none, or have the firmware show fewer nodes (NPS, "
        "SNC)",
    ),
)


def advice_on(text: str) -> str:
    """What to do about a text of the kubelet; empty where the text says so itself."""
    return next((advice for pattern, advice in _ADVICE if pattern.search(text)), "")


def with_advice(text: str) -> str:
    """The text, followed by what to do where it misleads."""
    advice = advice_on(text)
    return f"{text.rstrip('.')}. {advice}." if advice else text
