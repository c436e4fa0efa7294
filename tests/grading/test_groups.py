"""Groups of a class get different variants or assignments, and are expected to hand in only those."""

import json
import shutil

import pytest
from classroom import FIRST, SECOND, new_class
from scratch import in_process, tree

from autograder.course.layout import Course
from autograder.course.lock import TABLES
from autograder.roster.people import Person, write


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = new_class(tmp_path_factory.mktemp("groups") / "course", {("ada", FIRST): 8, ("dan", SECOND): 8})
    groups = {"ada": ("Monday",), "bob": ("Monday",), "carl": ("Tuesday",), "dan": ("Thursday", "Monday")}
    write(Course.at(folder), [Person(name, name, "X", groups=names) for name, names in groups.items()])
    write(Course.at(folder), [Person("eve", "Eve", "X")])
    return folder


@pytest.fixture
def course(made, tmp_path):
    return shutil.copytree(made, tmp_path / "course")


def absent(course, assignment):
    (report,) = json.loads(in_process("report", assignment, "--json", cwd=course).stdout)
    return {person["student"] for person in report["without_points"]}


@pytest.mark.slow
def test_each_group_gets_its_variant(course):
    assert absent(course, FIRST) == {"bob", "carl", "dan", "eve"}
    done = in_process("group", FIRST, "Monday=front", "Tuesday=back", cwd=course)
    assert done.exit_code == 0, done.stderr
    assert (
        done.stdout
        == f"Monday: variants/front/{FIRST}, 3 students\nTuesday: variants/back/{FIRST}, 1 student\n"
    )
    assert "in none of these groups: eve" in done.stderr
    notebooks = [course / "variants" / name / FIRST / f"{FIRST}.ipynb" for name in ("front", "back")]
    texts = [path.read_text() for path in notebooks]
    assert all(texts)
    assert absent(course, FIRST) == {"bob", "carl", "dan"}
    assert in_process("group", FIRST, cwd=course).stdout == done.stdout
    assert in_process("group", FIRST, "--everybody", cwd=course).exit_code == 0
    assert absent(course, FIRST) == {"bob", "carl", "dan", "eve"}


@pytest.mark.slow
def test_groups_get_different_assignments(course):
    done = in_process("group", SECOND, "Thursday", "--json", cwd=course)
    assert json.loads(done.stdout)["students"] == {"Thursday": ["dan"]}
    assert (course / "notebooks" / SECOND / f"{SECOND}.ipynb").is_file()
    in_process("group", FIRST, "Monday=front", "Thursday=back", cwd=course)
    assert absent(course, SECOND) == set()
    again = in_process("group", FIRST, "Monday=front", "Thursday", cwd=course)
    assert f"Thursday no longer gets {FIRST} in the variant back" in again.stderr
    assert "Monday no longer" not in again.stderr
    in_process("group", FIRST, "Monday=front", "Thursday=back", cwd=course)
    shown = in_process("group", FIRST, cwd=course)
    assert "in several groups: dan" in shown.stderr
    assert (course / "groups.csv").read_text() == (
        f"group,assignment,variant\nThursday,{SECOND},\nMonday,{FIRST},front\nThursday,{FIRST},back\n"
    )


@pytest.mark.parametrize("group", ["Monday", "Monday=front"])
def test_nothing_is_released_where_the_tables_cannot_be_locked(course, group):
    (course / ".autograder" / TABLES).unlink(missing_ok=True)
    (course / ".autograder" / TABLES).mkdir()
    done = in_process("group", FIRST, group, cwd=course)
    assert (done.exit_code, "cannot be locked" in done.stderr) == (2, True)
    assert not (course / "notebooks").exists()
    assert not (course / "variants").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("Mondays",), "The groups are: Monday, Thursday, Tuesday"),
        (("Monday=../x",), "cannot be a variant's name"),
        (("Monday", "Monday=front"), "named twice"),
        (("Monday", "--everybody"), "takes no groups"),
    ],
)
def test_what_cannot_be_handed_out_is_refused(course, args, message):
    before = tree(course)
    done = in_process("group", FIRST, *args, cwd=course)
    assert done.exit_code == 2
    assert message in done.stderr
    assert tree(course) == before
