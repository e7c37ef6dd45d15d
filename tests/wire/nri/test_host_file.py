"""The host file: a KubeletConfiguration with one key more."""

import pytest

from numalign.core.errors import ConfigError
from numalign.wire.nri.host_file import load

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def test_it_is_read_as_the_kubelets_file_with_our_key_beside():
    found = load(
        HEAD + 'cpuManagerPolicy: static\nnumalign: {annotationNamespaces: ["a", "b-*"]}\n'
    )
    assert found.kubelet.cpu_policy == "static"
    assert found.namespaces == ("a", "b-*")
    assert load(HEAD).namespaces == ("*",)
    assert load(HEAD + "numalign: {annotationNamespaces: []}").namespaces == ()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kind: Other", "kind: found"),
        (HEAD + "cpuManagerPolice: static", 'unknown field "cpuManagerPolice"'),
        (HEAD + "numalign: 3", "numalign: expected a map"),
        (HEAD + "numalign: {other: 1}", "unknown field 'other', expected annotationNamespaces"),
        (HEAD + "numalign: {annotationNamespaces: all}", "expected a list of namespaces"),
        ("{", "the kubelet configuration: "),
        ("- a", "expected a map"),
    ],
)
def test_what_is_wrong_is_said(text, sentence):
    with pytest.raises(ConfigError, match=sentence):
        load(text)
