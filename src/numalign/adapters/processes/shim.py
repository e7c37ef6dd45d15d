"""The supervisor of one container: a tiny process that outlives the agent.

Started as ``python -I -S -B shim.py DIRECTORY``, with the spec in ``DIRECTORY/spec`` (see
``process_records``), a locked file as descriptor 3 and a pipe to the agent as descriptor 1. The
lock lives exactly as long as this process, so whoever can take it knows that we are gone. It

1. forks, and the child waits; ``run.json`` (who we are, who the child is) is on the disk before the
   child may go on, so a crash at any point leaves a record that is true;
2. lets the child join its cgroups (or take its affinity and memory policy), give up the rights
   that it must not have (see ``confine``) and exec, without a shell; what goes wrong there ends in
   ``exit.json`` with code 125, 126 or 127 and a message;
3. copies stdout and stderr to the log in the format of the CRI
   (``2026-01-02T03:04:05.000000006Z stdout F text``), with rotation by size;
4. forwards signals, reaps all orphans of the container, kills what is left of it when its first
   process ends, and writes ``exit.json``.

``shim.py --exec DIRECTORY PID COMMAND...`` becomes one more process of a container that runs, with
just the rights of its first one: for probes and hooks.

One of these runs per container, so it imports next to nothing: of the C modules behind ``signal``
and ``ctypes`` it takes the bare ones, which saves 0.9 MB and 20 ms each time.
"""

import _signal  # type: ignore[import-not-found]  # the C half of signal has no stubs
import errno
import os
import select
import sys
import time

LOCK_FD = 3
READY_FD = 1
CODE_SETUP = 125  # the child could not be prepared
CODE_NOT_RUNNABLE = 126
CODE_NOT_FOUND = 127
LINE_BYTES_MAX = 16 * 1024  # a longer line is cut into parts, as containerd does
READ_BYTES = 64 * 1024
EXIT_BYTES = 1024  # kept free on the disk from the start, so that a full disk loses no exit code
MESSAGE_CHARS_MAX = 600
CLEAN_UP_SECONDS_MAX = 30.0
PATH_DEFAULT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Mode numbers of set_mempolicy(2), by the names that pods use.
MEMPOLICIES = {
    "preferred": 1,
    "bind": 2,
    "interleave": 3,
    "local": 4,
    "weighted-interleave": 6,
}
PR_SET_CHILD_SUBREAPER = 36
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261, "s390x": 270}
FORWARDED = ("SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2")

Spec = dict[str, list[str]]


def read_spec(directory: str) -> Spec:
    """The items of a spec by key; a key may come more than once."""
    spec: Spec = {}
    with open(directory + "/spec", "rb") as file:  # noqa: PTH123 pathlib costs 20 ms
        for item in os.fsdecode(file.read()).split("\0"):
            key, _, value = item.partition("=")
            spec.setdefault(key, []).append(value)
    return spec


