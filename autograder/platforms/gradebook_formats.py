"""Declare the tables in which platforms take grades back.

Each platform takes a file that it wrote itself, with a line for each student. `fill_gradebook` puts the
grades into it. No documentation says that Microsoft Teams or Google Classroom takes such a table; both take
points in the browser, or from a program through an interface of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from autograder.platforms.moodle_headings import headings


@dataclass(frozen=True)
class Platform:
    """The layout of a platform's table.

    Args:
        file: the table, and the way to download it.
        ids: the headings of columns that the school or the platform fills in to identify a student.
        names: the headings of names that people choose themselves; used only if no other column fits.
        numbered: the headings of `ids` whose values end in the platform's number of the student.
        position: the places of the ids, counted from 0, for headings in another language.
        grade: the headings of the column of grades; none if each assignment has a column with its name.
        title: the pattern of the heading of an assignment's column, with the groups ``title`` and ``most``.
        most: the headings of the column of the maximum points.
        most_line: the name in the line of the maximum points.
        open: the headings of the column that shows whether a grade can be changed.
        closed: the words there for a grade that cannot be changed.
        kept: the headings of the columns to send back besides the grades; by default all columns.
        keeps_last: send the last column back too, whatever its heading.
        set_too: the cells to set, by heading, in each line that gets a grade.
    """

    file: str
    ids: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    numbered: tuple[str, ...] = ()
    position: tuple[int, ...] = ()
    grade: tuple[str, ...] = ()
    title: str = r"(?P<title>.*)"
    most: tuple[str, ...] = ()
    most_line: str = ""
    open: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    keeps_last: bool = False
    set_too: tuple[tuple[str, str], ...] = ()


PLATFORMS = {
    # lib/gradebook_importer.rb of instructure/canvas-lms
    "canvas": Platform(
        file="the gradebook that Canvas exports (Grades, Export)",
        ids=("SIS Login ID", "SIS User ID", "Integration ID", "ID"),
        names=("Student", "FirstName", "LastName"),
        title=r"(?P<title>.*?)(?: \(\d+\))?",
        most_line="Points Possible",
        kept=(
            *("Student", "LastName", "FirstName", "ID", "SIS User ID", "SIS Login ID", "Integration ID"),
            *("Root Account", "Section"),
        ),
    ),
    # mod/assign/gradingtable.php and mod/assign/feedback/offline/importgradeslib.php of moodle/moodle
    "moodle": Platform(
        file="the grading worksheet of the assignment (View all submissions, Download grading worksheet)",
        ids=(*headings("identifier"), *headings("id number"), *headings("username"), *headings("email")),
        names=headings("full name"),
        numbered=headings("identifier"),
        position=(0,),
        grade=headings("grade"),
        most=headings("most"),
        open=headings("open"),
        closed=headings("no"),
    ),
    # Blackboard's help, "Work offline with grade data": the user name and the number after the bar count
    "blackboard": Platform(
        file="the gradebook that Blackboard downloads (Gradebook, Download; or Work Offline, Download)",
        ids=("Username", "Student ID"),
        names=("First Name", "Last Name"),
        position=(2, 3),
        title=r"(?P<title>.*?)(?: \[[^\[\]]*?(?P<most>\d+(?:[.,]\d+)?)[^\[\]]*\])?(?: ?\|\d+)?",
        kept=("Last Name", "First Name", "Username", "Student ID"),
    ),
    # D2L's help, "Importing grades"; its export writes # before ids and # into the last column
    "brightspace": Platform(
        file="the grades that Brightspace exports (Grades, Enter Grades, Export, as CSV with Points grade)",
        ids=("OrgDefinedId", "Org Defined ID", "Username", "Email"),
        names=("First Name", "Last Name"),
        position=(0,),
        title=r"(?P<title>.*?)(?: Points Grade)?(?: <[^<>]*MaxPoints:(?P<most>\d+(?:[.,]\d+)?)[^<>]*>)?",
        kept=("OrgDefinedId", "Org Defined ID", "Username"),
        keeps_last=True,
    ),
    # class.ilPluginExAssignmentStatusFile.php of ilifau/ExerciseStatusFile; ILIAS itself takes no grades
    "ilias": Platform(
        file="status.csv from the multi-feedback of ILIAS, which needs the plugin ExerciseStatusFile",
        ids=("login", "usr_id"),
        names=("firstname", "lastname"),
        grade=("mark",),
        set_too=(("update", "1"),),
    ),
    "table": Platform(file="a table with a line of headings and a line for each student"),
}
"""The platforms by name; ``table`` is any other table, whose columns are all named on the command line."""
