# ruff: noqa: E501  (scripts are read best on one line)
"""What hostile code tries from inside the sandbox of ``--engine venv``: harmless scripts that print a word if they get out.

A probe prints ``CANARY`` and something, which it can only have read outside of its sandbox, or ``PWNED`` where it did
what it should not be able to. ``{names}`` are what the host has: see :class:`tests.integration.test_venv_hostile.Outside`.
"""

from __future__ import annotations

_CALL = "import ctypes; c = ctypes.CDLL(None, use_errno=True); r = {call}; print('PWNED' if r >= 0 else 'refused')"


def _call(call: str) -> str:
    return "python3 -c " + '"' + _CALL.format(call=call) + '"'


def _connects(family: str, address: str) -> str:
    return f"python3 -c \"import socket; s = socket.socket(socket.{family}); s.connect({address}); print('PWNED')\""


READS = {
    "file-of-the-host": "cat {outside}/canary",
    "file-by-proc-1-root": "cat /proc/1/root{outside}/canary",
    "file-by-proc-self-root": "cat /proc/self/root{outside}/canary",
    "file-by-proc-1-cwd": "cat /proc/1/cwd{outside}/canary",
    "file-by-dots": "cat ../../../../../..{outside}/canary",
    "file-by-link": "ln -s {outside}/canary l; cat l",
    "file-by-a-process-of-the-host": "cat /proc/{pid}/root{outside}/canary",
    "file-by-handles": "for fd in /proc/*/fd/*; do cat $fd{outside}/canary $fd/../canary; done",
    "variables-of-process-1": "tr '\\0' '\\n' < /proc/1/environ",
    "variables-of-any-process": "cat /proc/*/environ",
    "own-variables": "env",
    "ssh-agent-variable": 'test -z "$SSH_AUTH_SOCK" || echo PWNED',
    "runtime-folder-variable": 'test -z "$XDG_RUNTIME_DIR$DBUS_SESSION_BUS_ADDRESS" || echo PWNED',
    "shared-memory-file": "cat /dev/shm/{shm}",
    "shared-memory-of-system-v": "ipcs -m | grep {shm_key} && echo PWNED",
    "home-folders": "ls -A /home | grep -v '^repro$' && echo PWNED; cat /root/.ssh/* /root/.netrc /home/*/.netrc && echo PWNED",
    "shadow": "cat /etc/shadow && echo PWNED",
    "passwd-of-the-host": "grep -E '^(daemon|www-data|mail):' /etc/passwd && echo PWNED",
    "settings-of-pip": "cat /etc/pip.conf && echo PWNED",
    "settings-of-apt": "cat /etc/apt/auth.conf /etc/apt/sources.list /etc/apt/sources.list.d/* && echo PWNED",
    "keys-of-ssh": "cat /etc/ssh/* && echo PWNED",
    "private-keys-of-tls": "ls /etc/ssl/private && echo PWNED",
    "logs": "ls /var/log && echo PWNED",
    "folders-of-docker": "ls /var/lib/docker /etc/docker && echo PWNED",
    "run": "ls /run /var/run && echo PWNED",
    "other-places": "ls -d /boot /srv /mnt /media /var/spool /var/cache/apt && echo PWNED",
    "control-groups": "ls /sys/fs/cgroup && echo PWNED",
    "firmware": "ls /sys/firmware /sys/kernel /sys/class /sys/bus && echo PWNED",
    "memory-of-the-machine": "head -c 1 /dev/mem /dev/kmem /dev/port && echo PWNED",
    "memory-of-the-kernel": "head -c 1 /proc/kcore && echo PWNED",
    "log-of-the-kernel": "dmesg && echo PWNED; head -c 1 /dev/kmsg && echo PWNED",
    "disks": "ls /dev/vd* /dev/sd* /dev/nvme* /dev/loop* /dev/fuse /dev/kvm /dev/net/tun && echo PWNED",
    "keyring-listed": "grep {key} /proc/keys && echo PWNED",
    "keyring-searched": _call("c.syscall({sys_keyctl}, 10, -3, b'user', b'{key}', 0)"),
    "keyring-requested": _call("c.syscall({sys_request_key}, b'user', b'{key}', None, 0)"),
    "keyring-of-the-user": _call("c.syscall({sys_keyctl}, 0, -4, 0)"),
    "environments-of-others": "test $(ls {top}/environments | wc -l) -gt 1 && echo PWNED",
    "downloads-of-others": "ls {top}/pip && echo PWNED",
    "store": "ls {store} && echo PWNED",
}

