# Written for the Python that a distribution's gdb has, 3.6 and later: the rules for our own code do not hold here.
# ruff: noqa
# mypy: ignore-errors
"""Runs in a trial's container, in the Python that gdb brings: takes the stacks of what crashes, and of what hangs.

It seizes the trial's command, which waits stopped, and all that it starts. Programs are stopped for a moment where they
start a thread or a process or get a signal, and nowhere else. One that is about to be ended by a signal is held, its stacks
are taken, and that same signal ends it. A line on the standard input asks for the stacks of everything, three times.

What it prints is read by :mod:`reprokit.evidence.native`.
"""

import ctypes
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time

SEIZE, CONT, DETACH, INTERRUPT, LISTEN = 0x4206, 7, 17, 0x4207, 0x4208
OPTIONS = 0x02 | 0x04 | 0x08 | 0x10  # fork, vfork, clone, exec
ALL = 0x40000000  # __WALL: threads too
STOPPED = 128  # PTRACE_EVENT_STOP
FATAL = {signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS}
MOST_CRASHES = 3
MOST_PROCESSES = 12
MOST_THREADS = 64
MOST_BYTES = 48 * 1024
FRAMES = 60
ROUNDS = 3
WITHIN = 20.0  # seconds for one crash; symbols of a large framework take their time
HANG_WITHIN = 8.0  # seconds for all three rounds
FRAME = re.compile(r"Thread |#\d|    \S")
NATIVE = re.compile(r"(#\d+\s+0x([0-9a-f]+) in .*?)(?: from (/.*))?$")
MOST_MODULES = 32

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
libc.ptrace.restype = ctypes.c_long


class StacksRequested(Exception):
    """The host wants the stacks of everything."""


def say(text):
    """Write to the host, whole."""
    sys.__stdout__.write(text + "\n")
    sys.__stdout__.flush()


def ptrace(request, pid, data=0):
    """Whether it worked: a thread may be gone at any time."""
    return libc.ptrace(request, pid, None, data) == 0


def status(pid, name):
    """A field of /proc/PID/status, '' of a process that is gone."""
    try:
        with open("/proc/%d/status" % pid) as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith(name + ":")), "")
    except OSError:
        return ""


def processes():
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def of_the_trial(pid):
    """Whether a process lives, and was started by the container's first one and not from outside, as this one was."""
    if pid == 1 or not os.path.exists("/proc/%d/exe" % pid):
        return False
    while pid > 1:
        pid = int(status(pid, "PPid") or 0)
    return pid == 1


