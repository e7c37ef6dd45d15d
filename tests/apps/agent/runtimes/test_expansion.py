"""$(NAME) replaced as Kubernetes does, and never without end."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.apps.agent.runtimes.environment import ValueSources
from numalign.apps.agent.runtimes.expansion import TEXT_BYTES_MAX, arguments, expanded
from numalign.core.errors import ConfigError
from numalign.wire.pods.records import ContainerRecord, EnvVar


def variables(given, items):
    """The environment of a container that takes nothing from elsewhere."""
    record = ContainerRecord("c", env=items)
    return ValueSources(None, None, {}).variables(None, record, given)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$(A)-$(B)", "1-2"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(C)", "$(C)"),
        ("$(A", "$(A"),
        ("a)$$(", "a)$("),
        ("$(A)$", "1$"),
        ("$", "$"),
        ("$()", "$()"),
        ("$($(A))", "$($(A))"),
    ],
)
def test_names_are_replaced_and_all_else_stays(text, found):
    assert expanded(text, {"A": "1", "B": "2"}, "command") == found


@given(st.text("$()AB", max_size=30))
def test_no_text_becomes_another_than_by_one_step_after_the_other(text):
    env = {"A": "1", "B": "$(A)"}
    assert expanded(text, env, "command") == slowly(text, env)


def slowly(text, env):
    out = ""
    while text:
        if text.startswith("$$"):
            out, text = out + "$", text[2:]
        elif text.startswith("$(") and ")" in text:
            name, _, rest = text[2:].partition(")")
            out, text = out + env.get(name, f"$({name})"), rest
        else:
            out, text = out + text[0], text[1:]
    return out


def test_a_text_that_grows_without_end_is_refused_before_it_is_built():
    items = [EnvVar("V0", "x" * 16)]
    items += [EnvVar(f"V{n}", f"$(V{n - 1})" * 4) for n in range(1, 30)]
    with pytest.raises(ConfigError, match=r"env V\d: found more than 131,071 bytes"):
        variables({}, items)
    fitting = variables({}, [EnvVar("A", "x" * TEXT_BYTES_MAX)])
    assert len(fitting["A"]) == TEXT_BYTES_MAX
    with pytest.raises(ConfigError, match="131,071"):
        variables({}, [EnvVar("A", "\u00e9" * (TEXT_BYTES_MAX // 2 + 1))])


def test_many_long_texts_are_refused_before_they_fill_the_memory():
    env = variables({}, [EnvVar("A", "x" * 100_000)])
    with pytest.raises(ConfigError, match="command: found more than 6 MiB"):
        arguments(["$(A)"] * 10_000, env)
    with pytest.raises(ConfigError, match="env: found more than 6 MiB"):
        variables(env, [EnvVar(f"B{n}", "$(A)") for n in range(10_000)])


def test_a_megabyte_of_brackets_that_never_close_takes_no_time():
    start = time.monotonic()
    with pytest.raises(ConfigError):
        expanded("$(" * 500_000, {}, "command")
    assert time.monotonic() - start < 2