CONNECTS = {
    "docker": _connects("AF_UNIX", "'/var/run/docker.sock'"),
    "docker-by-run": _connects("AF_UNIX", "'/run/docker.sock'"),
    "podman": _connects("AF_UNIX", "'/run/podman/podman.sock'"),
    "containerd": _connects("AF_UNIX", "'/run/containerd/containerd.sock'"),
    "agent-of-ssh": _connects("AF_UNIX", "'{outside}/agent'"),
    "agent-by-proc-1-root": _connects("AF_UNIX", "'/proc/1/root{outside}/agent'"),
    "session-bus": _connects("AF_UNIX", "'/run/user/0/bus'"),
    "system-bus": _connects("AF_UNIX", "'/run/dbus/system_bus_socket'"),
    "abstract-socket": _connects("AF_UNIX", "'\\0{abstract}'"),
    "abstract-datagram": 'python3 -c "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM);'
    " s.sendto(b'x', '\\0{abstract}-datagram'); print('PWNED')\"",
    "family-vsock": "python3 -c \"import socket; socket.socket(40); print('PWNED')\"",
    "family-alg": "python3 -c \"import socket; socket.socket(38, 5); print('PWNED')\"",
    "family-packet": "python3 -c \"import socket; socket.socket(17, 3); print('PWNED')\"",
}

LOOPBACK = {
    "server-on-loopback": _connects("AF_INET", "('127.0.0.1', {port})"),
    "devices": "tail -n +3 /proc/net/dev | grep -v lo: && echo PWNED",
}
"""Where there is no network."""

PROCESSES = {
    "signal-to-a-process": "kill -9 {pid} && echo PWNED",
    "signal-0": "kill -0 {pid} && echo PWNED",
    "ptrace": _call("c.ptrace(16, {pid}, None, None)"),
    "ptrace-of-process-1": _call("c.ptrace(16, 1, None, None)"),
    "memory-of-process-1": "head -c 1 /proc/1/mem && echo PWNED",
    "memory-of-a-process": "head -c 1 /proc/{pid}/mem && echo PWNED",
    "handle-of-a-process": _call("c.syscall(434, {pid}, 0)"),
    "limits-of-a-process": "prlimit --pid {pid} --nproc=1 && echo PWNED",
    "priority-of-a-process": "renice 19 -p {pid} && echo PWNED",
    "listed": "tr '\\0' ' ' < /proc/{pid}/cmdline | grep {word} && echo PWNED",
    "kill-process-1": "kill -9 1; :",
}

PRIVILEGES = {
    "capabilities": "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -v 0000000000000000 && echo PWNED",
    "groups": "test $(id -u) = {uid} && id -G | tr ' ' '\\n' | grep -vxE '{uid}|{gid}|65534' && echo PWNED",
    "new-privileges": "grep -q 'NoNewPrivs:.1' /proc/self/status || echo PWNED",
    "filter-of-calls": "grep -q 'Seccomp:.2' /proc/self/status || echo PWNED",
    "setuid-programs": "su -c 'echo PWNED' root < /dev/null; sudo -n echo PWNED; pkexec echo PWNED; newgrp root",
    "own-setuid-program": "cp /usr/bin/id s; chmod 4755 s; ./s -u | grep -vx {uid} && echo PWNED",
    "user-namespace": "unshare -U echo PWNED",
    "user-namespace-by-clone": _call("c.syscall({sys_unshare}, 0x10000000)"),
    "mount-namespace": "unshare -m echo PWNED",
    "namespaces-of-process-1": "nsenter -t 1 -a echo PWNED",
    "mount": "mkdir m; mount -t tmpfs none m && echo PWNED",
    "mount-by-call": _call("c.mount(b'none', b'/tmp', b'tmpfs', 0, None)"),
    "mount-by-the-new-call": _call("c.syscall(430, b'tmpfs', 0)"),
    "unmount": "umount /proc || umount -l /usr && echo PWNED",
    "remount": "mount -o remount,rw / && echo PWNED; mount -o remount,rw,bind /usr && echo PWNED",
    "chroot": "chroot / /bin/echo PWNED",
    "device-node": "mknod d b 259 0 && echo PWNED; mknod e c 1 1 && echo PWNED",
    "owner": "touch o; chown 1 o && echo PWNED",
    "host-name": "hostname pwned && echo PWNED",
    "clock": "date -s @$(date +%s) && echo PWNED",
    "kernel-module": "insmod /dev/null && echo PWNED; modprobe dummy && echo PWNED",
    "kernel-settings": "echo x > /proc/sys/kernel/hostname && echo PWNED; echo '|/x' > /proc/sys/kernel/core_pattern && echo PWNED",
    "kernel-keys": "echo h > /proc/sysrq-trigger && echo PWNED",
    "memory-priority": "echo -1000 > /proc/self/oom_score_adj && echo PWNED",
    "bpf": _call("c.syscall({sys_bpf}, 0, 0, 0)"),
    "perf": _call("c.syscall({sys_perf}, b'\\0' * 120, 0, -1, -1, 0)"),
    "userfaultfd": _call("c.syscall({sys_userfaultfd}, 1)"),
    "io-uring": _call("c.syscall(425, 1, b'\\0' * 120)"),
    "terminal-input": "python3 -c \"import fcntl, pty, os; m, s = pty.openpty(); fcntl.ioctl(s, 0x5412, b'x'); print('PWNED')\"",
    "controlling-terminal": "python3 -c \"open('/dev/tty'); print('PWNED')\"",
}