class Tracer:
    def __init__(self):
        self.threads = set()
        self.crashes = 0

    def seize(self, pid):
        if not ptrace(SEIZE, pid, OPTIONS):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self.threads.add(pid)
        os.kill(pid, signal.SIGCONT)

    def follow(self):
        """Let everything run until nothing is left."""
        while self.threads:
            try:
                pid, state = os.waitpid(-1, ALL)
            except ChildProcessError:
                return
            if not os.WIFSTOPPED(state):
                self.threads.discard(pid)
                continue
            self.threads.add(pid)
            event, number = state >> 16, os.WSTOPSIG(state)
            if event == STOPPED and number != signal.SIGTRAP:
                ptrace(LISTEN, pid)  # stopped as a shell stops a job, until it is continued
            elif event:
                ptrace(CONT, pid)
            elif number in FATAL and self.is_fatal(pid, number):
                self.crash(pid, number)
            else:
                ptrace(CONT, pid, number)

    def is_fatal(self, pid, number):
        bit = 1 << (number - 1)
        return not any(int(status(pid, name) or "0", 16) & bit for name in ("SigCgt", "SigIgn"))

    def crash(self, thread, number):
        self.crashes += 1
        if self.crashes > MOST_CRASHES:
            ptrace(CONT, thread, number)
            return
        process = int(status(thread, "Tgid") or thread)
        ptrace(DETACH, thread, signal.SIGSTOP)  # all threads of the process stop
        self.threads.discard(thread)
        self.release([one for one in self.threads_of(process) if one in self.threads])
        libc.syscall(234 if os.uname().machine == "x86_64" else 131, process, thread, int(number))  # tgkill: waits
        stacks(process, "at %s in thread %d" % (signal.Signals(number).name, thread), time.monotonic() + WITHIN, thread)
        os.kill(process, signal.SIGCONT)

    def threads_of(self, process):
        try:
            return [int(name) for name in os.listdir("/proc/%d/task" % process)]
        except OSError:
            return []

    def release(self, threads, ask=False):
        """Detach from threads, each as soon as it stops."""
        for one in threads:
            if ask:
                ptrace(INTERRUPT, one)
        left, until = set(threads), time.monotonic() + 2
        while left and time.monotonic() < until:
            for one in tuple(left):
                try:
                    found, state = os.waitpid(one, ALL | os.WNOHANG)
                except ChildProcessError:
                    found, state = one, 0
                if found:
                    given = os.WSTOPSIG(state) if os.WIFSTOPPED(state) and not state >> 16 else 0
                    ptrace(DETACH, one, given)
                    left.discard(one)
            time.sleep(0.001)
        for one in left:
            ptrace(DETACH, one)
        self.threads.difference_update(threads)

    def hang(self):
        """The stacks of everything, three times one second apart."""
        self.release(list(self.threads), ask=True)
        until = time.monotonic() + HANG_WITHIN
        for number in range(1, ROUNDS + 1):
            began = time.monotonic()
            shown = sorted(filter(of_the_trial, processes()), key=lambda pid: not is_python(pid))
            for process in shown[:MOST_PROCESSES]:
                if time.monotonic() < until:
                    stacks(process, "at the time limit, %d of %d" % (number, ROUNDS), until)
            if number < ROUNDS:
                time.sleep(max(0.0, min(1.0 - (time.monotonic() - began), until - time.monotonic())))


def environment():
    """Without what the case preloads: that is for its own programs."""
    own = {name: os.environ[name] for name in ("PATH", "LANG", "DEBUGINFOD_URLS") if name in os.environ}
    return {**own, "HOME": "/tmp"}


def output(command, until):
    """What a debugger prints, '' where it fails or takes too long."""
    left = until - time.monotonic()
    if left <= 0:
        return ""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            timeout=left,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def is_python(process):
    try:
        with open("/proc/%d/maps" % process, errors="replace") as file:
            return any("python" in line.rpartition("/")[2] for line in file)
    except OSError:
        return False


def stacks(process, when, until, thread=0):
    """Print the stacks of a process. ``thread``: the one that crashed, 0 = none: then of a Python its own are enough."""
    python, by, text = "", [], ""
    if is_python(process):
        # Of a stopped process py-spy reads Python's frames alone, and only if it need not stop it.
        python = output(
            ["py-spy", "dump", "--full-filenames", *(["--nonblocking"] if thread else []), "--pid", str(process)], until
        )
    if thread or "Thread " not in python:
        asked = ["set pagination off", "set print frame-arguments none", "set width 0"]
        asked += ["set print frame-info location-and-address", "thread apply all -s bt %d" % FRAMES]
        words = [word for one in asked for word in ("-ex", one)]
        text = output(["gdb", "-q", "-batch", "-nx", *words, "-p", str(process)], until)
    for name, found in (("gdb", text), ("py-spy", python)):
        by += [name] if "Thread " in found else []
    name = (status(process, "Name") or "?").replace("]", "?").replace(")", "?")
    say("[reprokit: stacks of process %d (%s) %s, by %s]" % (process, name, when, " and ".join(by) or "none"))
    for found in (text, python):
        if "Thread " in found:
            say(with_modules(process, bounded(found, thread)))
    say("[reprokit: end of stacks]")