def start_time(pid: int) -> int:
    """When a process started, in clock ticks after the boot: field 22 of its stat."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[19])


def save(
    directory: str, name: str, members: dict[str, int | str], *, durable: bool = False
) -> None:
    """Writes one flat JSON object so that it is there completely or not at all.

    Who runs is of no use after a power cut, so only how it ended must be durable.
    """
    parts = [
        f'"{key}":{value}' if isinstance(value, int) else f'"{key}":"{_json_text(value)}"'
        for key, value in members.items()
    ]
    data = ("{" + ",".join(parts) + "}").encode().ljust(EXIT_BYTES)
    path = f"{directory}/{name}"
    fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(fd, data, 0)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(path + ".tmp", path)  # noqa: PTH104
    if durable:
        fd = os.open(directory, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def _json_text(text: str) -> str:
    plain = "".join(c if " " <= c <= "~" else "?" for c in text[:MESSAGE_CHARS_MAX])
    return plain.replace("\\", "\\\\").replace('"', '\\"')


class Log:
    """A log file of bounded size: PATH is the newest part, PATH.1 the one before."""

    def __init__(self, path: str, bytes_max: int, files_max: int) -> None:
        self.path, self.bytes_max, self.files_max = path, bytes_max, files_max
        self.lost = 0
        self.rests = {"stdout": b"", "stderr": b""}
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self.fd = os.open(self.path, flags, 0o640)
        self.size = os.fstat(self.fd).st_size

    def add(self, stream: str, data: bytes) -> None:
        """Takes what a stream gave; no data means that it has ended."""
        *lines, rest = (self.rests[stream] + data).split(b"\n")
        parts = [(b"F", line) for line in lines]
        if not data and rest:
            parts, rest = [(b"F", rest)], b""
        while len(rest) >= LINE_BYTES_MAX:
            parts.append((b"P", rest[:LINE_BYTES_MAX]))
            rest = rest[LINE_BYTES_MAX:]
        self.rests[stream] = rest
        head = f"{now_text()} {stream} ".encode()
        chunk: list[bytes] = []
        size = 0
        for tag, line in parts:
            text = head + tag + b" " + line + b"\n"
            if self.size + size + len(text) > self.bytes_max:
                self._write(b"".join(chunk))
                self._rotate()
                chunk, size = [], 0
            chunk.append(text)
            size += len(text)
        self._write(b"".join(chunk))

    def _rotate(self) -> None:
        if not self.size:
            return
        try:
            for number in range(self.files_max - 2, 0, -1):
                with_number = f"{self.path}.{number}"
                if os.access(with_number, os.F_OK):
                    os.rename(with_number, f"{self.path}.{number + 1}")  # noqa: PTH104
            os.rename(self.path, self.path + ".1")  # noqa: PTH104
            os.close(self.fd)
            self._open()
        except OSError:
            os.ftruncate(self.fd, 0)  # a bound is a bound
            self.size = 0

    def _write(self, data: bytes) -> None:
        if self.lost and data:
            note = f"{now_text()} stderr F [numalign: {self.lost} bytes of output were lost]\n"
            data = note.encode() + data
        try:
            written = os.write(self.fd, data) if data else 0
        except OSError:
            written = 0
        self.size += written
        # A full disk must neither stop the container nor end us.
        self.lost = self.lost + len(data) - written if written < len(data) else 0


def now_text() -> str:
    """The time of now as RFC 3339 with nanoseconds."""
    seconds, nanos = divmod(time.time_ns(), 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanos:09}Z"


# The child, between fork and exec.


def become(spec: Spec, inside: int | None = None) -> tuple[int, str]:
    """Turns this process into the command; gives code and message when that fails.

    ``inside``: the first process of the container, for one that comes later.
    """
    step = "prepare"
    try:
        for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores these, and exec would keep that
            _signal.signal(getattr(_signal, name), _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
        for path in spec.get("join", []):
            step = f"join the cgroup {path}"
            write_whole(path, b"0")
        if "cpus" in spec:
            step = f"run on CPUs {spec['cpus'][0]}"
            os.sched_setaffinity(0, ids(spec["cpus"][0]))
        if "mempolicy" in spec:
            mode, nodes = spec["mempolicy"][0], spec["policy_nodes"][0]
            step = f"set the memory policy {mode} for NUMA nodes {nodes or 'of any kind'}"
            set_mempolicy(mode, nodes)
        elif "mems" in spec:
            step = f"take memory from NUMA nodes {spec['mems'][0]}"
            set_mempolicy("bind", spec["mems"][0])
        step = "confine it"
        confine_child(spec, inside)
        step = f"enter the working directory {spec['cwd'][0]}"
        os.chdir(spec["cwd"][0])
    except (OSError, ImportError, KeyError) as error:
        return CODE_SETUP, f"could not {step}: {error}"
    return execute(spec["argv"], dict(item.split("=", 1) for item in spec.get("env", [])))


def confine_child(spec: Spec, inside: int | None) -> None:
    """Namespaces and rights, for containers that ask for any: most need not load this."""
    if not {"uid", "keep", "no_new_privs", "host_name", "read_only_root", "mount_target"} & set(
        spec
    ):
        return
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))  # noqa: PTH100, PTH120
    import confine  # type: ignore[import-not-found] # noqa: PLC0415 it lies beside this program

    if inside is None:
        confine.enter(spec)
    else:
        confine.join(inside, spec)
    confine.give_up_rights(spec)


def execute(argv: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Runs a command, looked up in the PATH that it will have; returns only on failure."""
    places = [""] if "/" in argv[0] else env.get("PATH", PATH_DEFAULT).split(":")
    code, text = CODE_NOT_FOUND, f"{argv[0]}: command not found"
    for place in places:
        path = f"{place}/{argv[0]}" if place else argv[0]
        try:
            os.execve(path, argv, env)  # noqa: S606 no shell is what we want
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
                code, text = CODE_NOT_RUNNABLE, f"{path}: {error.strerror}"
            elif os.access(path, os.F_OK):
                text = f"{path}: it is there, but the interpreter or loader that it names is not"
    return code, text


