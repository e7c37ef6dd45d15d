"""What the child of a supervisor does to itself before it runs its command: namespaces and rights.

Loaded only by containers that ask for any of it, between fork and exec, beside the supervisor's
program. The order matters: mounts and names while we are still root, then what may never come back
is given away, and the user last.

Paths that a manifest names are looked up with the rights of who asked for it: the mount is made by
root, but nobody reaches through it what its own permissions would not let it reach.
"""

import ctypes
import os
import stat

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
MS_PRIVATE, MS_SLAVE = 1 << 18, 1 << 19
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
OPEN_TREE_CLONE = 1
MOVE_BOTH_EMPTY = 0x04 | 0x40
MOUNT_ATTR_RDONLY = 1
# The same numbers on every architecture.
SYS_OPEN_TREE, SYS_MOVE_MOUNT, SYS_MOUNT_SETATTR = 428, 429, 442
SYSTEM_CALLS = {428: "open_tree", 429: "move_mount", 442: "mount_setattr"}
PR_SET_KEEPCAPS, PR_CAPBSET_READ, PR_CAPBSET_DROP = 8, 23, 24
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 38, 47, 2
CAPABILITY_VERSION_3 = 0x20080522
CAPABILITIES_MAX = 64
# Of a read-only tree these stay writable, as in a container.
LIVE = ("/proc", "/dev")
KINDS = {
    "Directory": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}

Spec = dict[str, list[str]]


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def in_namespaces(spec: Spec) -> bool:
    return any(key in spec for key in ("host_name", "read_only_root", "mount_target"))


def enter(spec: Spec) -> None:
    """Makes the namespaces of a container and what is to be seen in them."""
    if not in_namespaces(spec):
        return
    libc = _libc()
    _checked(libc.unshare(CLONE_NEWNS | CLONE_NEWUTS), "unshare")
    # What is mounted on the host later is seen here too, and never the other way round.
    _set_attributes("/", _Attributes(propagation=MS_SLAVE))
    if "host_name" in spec:
        name = spec["host_name"][0].encode()
        _checked(libc.sethostname(name, len(name)), "sethostname")
    mounts = _mounts(spec)
    # Taken before the tree becomes read-only, since a mount is as writable as where it comes from.
    sources = [_cloned(mount, spec) for mount in mounts]
    targets = [_target(mount, source, spec) for mount, source in zip(mounts, sources, strict=True)]
    if "read_only_root" in spec:
        _set_attributes("/", _Attributes(set=MOUNT_ATTR_RDONLY))
        for path in LIVE:
            _set_attributes(path, _Attributes(clear=MOUNT_ATTR_RDONLY))
    for source, target in zip(sources, targets, strict=True):
        _move(source, target)


def join(pid: int, spec: Spec) -> None:
    """Enters the namespaces that the first process of a container has made."""
    if not in_namespaces(spec):
        return
    for name in ("uts", "mnt"):
        descriptor = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        _checked(_libc().setns(descriptor, 0), f"setns {name}")
        os.close(descriptor)


# Mounts.


def _mounts(spec: Spec) -> list[dict[str, str]]:
    keys = [f"mount_{name}" for name in ("source", "target", "flags", "kind")]
    rows = zip(*(spec.get(key, []) for key in keys), strict=True)
    return [dict(zip(keys, row, strict=True)) for row in rows]


class _As:
    """The rights of who asked, for as long as paths are looked up."""

    def __init__(self, spec: Spec, *, own: bool = False) -> None:
        self.asker = None if own or "asker" not in spec else ids(spec["asker"][0])

    def __enter__(self) -> None:
        if self.asker is not None:
            uid, gid, *groups = self.asker
            os.setgroups(groups)
            os.setegid(gid)
            os.seteuid(uid)

    def __exit__(self, *_: object) -> None:
        if self.asker is not None:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups([])


