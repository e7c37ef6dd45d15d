"""Small files that ask for much: each is refused, or read, within the same limits as any other."""

import bz2
import gzip
import io
import json
import lzma
import tarfile

from tests.adapters.sources.captures import sysfs_files, tar_bytes

from numalign.core.machine.synthetic import synthetic_machine


def bombs():
    """By name, for the parser of machine files."""
    return {
        "many empty members": lambda: _packed(_members(500_000)),
        "as many members as are allowed": lambda: _packed(_members(59_000)),
        "members of nothing but zeros": lambda: _packed(_members(16, size=15 << 20)),
        "one member of zeros": lambda: _packed(_members(1, size=63 << 20)),
        "deep names": lambda: _packed(_members(30_000, name="a/" * 45)),
        "long names": lambda: _packed(_members(50_000, name="n" * 900)),
        "a name without end": lambda: _packed(_members(1, name="n/" * (15 << 20))),
        "headers that announce headers": lambda: _packed(_chained(20_000)),
        "sparse members": lambda: _packed(_sparse(20_000)),
        "links in a circle": lambda: _packed(_links(20_000)),
        "zeros in xz": lambda: lzma.compress(bytes(200 << 20), preset=9),
        "zeros in bzip2": lambda: bz2.compress(bytes(200 << 20)),
        "many streams of gzip": lambda: gzip.compress(b"") * 100_000,
        "a megabyte of brackets": lambda: b"[" * (1 << 20),
        "braces": lambda: b'{"a":' * 200_000,
        "a long YAML": lambda: b"- {a: b, c: d}\n" * 500_000,
        "a YAML that is just short enough": lambda: b"- {a: b}\n" * 28_000,
        "a long XML": lambda: b"<topology version='2.0'>" + b"<object type='PU'/>" * 215_000,
        "a deep XML": lambda: b"<topology version='2.0'>" + b"<object type='Group'>" * 195_000,
        "a long JSON": lambda: b'{"apiVersion": [' + b"{}," * 1_390_000,
        "a huge number": lambda: b'{"topology": [{"node_id": ' + b"9" * 4_100_000 + b"}]}",
        "a wide list of CPUs": lambda: _with("sys/devices/system/cpu/online", "0-4294967295"),
        "many ranges": lambda: _with("sys/devices/system/cpu/online", "0," * 4_000_000),
        "a core of all CPUs": lambda: _machine(cores="0-65535"),
        "cores without number": lambda: _machine(cores=" ".join(map(str, range(60_000)))),
        "core ids without end": lambda: _machine(coreIds="0-65535 " * 25_000),
        "dies without end": lambda: _machine(dies=dict.fromkeys(range(10000), "0-65535")),
        "a shape of millions": lambda: b"64s:64n:4096c:8t",
    }


def _packed(data):
    return gzip.compress(data, 6)


def _members(count, *, size=0, name=""):
    found = io.BytesIO()
    content = bytes(size)
    with tarfile.open(fileobj=found, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for number in range(count):
            info = tarfile.TarInfo(f"sys/devices/system/cpu/{name}{number:06d}")
            info.size = size
            archive.addfile(info, io.BytesIO(content))
            archive.members.clear()
    return found.getvalue()


def _chained(count):
    """Headers for long names, each of which is followed by another one."""
    info = tarfile.TarInfo("././@LongLink")
    info.type = tarfile.GNUTYPE_LONGNAME
    info.size = 1
    return (info.tobuf(tarfile.GNU_FORMAT) + b"a".ljust(512, b"\0")) * count


def _sparse(count):
    info = tarfile.TarInfo("sys/devices/system/cpu/a")
    info.type = tarfile.GNUTYPE_SPARSE
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    head[386:410] = b"00000000000\0" + b"00000000000\0"
    head[483:495] = b"77777777777\0"
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) * count


def _links(count):
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w") as archive:
        for number in range(count):
            info = tarfile.TarInfo(f"sys/devices/system/cpu/cpu{number}")
            info.type, info.linkname = tarfile.SYMTYPE, f"cpu{(number + 1) % count}"
            archive.addfile(info)
    return found.getvalue()


def _machine(**socket):
    return json.dumps(
        {
            "apiVersion": "numalign.io/v1",
            "kind": "Machine",
            "sockets": [{"id": 0, "cores": "0 1 2 3", **socket}],
            "nodes": [{"id": 0, "cpus": "0-3", "memory": "4Gi"}],
        }
    ).encode()


def _with(path, text):
    return tar_bytes({**sysfs_files(synthetic_machine("1s:1n:2c")), path: text})
