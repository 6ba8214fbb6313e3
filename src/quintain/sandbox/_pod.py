"""What stands beside a program in a pod: it starts the program, watches it, and tells the house what came of it.

The house sends this file as text to an interpreter inside (Python 3.8 or later; nothing else is imported), speaks to it
in frames (a letter, a length, the data), and hangs up when it wants no more. It is root in the pod and the program is
not, so that the program can neither end it nor speak in its name; it needs the capabilities SETUID, SETGID and KILL.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time
from typing import Any, NoReturn

HEAD = struct.Struct(">cI")
#: To the pod: what to do, a piece of stdin (or of a file), its end, a piece for the channel, its end.
ORDER, PIECE, PIECES_END, SAY, SAID = b"R", b"I", b"E", b"C", b"D"
#: From the pod: output, what the program says on the channel, its end, a result's bytes, the end of all.
OUT, ERR, HEARD, HEARD_END, RESULT, EXIT = b"o", b"e", b"c", b"d", b"r", b"x"
PRIVATE = "/run/quintain"  # a folder of the pod that only we may look into
AT_ONCE = 65_536
SWEEP_SECONDS = 10.0
DRAIN_SECONDS = 2.0


def send(letter: bytes, data: bytes) -> None:
    view = memoryview(HEAD.pack(letter, len(data)) + data)
    while view:
        view = view[os.write(1, view):]


class Letters:
    """Frames from the house, as they come."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.ended = False

    def read(self) -> None:
        got = os.read(0, AT_ONCE)
        self.data += got
        self.ended = not got

    def next(self) -> tuple[bytes, bytes] | None:
        """(letter, data), or None where no frame is whole."""
        if len(self.data) < HEAD.size:
            return None
        letter, size = HEAD.unpack_from(self.data)
        if len(self.data) < HEAD.size + size:
            return None
        body = bytes(self.data[HEAD.size:HEAD.size + size])
        del self.data[:HEAD.size + size]
        return letter, body

    def wait(self) -> tuple[bytes, bytes]:
        """The next frame; ends the process where the house has hung up."""
        while True:
            found = self.next()
            if found is not None:
                return found
            if self.ended:
                os._exit(0)
            self.read()


class Kept:
    """One stream of output: told as it comes where the house listens, else its first half, and its last at the end."""

    def __init__(self, letter: bytes, limit: int, streaming: bool) -> None:
        self.letter = letter
        self.count = 0
        self.streaming = streaming
        self.head = (limit + 1) // 2
        self.room = limit - self.head
        self.tail = bytearray()

    def take(self, data: bytes) -> None:
        self.count += len(data)
        if self.streaming:
            send(self.letter, data)
            return
        first, rest = data[:self.head], data[self.head:]
        if first:
            self.head -= len(first)
            send(self.letter, first)
        self.tail += rest
        if len(self.tail) > self.room:
            del self.tail[:len(self.tail) - self.room]

    def end(self) -> None:
        if self.tail:
            send(self.letter, bytes(self.tail))