def ids(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _cloned(mount: dict[str, str], spec: Spec) -> int:
    """What a volume shows, as a mount that is nowhere yet."""
    path, kind = mount["mount_source"], mount["mount_kind"]
    with _As(spec, own="own" in mount["mount_flags"]):
        source = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if kind in KINDS and not KINDS[kind](os.fstat(source).st_mode):
        raise OSError(0, f"{path}: found something else, expected {kind}")
    flags = AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | os.O_CLOEXEC
    clone = _syscall(SYS_OPEN_TREE, ctypes.c_int(source), b"", ctypes.c_uint(flags))
    os.close(source)
    wanted = mount["mount_flags"].split(",")
    attributes = _Attributes(
        set=MOUNT_ATTR_RDONLY if "ro" in wanted else 0,
        propagation=MS_SLAVE if "slave" in wanted else MS_PRIVATE,
    )
    _set_attributes("", attributes, clone)
    return clone


def _target(mount: dict[str, str], source: int, spec: Spec) -> int:
    """Where a volume goes; made empty if nothing is there, with the rights of who asked."""
    path = mount["mount_target"]
    with _As(spec):
        if not os.access(path, os.F_OK, effective_ids=True):
            if stat.S_ISDIR(os.fstat(source).st_mode):
                os.makedirs(path, 0o755, exist_ok=True)  # noqa: PTH103 no pathlib here
            else:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _move(source: int, target: int) -> None:
    """Puts a mount in place, by descriptors alone: no path is looked up twice."""
    numbers = ctypes.c_int(source), b"", ctypes.c_int(target), b""
    _syscall(SYS_MOVE_MOUNT, *numbers, ctypes.c_uint(MOVE_BOTH_EMPTY))
    os.close(source)
    os.close(target)


class _Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def _set_attributes(path: str, attributes: _Attributes, at: int = AT_FDCWD) -> None:
    """Changes a mount and all below it."""
    flags = AT_RECURSIVE | (0 if path else AT_EMPTY_PATH)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    place = ctypes.c_int(at), os.fsencode(path), ctypes.c_uint(flags)
    _syscall(SYS_MOUNT_SETATTR, *place, ctypes.byref(attributes), size)


def _syscall(number: int, *arguments: object) -> int:
    found = _libc().syscall(ctypes.c_long(number), *arguments)
    return _checked(found, f"{SYSTEM_CALLS[number]} (needs Linux 5.12 or newer)")


# Rights.


def give_up_rights(spec: Spec) -> None:
    """Leaves this process with the user and capabilities that its container may have."""
    keep = int(spec["keep"][0], 16) if "keep" in spec else None
    ambient = int(spec["ambient"][0], 16) if "ambient" in spec else 0
    if keep is not None:
        for number in range(CAPABILITIES_MAX):
            is_there = _prctl(PR_CAPBSET_READ, number, may_fail=True) == 1
            if is_there and not keep >> number & 1:
                _prctl(PR_CAPBSET_DROP, number)
    if ambient:
        _prctl(PR_SET_KEEPCAPS, 1)
    if "uid" in spec:
        os.setgroups(ids(spec["groups"][0]))
        gid, uid = int(spec["gid"][0]), int(spec["uid"][0])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    if ambient:
        _set_capabilities(ambient)
        for number in range(CAPABILITIES_MAX):
            if ambient >> number & 1:
                _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number)
    elif keep is not None and os.geteuid() == 0:
        _set_capabilities(keep)
    if "no_new_privs" in spec:
        _prctl(PR_SET_NO_NEW_PRIVS, 1)


def _prctl(option: int, *values: int, may_fail: bool = False) -> int:
    numbers = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    found: int = _libc().prctl(ctypes.c_int(option), *numbers)
    return found if may_fail else _checked(found, f"prctl {option}")


def _set_capabilities(mask: int) -> None:
    """Has exactly these, also over exec."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = (ctypes.c_uint32 * 6)(low, low, low, high, high, high)
    _checked(_libc().capset(ctypes.byref(header), ctypes.byref(data)), "capset")