def with_modules(process, text):
    """Stacks in which each native frame names its file, and of files with frames that have no name, how to find it:
    where the file lies in memory, and its build id.
    """
    places, lines, nameless = modules(process), [], []
    for line in text.splitlines():
        frame = NATIVE.match(line)
        path = frame and next((path for start, end, path, _ in places if start <= int(frame.group(2), 16) < end), "")
        if path:
            line = "%s from %s" % (frame.group(1), path)
            if " in ?? (" in line and path not in nameless:
                nameless.append(path)
        lines.append(line)
    for path in nameless[:MOST_MODULES]:
        shift, build = identity(process, min(base for _, _, name, base in places if name == path))
        if build:
            lines.append("[reprokit: module 0x%x %s %s]" % (shift, build, path))
    return "\n".join(lines)


def modules(process):
    """Start, end, path and start of the file, of each piece of a file that a process has in its memory."""
    found, bases = [], {}
    try:
        with open("/proc/%d/maps" % process, errors="replace") as file:
            for line in file:
                words = line.rstrip("\n").split(None, 5)
                if len(words) == 6 and words[5].startswith("/"):
                    start, end = (int(word, 16) for word in words[0].split("-"))
                    path = words[5].replace(" (deleted)", "")
                    found.append((start, end, path, bases.setdefault(path, start)))
    except (OSError, ValueError):
        pass
    return found


def identity(process, base):
    """How far from its own addresses a 64-bit ELF file lies in memory, and its build id, '' for one that has none."""
    try:
        with open("/proc/%d/mem" % process, "rb", 0) as memory:

            def read(at, size):
                memory.seek(at)
                return memory.read(size)

            head = read(base, 64)
            if head[:5] != b"\x7fELF\x02":
                return 0, ""
            table, size, count = struct.unpack_from("<Q", head, 32) + struct.unpack_from("<HH", head, 54)
            parts = [
                struct.unpack_from("<IIQQQQQQ", read(base + table + size * at, 56)) for at in range(min(count, 64))
            ]
            shift = base - min(one[3] & ~0xFFF for one in parts if one[0] == 1)
            for part in parts:
                note = read(shift + part[3], min(part[6], 4096)) if part[0] == 4 else b""
                while len(note) >= 12:
                    name, length, kind = struct.unpack_from("<III", note)
                    start = 12 + (name + 3 & ~3)
                    if kind == 3 and note[12 : 12 + name] == b"GNU\0":
                        return shift, "".join("%02x" % byte for byte in bytearray(note[start : start + length]))
                    note = note[start + (length + 3 & ~3) :]
    except (OSError, ValueError, OverflowError, struct.error):
        pass
    return 0, ""


def bounded(text, thread):
    """Stacks with so many threads, frames of each, and bytes at most; first of the thread that crashed."""
    threads = []
    for line in text.splitlines():
        if line.startswith("Thread "):
            threads.append([])
        if threads and FRAME.match(line) and len(threads[-1]) <= FRAMES:
            threads[-1].append(line[:400])
    mark = re.compile(r"\(LWP %d\)|^Thread %d " % (thread, thread))
    threads.sort(key=lambda lines: not mark.search(lines[0]))
    kept = "\n".join(line for lines in threads[:MOST_THREADS] for line in lines)
    if len(kept) > MOST_BYTES:
        kept = kept[:MOST_BYTES].rpartition("\n")[0]
    return kept + ("\n(%d threads, some are left out)" % len(threads) if len(threads) > MOST_THREADS else "")


def listen():
    """Wait in a thread for the host to ask."""
    if os.read(0, 1):
        os.kill(os.getpid(), signal.SIGUSR1)


def waiting():
    """The trial's command, which waits stopped below the container's first process."""
    return next((pid for pid in processes() if status(pid, "State")[:1] == "T" and status(pid, "PPid") == "1"), 0)


def asked(*_):
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    raise StacksRequested


def main():
    tracer = Tracer()
    signal.signal(signal.SIGUSR1, asked)
    try:
        threading.Thread(target=listen, daemon=True).start()
        try:
            tracer.seize(waiting())
            say("[reprokit: ready]")
            tracer.follow()
        except OSError as error:
            say("[reprokit: no stacks: ptrace is refused here: %s]" % error.strerror)
            os.kill(waiting(), signal.SIGCONT)
            signal.pause()
    except StacksRequested:
        tracer.hang()


if __name__ == "__main__":
    main()
    os._exit(0)
