"""Fingerprints of pod sets."""

import pytest

from numalign.core.cluster.publish.fingerprint import fingerprint, problem


def test_the_order_of_pods_does_not_matter_and_their_names_do():
    pods = [("default", "web-0"), ("default", "web-1"), ("kube-system", "coredns-abc")]
    assert fingerprint(pods) == "pfp0v001c9262dbd8419aed8"
    assert fingerprint(reversed(pods)) == "pfp0v001c9262dbd8419aed8"
    assert fingerprint(pods[:1]) == "pfp0v001d5676506abe7e28f"
    assert fingerprint([]) == "pfp0v001ef46db3751d8e999"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pfp0v001ef46db3751d8e999", None),
        ("pfp0v002ef46db3751d8e999", "of another version"),
        ("pfp1v001ef46db3751d8e999", "expected pfp0v001"),
        ("pfp0", "expected pfp0v001"),
    ],
)
def test_a_text_that_cannot_be_compared_is_told(text, words):
    found = problem(text)
    assert (found is None) == (words is None)
    assert words is None or words in found
