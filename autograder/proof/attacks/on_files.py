"""Declare attempts to read or change files of the machine."""

from autograder.proof.attacks.attack import Attack


def reading(name: str, path: str) -> Attack:
    """Return an attempt to read one file; `path` is an expression in Python."""
    return Attack(name, "the file cannot be opened", f'print("GOT", open({path}, "rb").read(40))')


ON_FILES = (
    reading("reads a secret of the grader", 'TARGET["secret"]'),
    reading("reads the gradebook", 'TARGET["gradebook"]'),
    reading("reads the solutions", 'TARGET["course"] + "/solutions/ch02_qkv/ch02_qkv.ipynb"'),
    reading("reads the hidden cases", 'TARGET["course"] + "/autograder/exercises/ch02_qkv/softmax.py"'),
    reading("reads the names of accounts", '"/etc/passwd"'),
    reading("reads the grader's environment", "f\"/proc/{TARGET['pid']}/environ\""),
    reading("reads the grader's memory", "f\"/proc/{TARGET['pid']}/mem\""),
    reading("reads its own memory map", '"/proc/self/maps"'),
    reading("goes through the root of a process", '"/proc/self/root" + TARGET["secret"]'),
    Attack(
        "imports the solutions",
        "the course's packages are not visible",
        """
        import sys
        sys.path.insert(0, TARGET["course"])
        sys.meta_path = [finder for finder in sys.meta_path if type(finder).__name__ != "Withhold"]
        sys.modules.pop("autograder", None)
        from autograder.exercises.ch02_qkv import softmax as declared
        print("GOT", declared)
        """,
        remark="sys.meta_path",
    ),
    Attack(
        "links to a secret, by name and by node",
        "the target of the link cannot be opened",
        """
        import os
        for link in (os.symlink, os.link):
            try:
                link(TARGET["secret"], link.__name__)
                print("GOT", open(link.__name__).read())
            except OSError:
                pass
        """,
    ),
    Attack(
        "looks through its open files",
        "only the wire and the null device are open",
        """
        import os, stat
        for number in range(1024):
            try:
                kind = os.fstat(number).st_mode
            except OSError:
                continue
            if not (stat.S_ISSOCK(kind) or stat.S_ISCHR(kind)):
                print("GOT", number, oct(kind))
        """,
        remark="os.fstat",
    ),
    Attack(
        "looks through its environment",
        "it does not name a file of the grader",
        """
        import os
        for name, value in os.environ.items():
            if any(word in value for word in ("gradebook", "solutions", TARGET["course"] + ":")):
                print("GOT", name, value)
        """,
    ),
    Attack(
        "looks for other submissions",
        "no folder of another submission is visible",
        """
        import glob, os
        for pattern in ("../*/*", "/tmp/*/*", os.path.dirname(TARGET["secret"]) + "/*", "/home/*/*"):
            for path in glob.glob(pattern):
                try:
                    if os.path.isfile(path) and "matplotlib" not in path:
                        print("GOT", path, open(path, "rb").read(20))
                except OSError:
                    pass
        """,
    ),
    Attack(
        "writes points into the gradebook",
        "the gradebook stays as it is",
        """
        import sqlite3
        book = sqlite3.connect(TARGET["gradebook"])
        book.execute("create table points (score)")
        book.commit()
        print("GOT", book)
        """,
    ),
    Attack(
        "changes files around it",
        "no file can be written, removed, emptied, moved or given to another owner",
        """
        import os, shutil
        for path in (TARGET["secret"], TARGET["gradebook"]):
            for change in (
                lambda: open(path, "w").write("changed"),
                lambda: open(path, "r+b").write(b"changed"),
                lambda: os.unlink(path),
                lambda: os.truncate(path, 0),
                lambda: os.rename(path, path + ".moved"),
                lambda: os.rename(path, "mine"),
                lambda: os.chmod(path, 0o777),
                lambda: os.chown(path, 1, 1),
                lambda: os.utime(path, (0, 0)),
                lambda: open(path + ".new", "w").write("new"),
                lambda: os.mkdir(path + ".folder"),
                lambda: shutil.rmtree(os.path.dirname(path)),
            ):
                try:
                    print("GOT", change())
                except OSError:
                    pass
        """,
    ),
    Attack(
        "leaves something for the next one",
        "outside of its home nothing can be written, and the home cannot be replaced",
        """
        import os
        os.makedirs("mine", exist_ok=True)
        for folder in ("..", "../..", "../matplotlib", "../matplotlib/stylelib", "../ipython"):
            for leave in (
                lambda: open(folder + "/left", "w").write("left"),
                lambda: os.mkdir(folder + "/left"),
                lambda: os.rename("mine", folder + "/mine"),
                lambda: os.symlink("/tmp", folder + "/link"),
            ):
                try:
                    print("GOT", leave(), folder)
                except OSError:
                    pass
        try:
            print("GOT", os.rename("../home", "../other"))
        except OSError:
            pass
        """,
    ),
    Attack(
        "finds a file of another submission",
        "the home is empty",
        """
        import os
        for folder in (".", ".."):
            try:
                print("GOT" if os.listdir(folder) else "", os.listdir(folder))
            except OSError:
                pass
        """,
    ),
    Attack(
        "plants a module for those who come later",
        "the libraries cannot be written to",
        """
        import numpy, os, sys
        for folder in (os.path.dirname(numpy.__file__), sys.prefix, "/tmp", "/usr/lib"):
            try:
                print("GOT", open(os.path.join(folder, "planted.py"), "w").write("print('planted')"))
            except OSError:
                pass
        """,
    ),
)
