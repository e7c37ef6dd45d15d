"""Bundles that are none: one clear error each, and no damage."""

import gzip
import io
import json
import random
import tarfile

import msgspec
import pytest

from numalign.adapters.sources.bundles import (
    bundle_from_bytes,
    holds_bundle,
    machine_of,
    read_bundle,
)
from numalign.adapters.sources.discovery import discover
from numalign.apps.snapshots.loading import loaded
from numalign.apps.snapshots.sources import inputs_in
from numalign.core.errors import DiscoveryError, NumalignError, WireError
from numalign.wire import bundle
from numalign.wire.bundle import About, Bundle, packed
from numalign.wire.machine.machine_yaml import to_json

MACHINE = discover("2s:1n:2c:2t")


def whole(**files) -> Bundle:
    about = About(created_at="2030-01-31T08:00:00Z", numalign="1", host="h")
    return Bundle(about, {bundle.MACHINE: to_json(MACHINE).encode(), **files})


def members(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {m.name: archive.extractfile(m).read() for m in archive}


def tar_of(files, links=()) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, target in links:
            info = tarfile.TarInfo(name)
            info.type = tarfile.SYMTYPE
            info.linkname = target
            archive.addfile(info)
    return stream.getvalue()


def about_changed(change) -> bytes:
    files = members(packed(whole()))
    about = json.loads(files[bundle.ABOUT])
    change(about)
    return tar_of({**files, bundle.ABOUT: json.dumps(about).encode()})


def test_what_is_packed_comes_out_again():
    found = bundle_from_bytes(packed(whole(**{"pods.json": bundle.pod_list(())})), "x")
    assert machine_of(found, "x") == MACHINE
    assert found.pods("x") == ()
    assert packed(found) == packed(whole(**{"pods.json": bundle.pod_list(())}))


def without(name):
    return lambda: tar_of({k: v for k, v in members(packed(whole())).items() if k != name})


def shortened():
    files = members(packed(whole()))
    return tar_of({**files, bundle.MACHINE: files[bundle.MACHINE][:-7]})


BAD = {
    "no tar": (lambda: b"hello", "found no tar archive"),
    "empty": (lambda: b"", "found no tar archive"),
    "cut short": (lambda: packed(whole())[:-20], "damaged compressed data"),
    "cut tar": (lambda: gzip.decompress(packed(whole()))[:3000], "damaged tar archive"),
    "out of it": (lambda: tar_of({"../../etc/passwd": b"x"}), "climbs out of the archive"),
    "from the root": (lambda: tar_of({"/etc/passwd": b"x"}), "climbs out of the archive"),
    "a link": (
        lambda: tar_of(members(packed(whole())), [("state/cpu_manager_state", "../capture.json")]),
        "found the link state/cpu_manager_state",
    ),
    "a link out": (
        lambda: tar_of(members(packed(whole())), [("pods.json", "/etc/passwd")]),
        "leads out of the tree",
    ),
    "no list": (without(bundle.ABOUT), "found no capture.json"),
    "no machine": (without(bundle.MACHINE), "found no machine.json, although"),
    "a short member": (shortened, "expected"),
    "a later version": (
        lambda: about_changed(lambda a: a.update(apiVersion="numalign.io/v2")),
        "found Capture of numalign.io/v2, expected Capture of numalign.io/v1",
    ),
    "another kind": (lambda: about_changed(lambda a: a.update(kind="Pod")), "found Pod of"),
    "an unknown key": (lambda: about_changed(lambda a: a.update(extra=1)), "unknown field `extra`"),
    "an unknown version": (
        lambda: about_changed(lambda a: a.update(kubernetes="1.12")),
        "kubernetes: found '1.12', expected 1.36 or 1.37",
    ),
    "no time": (lambda: about_changed(lambda a: a.pop("createdAt")), "missing required field"),
    "a list that is none": (lambda: tar_of({bundle.ABOUT: b"\xff{"}), "capture.json"),
    "members that are none": (
        lambda: about_changed(lambda a: a.update(members={})),
        "found neither kernel-files.json nor machine.json",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_bundle_is_one_clear_error(name):
    data, words = BAD[name][0](), BAD[name][1]
    with pytest.raises((WireError, DiscoveryError)) as caught:
        bundle_from_bytes(data, "bad.tar.gz")
    assert words in str(caught.value)
    assert str(caught.value).startswith("bad.tar.gz")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("member", ["pods.json", "pod-resources.json", "kubelet-config.json"])
@pytest.mark.parametrize("data", [b"", b"{", b'"x"', b'{"items": 3, "pods": 4}', b"\xff"])
def test_a_member_that_is_none_is_one_clear_error(member, data):
    found = bundle_from_bytes(packed(whole(**{member: data})), "x.tar.gz")
    with pytest.raises(NumalignError, match=member):
        inputs_in(found, "x.tar.gz")


def test_an_unknown_key_of_the_configuration_is_told():
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicyy": "static",
    }
    found = whole(**{bundle.CONFIG: bundle.document(config)})
    with pytest.raises(NumalignError, match='unknown field "cpuManagerPolicyy"'):
        inputs_in(found, "x")


@pytest.mark.parametrize("name", bundle.STATE_FILES)
def test_a_truncated_state_file_is_told_in_the_kubelets_words(name):
    found = whole(**{f"state/{name}": b'{"policyName":"static","defau'})
    with pytest.raises(WireError, match="unexpected end of JSON input"):
        loaded(inputs_in(found, "x"))


def test_flipped_bits_are_an_error_or_do_no_harm():
    rng = random.Random(5)
    state = b'{"policyName":"static","defaultCpuSet":"0-7","checksum":1}'
    good = gzip.decompress(packed(whole(**{"state/cpu_manager_state": state})))
    for _ in range(400):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            loaded(inputs_in(bundle_from_bytes(bytes(data), "x"), "x"))
        except NumalignError as error:
            assert str(error)


def test_a_directory_with_a_link_is_refused(tmp_path):
    for name, data in members(packed(whole())).items():
        (tmp_path / name).write_bytes(data)
    assert holds_bundle(tmp_path)
    assert machine_of(read_bundle(tmp_path), "x") == MACHINE
    (tmp_path / "pods.json").symlink_to("/etc/passwd")
    with pytest.raises(WireError, match="found a link"):
        read_bundle(tmp_path)


def test_the_list_of_members_says_what_is_in_it():
    about = json.loads(members(packed(whole()))[bundle.ABOUT])
    assert about["apiVersion"] == "numalign.io/v1"
    assert about["kind"] == "Capture"
    assert about["members"] == {bundle.MACHINE: len(to_json(MACHINE).encode())}
    assert set(about) == {f.encode_name for f in msgspec.structs.fields(About)}