def ids(text: str) -> list[int]:
    """The numbers of a kernel list text such as ``0-3,8``."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def set_mempolicy(mode: str, node_list: str) -> None:
    """Says from which NUMA nodes (a kernel list text) this process is to get its memory."""
    import ctypes  # noqa: PLC0415 only in the child, which is about to exec

    number = SET_MEMPOLICY[os.uname().machine]
    nodes = ids(node_list) if node_list else []
    size = max(nodes, default=0) // 64 + 1
    mask = (ctypes.c_ulong * size)()
    for node in nodes:
        mask[node // 64] |= 1 << node % 64
    libc = ctypes.CDLL(None, use_errno=True)
    # The kernel takes one bit less than it is told.
    count = ctypes.c_ulong(size * 64 + 1 if nodes else 0)
    if libc.syscall(number, MEMPOLICIES[mode], mask if nodes else None, count):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def write_whole(path: str, data: bytes) -> None:
    """Writes to a file of the kernel in one piece, so that its refusal is seen."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


# The supervisor.


def become_subreaper() -> None:
    """Makes orphans of the container our children, so that they can be found and reaped."""
    try:
        import _ctypes  # noqa: PLC0415 the bare module, without ctypes around it

        own = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None: what is loaded already
        call = _ctypes.dlsym(own, "prctl")
        _ctypes.call_function(call, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    except (ImportError, OSError, AttributeError):
        pass  # then orphans go to init; cgroups or the session still find them


def send_signal(pid: int, number: int) -> None:
    """Sends a signal to a process that may have ended meanwhile."""
    try:  # noqa: SIM105 contextlib is 2 ms more
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Supervisor:
    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.spec = read_spec(directory)
        self.child = 0
        self.status: int | None = None
        self.pending: list[int] = []

    def run(self) -> int:
        """Starts the child, stays with it, and gives the exit code."""
        become_subreaper()
        for path in self.spec.get("own", []):
            write_whole(path, b"0")
        log = Log(
            self.spec["log"][0],
            int(self.spec["log_bytes_max"][0]),
            int(self.spec["log_files_max"][0]),
        )
        save(self.directory, "exit.json.kept", {})
        for name in FORWARDED:
            _signal.signal(getattr(_signal, name), self.forward)
        streams, failed, child_fd = self.start()
        _signal.signal(_signal.SIGCHLD, self.reap)
        code, message = self.until_started(failed)
        self.follow(streams, log, child_fd)
        self.clean_up()
        self.reap()
        for fd, stream in streams.items():
            drain(fd, stream, log)
        return self.record_end(code, message)

    def start(self) -> tuple[dict[int, str], int, int]:
        """Forks the child; gives its streams, the pipe of its failure and a handle on it."""
        out, out_child = os.pipe()
        err, err_child = os.pipe()
        go_child, go = os.pipe()
        failed, failed_child = os.pipe()
        child = os.fork()
        if not child:
            os.close(go)
            self.in_child(go_child, out_child, err_child, failed_child)
        self.child = child
        for fd in (out_child, err_child, go_child, failed_child):
            os.close(fd)
        handle = os.pidfd_open(child)
        me = os.getpid()
        save(
            self.directory,
            "run.json",
            {
                "supervisor": me,
                "supervisor_start": start_time(me),
                "child": child,
                "child_start": start_time(child),
                "started_ns": time.time_ns(),
            },
        )
        os.write(go, b"g")
        os.close(go)
        for number in self.pending:
            self.forward(number, None)
        os.set_blocking(out, False)
        os.set_blocking(err, False)
        return {out: "stdout", err: "stderr"}, failed, handle

    def in_child(self, go: int, out: int, err: int, failed: int) -> None:
        """Never returns."""
        try:
            os.setsid()
            if not os.read(go, 1):
                os._exit(CODE_SETUP)  # the supervisor died before it could record us
            os.dup2(out, 1)
            os.dup2(err, 2)
            code, message = become(self.spec)
            os.write(failed, f"{code} {message}".encode(errors="replace"))
        finally:
            os._exit(CODE_SETUP)

    def until_started(self, failed: int) -> tuple[int, str]:
        """Waits for exec; gives the code and message of its failure, or 0 and nothing."""
        report = os.read(failed, 4096).decode(errors="replace")
        os.close(failed)
        try:  # noqa: SIM105
            os.write(READY_FD, (report or "ok").encode())
        except BrokenPipeError:
            pass  # the agent died meanwhile; its successor will find us
        os.dup2(0, READY_FD)
        if not report:
            return 0, ""
        code, _, message = report.partition(" ")
        return int(code), message

    def forward(self, number: int, _frame: object) -> None:
        """Hands a signal on to the first process of the container."""
        if not self.child:
            self.pending.append(number)
        elif self.status is None:
            send_signal(self.child, number)

    def reap(self, *_: object) -> bool:
        """Collects everything that has ended; whether there are children left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self.child:
                self.status = status

    def follow(self, streams: dict[int, str], log: Log, child_fd: int) -> None:
        """Copies output until the child ends."""
        poller = select.poll()
        for fd in (*streams, child_fd):
            poller.register(fd, select.POLLIN)
        self.reap()
        while self.status is None:
            for fd, _ in poller.poll():
                if fd == child_fd:
                    self.reap()
                elif not (data := os.read(fd, READ_BYTES)):
                    poller.unregister(fd)
                else:
                    log.add(streams[fd], data)

    def clean_up(self) -> None:
        """Kills what the first process of the container left behind."""
        deadline = time.monotonic() + CLEAN_UP_SECONDS_MAX
        pause = select.poll()
        while time.monotonic() < deadline:
            has_children = self.reap()
            rest = self.members() or (children() if has_children else [])
            if not rest:
                return
            for pid in rest:
                send_signal(pid, _signal.SIGKILL)
            pause.poll(2)

    def members(self) -> list[int]:
        """The processes in the container's cgroups, and in those that it made below."""
        found: set[int] = set()
        for path in self.spec.get("join", []):
            for folder, _, _ in os.walk(os.path.dirname(path)):  # noqa: PTH120
                try:
                    with open(folder + "/cgroup.procs", "rb") as file:  # noqa: PTH123
                        found.update(int(line) for line in file)
                except OSError:
                    continue
        return [pid for pid in found if pid > 0]

    def record_end(self, code: int, message: str) -> int:
        """Writes the exit record and gives the code that this process ends with."""
        status = self.status or 0
        signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if not code:
            code = 128 + signal if signal else os.WEXITSTATUS(status)
        record: dict[str, int | str] = {
            "code": code,
            "signal": signal,
            "message": message,
            "finished_ns": time.time_ns(),
        }
        os.rename(f"{self.directory}/exit.json.kept", f"{self.directory}/exit.json.tmp")  # noqa: PTH104
        save(self.directory, "exit.json", record, durable=True)
        return code


def children() -> list[int]:
    """Our own children, which includes all orphans of the container."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid() and fields[0] != b"Z":
                found.append(int(name))
    return found


def drain(fd: int, stream: str, log: Log) -> None:
    """Copies what is still in a pipe whose writers are gone."""
    try:
        while data := os.read(fd, READ_BYTES):
            log.add(stream, data)
    except BlockingIOError:
        pass  # somebody escaped and still holds it
    log.add(stream, b"")


def close_inherited() -> None:
    """Closes what the agent did not mean for us, lest containers hold it open for ever."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) > LOCK_FD:
            try:  # noqa: SIM105
                os.close(int(name))
            except OSError:
                pass  # the one of the listing itself


def run_inside(directory: str, child: str, argv: list[str]) -> int:
    """Becomes one more process of a container; the code when that fails."""
    spec = {**read_spec(directory), "argv": argv}
    code, message = become(spec, int(child))
    os.write(2, message.encode(errors="replace"))
    return code


if __name__ == "__main__":
    if sys.argv[1] == "--exec":
        os._exit(run_inside(sys.argv[2], sys.argv[3], sys.argv[4:]))
    close_inherited()
    os.set_inheritable(LOCK_FD, False)  # noqa: FBT003 it takes no keyword
    os.setsid()
    os.chdir("/")
    sys.exit(Supervisor(sys.argv[1]).run())
