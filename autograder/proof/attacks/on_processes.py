"""Declare attempts to start processes, to reach other processes and to reach the network."""

from autograder.proof.attacks.attack import NONE, Attack

ON_PROCESSES = (
    Attack(
        "a fork bomb",
        "no process starts",
        """
        import os
        while True:
            if os.fork() == 0:
                print("GOT a child")
        """,
    ),
    Attack(
        "a thread bomb",
        "no thread starts",
        """
        import _thread, threading, time
        threading.stack_size(32 << 10)
        started = 0
        try:
            while started < 20_000:
                _thread.start_new_thread(time.sleep, (30,))
                started += 1
        except RuntimeError:
            pass
        if started:
            print("GOT", started, "threads")
        """,
    ),
    Attack(
        "a child that survives",
        "no process remains when the submission has ended",
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(3600)
        print("GOT a child")
        """,
    ),
    Attack(
        "runs programs",
        "no program runs",
        """
        import os, pty, subprocess, sys
        from _posixsubprocess import fork_exec as _fork_exec
        for run in (
            lambda: subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True).stdout or 1 / 0,
            lambda: subprocess.check_output("id", shell=True) or 1 / 0,
            lambda: _fork_exec([sys.executable], [b"true"]),
            lambda: os.posix_spawn("/bin/true", ["true"], {}),
            lambda: os.popen("id").read() or 1 / 0,
            lambda: pty.spawn("/bin/true"),
            lambda: 1 / (os.system("true") == 0),
        ):
            try:
                print("GOT", run())
            except Exception:
                pass
        """,
    ),
    Attack(
        "becomes another program",
        "no program is executed",
        "import os\nos.execv('/bin/sleep', ['sleep', '60'])",
    ),
    Attack(
        "signals the grader and everybody else",
        "no signal is sent",
        """
        import os, signal
        for aim in (lambda: os.kill(TARGET["pid"], 9), lambda: os.kill(os.getppid(), 9),
                    lambda: os.killpg(os.getpgid(os.getppid()), 9), lambda: os.kill(-1, 9),
                    lambda: signal.pidfd_send_signal(os.pidfd_open(TARGET["pid"]), 9)):
            try:
                print("GOT", aim())
            except OSError:
                pass
        """,
    ),
    Attack(
        "has signals sent by its files",
        "a file's owner cannot be set",
        """
        import fcntl, os, socket
        ours, theirs = socket.socketpair()
        fcntl.fcntl(ours, fcntl.F_SETOWN, TARGET["pid"])
        print("GOT", fcntl.fcntl(ours, fcntl.F_GETOWN))
        """,
    ),
    Attack(
        "takes the grader's processor time away",
        "limits and priorities of others cannot be set",
        """
        import os, resource
        for aim in (lambda: resource.prlimit(TARGET["pid"], resource.RLIMIT_CPU, (1, 1)),
                    lambda: os.setpriority(os.PRIO_PROCESS, TARGET["pid"], 19),
                    lambda: os.sched_setaffinity(TARGET["pid"], {0})):
            try:
                print("GOT", aim())
            except OSError:
                pass
        """,
    ),
    Attack(
        "attaches to the grader as a debugger",
        "it can read only its own memory",
        """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(0x4206, TARGET["pid"], None, None) == 0:
            print("GOT hold of it")
        """,
        remark="ctypes",
    ),
    Attack(
        "opens connections",
        "no socket is opened, by TCP, UDP, name or raw",
        """
        import socket
        for family, kind in ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM),
                             (socket.AF_INET6, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_STREAM),
                             (socket.AF_INET, socket.SOCK_RAW), (socket.AF_NETLINK, socket.SOCK_RAW)):
            try:
                print("GOT", socket.socket(family, kind))
            except OSError:
                pass
        """,
    ),
    Attack(
        "sends datagrams without opening a socket",
        "only a pair of stream sockets can be made, and it cannot send elsewhere",
        """
        import socket
        by_name = TARGET["socket"]
        for send in (lambda one: one.sendto(b"x", by_name), lambda one: one.sendmsg([b"x"], [], 0, by_name)):
            try:
                one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
                print("GOT", send(one))
            except OSError as error:
                if error.errno != 1:
                    print("GOT", error)
        """,
    ),
    Attack(
        "raises its own limits",
        "limits can only be lowered",
        """
        import resource
        for which in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
            try:
                resource.setrlimit(which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                print("GOT", which)
            except (ValueError, OSError):
                pass
        """,
    ),
    Attack(
        "becomes root in a name space of its own",
        "no name space is made",
        """
        import ctypes
        if ctypes.CDLL(None).unshare(0x10000000 | 0x00020000) == 0:
            print("GOT a name space")
        """,
        remark="ctypes",
    ),
    Attack(
        "ends the process inside its answer",
        "no points, and the report names the reason",
        answer="import os\ndef softmax(x, axis=-1):\n    os._exit(0)",
        points=NONE,
    ),
    Attack(
        "crashes inside its answer",
        "no points, and the report names the reason",
        answer="import ctypes\ndef softmax(x, axis=-1):\n    ctypes.string_at(1)",
        points=NONE,
        remark="ctypes",
    ),
)
