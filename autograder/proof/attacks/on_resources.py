"""Declare attempts to exhaust a resource: time, memory, disk, output, descriptors."""

from autograder.proof.attacks.attack import EITHER, NONE, Attack

ON_RESOURCES = (
    Attack("takes all memory", "an error at the limit", "hoard = [bytearray(64 << 20) for _ in range(9999)]"),
    Attack(
        "takes memory that is shared",
        "shared memory counts like other memory",
        "import mmap\nhoard = [mmap.mmap(-1, 256 << 20) for _ in range(99)]\nprint('GOT', len(hoard))",
    ),
    Attack(
        "keeps memory in files without a name",
        "no such file can be made",
        """
        import os
        held = [os.memfd_create(str(i)) for i in range(99)]
        print("GOT", held)
        """,
    ),
    Attack(
        "fills the disk with one file",
        "a file has a limit",
        """
        with open("large", "wb") as file:
            for _ in range(4096):
                file.write(bytes(1 << 20))
        print("GOT 4 GiB")
        """,
    ),
    Attack(
        "fills the disk with many files",
        "the home has a limit; its files are removed",
        """
        import time
        for i in range(200):
            with open(str(i), "wb") as file:
                file.write(bytes(60 << 20))
        time.sleep(1)
        print("GOT 12 GiB")
        """,
        points=EITHER,
    ),
    Attack(
        "makes files without end",
        "the home has a limit; its files are removed",
        """
        import itertools
        for i in itertools.count():
            open(str(i), "w").close()
        """,
        points=EITHER,
    ),
    Attack(
        "makes folders within folders",
        "the folders are removed, however deep",
        """
        import os
        for _ in range(3000):
            os.mkdir("deeper", 0o700)
            os.chdir("deeper")
        os.mkdir("shut", 0)
        """,
        points=EITHER,
    ),
    Attack(
        "takes all descriptors",
        "an error at the limit",
        "hoard = [open('/dev/null') for _ in range(100_000)]\nprint('GOT', len(hoard))",
    ),
    Attack("prints without end", "the output is cut", "while True:\n    print('x' * 10_000)"),
    Attack(
        "prints 60 MB",
        "the output is cut, the points stay",
        "print('x' * 60_000_000)",
    ),
    Attack(
        "shows a thousand pictures",
        "some pictures are kept",
        """
        from IPython.display import display
        for _ in range(1000):
            display("x" * 100_000)
        """,
    ),
    Attack(
        "shows more pictures than a verdict can hold",
        "pictures beyond the limit are left out",
        """
        import os
        from IPython.display import display
        for _ in range(20):
            display({"image/png": os.urandom(700_000).hex()}, raw=True)
        """,
        change=lambda notebook: notebook["cells"].__setitem__(slice(1, 2), [notebook["cells"][1]] * 4),
        points=EITHER,
    ),
    Attack(
        "is nested more deeply than can be read",
        "no other submission waits; the report names the reason",
        "if 0: pass\n" + "elif 0: pass\n" * 1500,
        points=NONE,
    ),
    Attack(
        "calls without end",
        "no other submission waits",
        "f = lambda: f\nf" + "()" * 600,
        points=EITHER,
    ),
    Attack("is too long to be read", "the cell is left out, the points stay", "a = 0\n" + "a\n" * 200_000),
    Attack("loops without end", "ended at the limit, the points stay", "while True: pass"),
    Attack("sleeps past the limit", "ended at the limit, the points stay", "import time; time.sleep(3600)"),
    Attack(
        "swallows every interrupt",
        "ended at the limit, and the report names the reason",
        """
        while True:
            try:
                while True:
                    sum(range(999))
            except BaseException:
                pass
        """,
        points=NONE,
    ),
    Attack(
        "switches its alarms off and sleeps",
        "ended from outside",
        """
        import signal, time
        for which in (signal.SIGALRM, signal.SIGPROF):
            signal.signal(which, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        time.sleep(3600)
        """,
        points=NONE,
    ),
    Attack(
        "ignores its alarms and the signal of its processor limit, and computes",
        "ended from outside",
        """
        import signal
        for which in (signal.SIGALRM, signal.SIGPROF, signal.SIGXCPU):
            signal.signal(which, signal.SIG_IGN)
        while True: pass
        """,
        points=NONE,
    ),
    Attack(
        "computes in one call of C",
        "ended at the limit",
        "sum(range(10**13))",
        points=NONE,
    ),
    Attack("recurses without end", "an error, the points stay", "def f(): return f()\nf()"),
    Attack(
        "recurses in C",
        "only its own process ends",
        """
        import sys
        sys.setrecursionlimit(10**9)
        def f(): return [f()]
        f()
        """,
        points=NONE,
    ),
    Attack(
        "never comes back from its answer",
        "no points, and the report names the reason",
        answer="def softmax(x, axis=-1):\n    while True: pass",
        points=NONE,
    ),
)