WRITES = {
    "outside": "echo pwned > {outside}/pwned",
    "outside-by-proc": "echo pwned > /proc/1/root{outside}/pwned; echo pwned > /proc/{pid}/root{outside}/pwned",
    "outside-by-link": "ln -sfn {outside} w; echo pwned > w/pwned",
    "outside-by-dots": "echo pwned > ../../../../..{outside}/pwned",
    "outside-by-hard-link": "ln {outside}/canary h && echo PWNED",
    "hard-link-to-the-system": "ln /usr/bin/env e && echo PWNED",
    "root-folder": "touch /pwned && echo PWNED",
    "system": "touch /usr/bin/pwned /usr/local/bin/pwned /etc/pwned /var/pwned /opt/pwned; for f in /usr /usr/local /etc /var /opt;"
    " do test -e $f/pwned -o -e $f/bin/pwned && echo PWNED; done",
    "devices": "touch /dev/pwned && echo PWNED",
    "system-python": "touch $(python3 -c 'import sysconfig; print(sysconfig.get_path(\"stdlib\"))')/pwned && echo PWNED",
    "sitecustomize-of-the-system": "touch /etc/python3/sitecustomize.py /usr/lib/python3/dist-packages/x.pth && echo PWNED",
    "interpreters-of-uv": "mkdir -p {top}/pythons/cpython-9/bin && echo pwned > {top}/pythons/cpython-9/bin/python3",
    "environments": "mkdir -p {top}/environments/pwned",
    "description-of-the-environment": "echo pwned > {top}/environments/{tag}/environment.json",
    "downloads": "mkdir -p {top}/pip/pwned",
    "store": "chmod 777 {store} && echo PWNED; touch {store}/pwned",
    "reprokit-itself": "touch {package}/pwned && echo PWNED",
}

ENVIRONMENT = {
    "sitecustomize": "echo > $VIRTUAL_ENV/lib/python3*/site-packages/sitecustomize.py && echo PWNED",
    "pth": "d=$(echo $VIRTUAL_ENV/lib/python3*/site-packages); echo > $d/x.pth && echo PWNED",
    "pyvenv-cfg": "echo home = /tmp > $VIRTUAL_ENV/pyvenv.cfg && echo PWNED",
    "python": "ln -sf /tmp/x $VIRTUAL_ENV/bin/python && echo PWNED",
    "new-program": "touch $VIRTUAL_ENV/bin/ls && echo PWNED",
    "mode": "chmod 777 $VIRTUAL_ENV && echo PWNED",
    "time": "touch $VIRTUAL_ENV && echo PWNED",
    "attributes": "setfattr -n user.x -v y $VIRTUAL_ENV && echo PWNED",
    "removal": "rm -rf $VIRTUAL_ENV/bin/python && echo PWNED",
    "rename": "mv $VIRTUAL_ENV /tmp/v && echo PWNED",
    "cover": "mount --bind /tmp $VIRTUAL_ENV && echo PWNED",
    "data-set": "touch data/set/pwned && echo PWNED; chmod 777 data/set && echo PWNED; ln data/set/one x && echo PWNED",
}
"""What a trial must not change of what other trials read."""