def become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def confine() -> None:
    """No sockets but those of UNIX and the internet, no io_uring, no other calling convention: what a runtime's own
    filter may let through (AF_ALG, vsock, netlink). Raises OSError where the kernel takes no filter."""
    known = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
    if os.uname().machine not in known:
        raise OSError(errno.ENOSYS, "expected a pod on x86-64 or arm64")
    convention, socket_call = known[os.uname().machine]
    refuse, allow = 0x00050000, 0x7FFF0000
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    lines = [
        (load, 0, 0, 4), (equal, 0, 10, convention), (load, 0, 0, 0), (at_least, 7, 0, 0x40000000), (equal, 6, 0, 425),
        (equal, 0, 7, socket_call), (load, 0, 0, 16), (equal, 5, 0, socket.AF_UNIX), (equal, 4, 0, socket.AF_INET),
        (equal, 3, 0, socket.AF_INET6), (give, 0, 0, refuse | errno.EAFNOSUPPORT), (give, 0, 0, refuse | errno.ENOSYS),
        (give, 0, 0, refuse | errno.EPERM), (give, 0, 0, allow),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel takes no system-call filter")


def sweep(user: int) -> None:
    """Kill whatever the user runs, and bury it; what leaves its parent becomes our child, so nothing is overlooked."""
    until = time.monotonic() + SWEEP_SECONDS
    while time.monotonic() < until:
        killer = os.fork()
        if not killer:
            try:
                become(user)
                os.kill(-1, signal.SIGKILL)
            finally:
                os._exit(0)
        try:
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    time.sleep(0.002)
                    if time.monotonic() >= until:
                        return
                elif pid == killer:
                    break
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return  # there is nobody left


def oom_kills() -> int | None:
    """How often the kernel has killed in this pod for memory; None where it does not tell."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path) as file:
                for line in file:
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        except (OSError, ValueError):
            continue
    return None


class Run:
    """One program, from its start to the end of all that it started."""

    def __init__(self, order: dict[str, Any], letters: Letters) -> None:
        self.order = order
        self.letters = letters
        self.user = int(order["user"])
        self.status = 0
        self.over = False
        self.timed_out = False
        self.input = bytearray()
        self.input_ends = False
        self.said = bytearray()
        self.said_ends = False
        self.before = oom_kills()
        self.streams: dict[int, Kept] = {}
        self.closed: list[Kept] = []
        self.channel: socket.socket | None = None
        self.stdin = -1

    def start(self) -> int:
        """The error number where it could not be started, else 0."""
        spare = [os.open("/dev/null", os.O_RDONLY) for _ in range(10)]  # ours begin behind what the child will use
        into, self.stdin = os.pipe()
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        failed, failing = os.pipe()
        theirs: socket.socket | None = None
        if self.order["channel"]:
            self.channel, theirs = socket.socketpair()
            self.channel.setblocking(False)
        self.wake, waking = os.pipe()
        for fd in (self.stdin, self.wake, waking):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        self.began = time.monotonic()
        self.pid = os.fork()
        if not self.pid:
            self.exec([into, out_end, err_end] + ([theirs.fileno()] if theirs else []), failing)
        for fd in (into, out_end, err_end, failing, *spare):
            os.close(fd)
        if theirs is not None:
            theirs.close()
        said = os.read(failed, 4)
        os.close(failed)
        limit, streaming = int(self.order["output"]), bool(self.order["streaming"])
        self.streams = {out: Kept(OUT, limit, streaming), err: Kept(ERR, limit, streaming)}
        return int(struct.unpack(">i", said)[0]) if len(said) == 4 else 0

    def exec(self, ends: list[int], failing: int) -> NoReturn:
        try:
            os.setsid()
            for target, fd in enumerate(ends):
                os.dup2(fd, target)
            os.closerange(len(ends), failing)
            os.closerange(failing + 1, 4096)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            cpu = int(self.order["cpu"]) + 1
            for what, soft, hard in ((resource.RLIMIT_CORE, 0, 0), (resource.RLIMIT_NOFILE, 1024, 1024),
                                     (resource.RLIMIT_CPU, cpu, cpu + 1),
                                     (resource.RLIMIT_AS, self.order["memory"], self.order["memory"])):
                resource.setrlimit(what, (soft, hard))
            become(self.user)
            confine()
            os.umask(0o022)
            os.chdir(self.order["cwd"])
            os.execvpe(self.order["argv"][0], self.order["argv"], self.order["env"])
        except OSError as error:
            os.write(failing, struct.pack(">i", error.errno or errno.EIO))
        finally:
            os._exit(127)

    def play(self) -> None:
        error = self.start()
        deadline = self.began + self.order["wall"]
        while not self.over:
            left = deadline - time.monotonic()
            if left <= 0 or self.letters.ended:
                self.timed_out = left <= 0
                break
            self.turn(left)
        wall = time.monotonic() - self.began
        self.close_input()
        sweep(self.user)
        self.drain()
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        now = oom_kills()
        for kept in self.kept:
            kept.end()
        if self.channel is not None:
            send(HEARD_END, b"")
        send(EXIT, json.dumps({
            "status": self.status if self.over else signal.SIGKILL, "error": error, "timed_out": self.timed_out,
            "wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss * 1024,
            "out": self.kept[0].count, "err": self.kept[1].count,
            "oom": None if now is None or self.before is None else now - self.before,
        }).encode())

    def turn(self, seconds: float) -> None:
        """Whatever can be done now, or in a while."""
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        if not self.letters.ended:
            poll.register(0, select.POLLIN)
        for fd in self.streams:
            poll.register(fd, select.POLLIN)
        if self.stdin >= 0 and (self.input or self.input_ends):
            poll.register(self.stdin, select.POLLOUT)
        if self.channel is not None:
            poll.register(self.channel, select.POLLIN | (select.POLLOUT if self.said else 0))
        for fd, what in poll.poll(max(0.0, seconds) * 1000 + 1):
            if fd == self.wake:
                os.read(fd, AT_ONCE)
                self.bury()
            elif fd == 0:
                self.letters.read()
                self.take()
            elif fd in self.streams:
                self.hear(fd)
            elif fd == self.stdin:
                self.feed(what)
            elif self.channel is not None:
                self.talk(what)

    def bury(self) -> None:
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if pid == self.pid:
                    self.status, self.over = status, True
        except ChildProcessError:
            return

    def take(self) -> None:
        while True:
            found = self.letters.next()
            if found is None:
                return
            letter, data = found
            if letter == PIECE:
                self.input += data
            elif letter == PIECES_END:
                self.input_ends = True
            elif letter == SAY:
                self.said += data
            elif letter == SAID:
                self.said_ends = True
                self.hang_up()

    def hear(self, fd: int) -> None:
        data = os.read(fd, AT_ONCE)
        if data:
            self.streams[fd].take(data)
        else:
            os.close(fd)
            self.closed.append(self.streams.pop(fd))

    def feed(self, what: int) -> None:
        try:
            if what & (select.POLLERR | select.POLLHUP):
                raise BrokenPipeError
            del self.input[:os.write(self.stdin, self.input[:AT_ONCE])]
        except BlockingIOError:
            return
        except OSError:
            self.input.clear()
            self.input_ends = True
        if self.input_ends and not self.input:
            self.close_input()

    def close_input(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def talk(self, what: int) -> None:
        assert self.channel is not None
        try:
            if what & select.POLLOUT:
                del self.said[:self.channel.send(self.said[:AT_ONCE])]
                self.hang_up()
            if what & (select.POLLIN | select.POLLHUP):
                data = self.channel.recv(AT_ONCE)
                if data:
                    send(HEARD, data)
                    return
                raise ConnectionResetError
        except BlockingIOError:
            return
        except OSError:
            self.channel.close()
            self.channel = None
            send(HEARD_END, b"")

    def hang_up(self) -> None:
        """Once all that the house has said was passed on, and it says no more, the program sees the end of it."""
        if self.said_ends and not self.said and self.channel is not None:
            try:
                self.channel.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def drain(self) -> None:
        """What everybody said before the end: the pipes close when all are dead."""
        until = time.monotonic() + DRAIN_SECONDS
        while self.streams and time.monotonic() < until:
            poll = select.poll()
            for fd in self.streams:
                poll.register(fd, select.POLLIN)
            for fd, _ in poll.poll(50):
                self.hear(fd)
        while self.channel is not None:
            try:
                data = self.channel.recv(AT_ONCE)
            except OSError:
                break
            if not data:
                break
            send(HEARD, data)

    @property
    def kept(self) -> list[Kept]:
        """That of stdout, and that of stderr."""
        return sorted([*self.closed, *self.streams.values()], key=lambda one: one.letter == ERR)


def read_file(order: dict[str, Any], letters: Letters) -> bytes:
    fd = os.open(order["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "expected a regular file")
        data = file.read(order["most"] + 1)
    if len(data) > order["most"]:
        raise OSError(errno.EFBIG, f"expected at most {order['most']} bytes")
    return data


def write_files(order: dict[str, Any], letters: Letters) -> bytes:
    for path, mode, size in order["files"]:
        content = bytearray()
        while len(content) < size:
            _, data = letters.wait()
            content += data
        os.makedirs(os.path.dirname(os.path.join("/work", path)), exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, mode)
        with open(fd, "wb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "expected a regular file")
            file.truncate(0)
            file.write(content)
            os.fchmod(fd, mode)
    return b""


def list_files(order: dict[str, Any], letters: Letters) -> bytes:
    found = []

    def look(folder: str, depth: int) -> None:
        for entry in sorted(os.scandir(folder), key=lambda one: one.name):
            what = entry.stat(follow_symlinks=False)
            kind = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}.get(
                stat.S_IFMT(what.st_mode), "other")
            found.append([entry.path, kind, what.st_size, stat.S_IMODE(what.st_mode), what.st_mtime])
            if kind == "directory" and depth > 1:
                look(entry.path, depth - 1)

    look(os.path.normpath(os.path.join("/work", order["path"])), order["depth"])
    return json.dumps(found).encode()


def find_file(order: dict[str, Any], letters: Letters) -> bytes:
    os.stat(order["path"])
    return b""


def remove_file(order: dict[str, Any], letters: Letters) -> bytes:
    import shutil

    if os.path.isdir(order["path"]) and not os.path.islink(order["path"]):
        shutil.rmtree(order["path"])
    else:
        os.unlink(order["path"])
    return b""


def make_folder(order: dict[str, Any], letters: Letters) -> bytes:
    os.makedirs(order["path"], exist_ok=True)
    return b""


ACTS = {
    "read": read_file, "write": write_files, "list": list_files, "exists": find_file, "remove": remove_file,
    "make_dir": make_folder,
}


def serve(order: dict[str, Any], letters: Letters) -> None:
    """One act on files, as the program's user."""
    become(int(order["user"]))
    try:
        confine()
        os.chdir("/work")
        send(RESULT, ACTS[order["act"]](order, letters))
        send(EXIT, json.dumps({"error": 0}).encode())
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else errno.EINVAL
        send(EXIT, json.dumps({"error": number or errno.EIO, "text": str(error)}).encode())


def main() -> None:
    letters = Letters()
    _, data = letters.wait()
    order = json.loads(data)
    if os.geteuid() != 0:
        sys.exit(f"expected to be root in the pod, found user {os.geteuid()}: the pod must not run as another user")
    os.chmod(PRIVATE, 0o700)
    lock = os.open(f"{PRIVATE}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # one at a time: what one leaves behind is killed by its user
    if order["act"] != "run":
        serve(order, letters)
        return
    if ctypes.CDLL(None).prctl(36, 1, 0, 0, 0):  # PR_SET_CHILD_SUBREAPER
        sys.exit("expected to become the reaper of orphans (prctl), found that the kernel refuses")
    run = Run(order, letters)
    run.take()
    run.play()


if __name__ == "__main__":
    main()
