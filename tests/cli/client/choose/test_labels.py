"""Label selectors, as Kubernetes understands them."""

import pytest

from numalign.cli.client.choose.labels import selector_of
from numalign.core.errors import ConfigError

LABELS = {"app": "web", "tier": "front", "app.kubernetes.io/name": "x"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("app=web", True),
        ("app==web", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("none!=x", True),
        ("app", True),
        ("none", False),
        ("!none", True),
        ("!app", False),
        ("app in (db, web)", True),
        ("app in (db)", False),
        ("app notin (db,x)", True),
        ("none notin (x)", True),
        ("app notin (web)", False),
        ("app=web,tier in (front,back),!none", True),
        ("app=web,tier=back", False),
        ("app.kubernetes.io/name=x", True),
        ("app=", False),
    ],
)
def test_a_selector_matches_as_in_kubernetes(text, matches):
    assert selector_of(text).matches(LABELS) is matches


def test_pods_without_labels_match_only_what_is_absent():
    assert selector_of("!app").matches(None)
    assert not selector_of("app").matches(None)


@pytest.mark.parametrize("text", ["", "app=web,", "app in web", "=x", "a=b=c", "a>1", "(a)"])
def test_what_is_no_selector_is_refused(text):
    with pytest.raises(ConfigError, match="expected KEY=VALUE"):
        selector_of(text)
