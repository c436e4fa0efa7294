"""An archive of each platform's shape, made as its documentation or its open source makes it."""

import re
import struct
import unicodedata
import zipfile
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

ZONE = ZoneInfo("Europe/Berlin")
"""Where the platforms of the tests are."""
LINK = '<meta http-equiv="Refresh" content="0; url=https://example.org/mine">'
"""As Canvas writes it: app/views/assignments/redirect_page.html.erb."""


@dataclass(frozen=True)
class Person:
    """A student as platforms know one."""

    first: str
    last: str
    login: str
    number: int

    @property
    def name(self):
        return f"{self.first} {self.last}"


@dataclass(frozen=True)
class Upload:
    """A file that a student handed in, or a link or a text in its place."""

    person: Person
    name: str
    data: str
    time: datetime
    late: bool = False
    instead: str = ""


@dataclass
class Made:
    """An archive: its files, the times of its entries, and who is who in it."""

    files: dict[str, str] = field(default_factory=dict)
    times: dict[str, datetime] = field(default_factory=dict)
    whose: dict[Person, str] = field(default_factory=dict)
    """The id under which each person's work has to be found."""

    def write(self, path, day=20):
        """Write the archive as it was downloaded on a day of March."""
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in self.files.items():
                info = zipfile.ZipInfo(name, (2026, 3, day, 12, 0, 0))
                if time := self.times.get(name):  # the extended timestamp of Info-ZIP
                    info.extra = struct.pack("<HHBi", 0x5455, 5, 1, int(time.timestamp()))
                archive.writestr(info, data)
        return path

    def unpack(self, folder):
        for name, data in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(data)
        return folder


def word(text):
    return re.sub(r"[^\w]", "", text)


def ascii_only(text):
    for umlaut, letters in zip("äöüßÄÖÜ", ("ae", "oe", "ue", "ss", "Ae", "Oe", "Ue"), strict=True):
        text = text.replace(umlaut, letters)
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def canvas(uploads, anonymous=False):
    """lib/content_zipper.rb of Canvas: add_submission, get_filename, add_upload_submission."""
    made = Made()
    for order, upload in enumerate(uploads, 7001):
        who = upload.person
        name = "" if anonymous else f"{word(f'{who.last}, {who.first}'.lower())}_"
        number = f"anon_{who.login[:3]}x{who.number}" if anonymous else who.number
        begin = f"{name}{'LATE_' * upload.late}{number}"
        if anonymous:
            begin = f"{'LATE_' * upload.late}{number}"
        tail = f"_{upload.instead}.html" if upload.instead else f"_{order}_{upload.name}"
        made.files[begin + tail] = LINK if upload.instead == "link" else upload.data
        made.whose[who] = f"{name}{number}"
    return made


def moodle(uploads, as_folders=True):
    """mod/assign/classes/downloader.php of Moodle: get_student_prefix, load_submissionplugin_filelist."""
    made = Made()
    for upload in uploads:
        who = upload.person
        begin = f"{who.name.replace('_', ' ')}_{who.number}_assignsubmission_"
        between = "/" if as_folders else "_"
        kind, name = ("onlinetext", "onlinetext.html") if upload.instead else ("file", upload.name)
        made.files[f"{begin}{kind}{between}{name}"] = upload.data
        made.whose[who] = f"{who.name}_{who.number}"
    return made


RECEIPT = """Name: {name} ({login})
Assignment: {title}
Date Submitted: {time:%A, %B %-d, %Y %-I:%M:%S %p} CET
Current Grade: Needs Grading

Submission Field:
{text}

Comments:
There are no student comments for this assignment.

Files:
\tOriginal filename: {file}
\tFilename: {path}
"""


def blackboard(uploads, title="Chapter 2_QKV", receipts=True):
    """README of github.com/kwurst/bb-file-cleanup; the receipt is in github.com/timdrysdale/gradex-cli."""
    made = Made()
    for upload in uploads:
        who, time = upload.person, upload.time.astimezone(ZONE)
        begin = f"{title}_{who.login}_attempt_{time:%Y-%m-%d-%H-%M-%S}"
        path = f"{begin}_{upload.name}"
        if not upload.instead:
            made.files[path] = upload.data
        if receipts or upload.instead:
            text = (
                upload.data
                if upload.instead
                else "There is no student submission text data for this assignment."
            )
            about = {"name": who.name, "login": who.login, "title": title, "time": time, "path": path}
            made.files[f"{begin}.txt"] = RECEIPT.format(**about, text=text, file=upload.name)
        made.whose[who] = who.login
    return made


def brightspace(uploads, as_folders=True):
    """README of github.com/cgmb/d2lmf and github.com/OfficeCoffee/GradingFileProject, Grader.py."""
    made = Made({"Chapter 2/index.html": "<html></html>"})
    for upload in uploads:
        who, time = upload.person, upload.time.astimezone(ZONE)
        clock = f"{time:%b %-d, %Y %-I%M %p}"
        begin = f"Chapter 2/{who.number}-640693 - {who.name} - {clock}"
        made.files[f"{begin}{'/' if as_folders else ' - '}{upload.name}"] = upload.data
        made.whose[who] = f"{who.name}_{who.number}"
    return made


def gradescope(uploads):
    """The export of an assignment's submissions, with its list in YAML."""
    made, listed = Made(), {}
    for upload in uploads:
        who = upload.person
        made.files[f"export/submission_{who.number}/{upload.name}"] = upload.data
        listed[who] = (
            f"submission_{who.number}:\n  :submitters:\n  - :name: {who.name!r}\n    :sid: {who.login!r}\n"
            f"    :email: x@example.org\n  :created_at: {upload.time:%Y-%m-%d %H:%M:%S}.000000000 Z\n"
        )
        made.whose[who] = who.login
    made.files["export/submission_metadata.yml"] = "".join(listed.values())
    return made


def exchange(uploads):
    """exchange/default/submit.py of nbgrader."""
    made = Made()
    for upload in uploads:
        who = upload.person
        folder = f"{who.login}+ch02_qkv+{upload.time:%Y-%m-%d %H:%M:%S.%f} UTC+{'a' * 8}"
        made.files[f"{folder}/{upload.name}"] = upload.data
        made.files[f"{folder}/timestamp.txt"] = f"{upload.time:%Y-%m-%d %H:%M:%S.%f} UTC"
        made.whose[who] = who.login
    return made


def teams(uploads):
    """README and DirAndFileScanner.cs of github.com/lwchkg/teams_assignment_explorer."""
    made, versions = Made(), {}
    for upload in uploads:
        who = upload.person
        times = versions.setdefault(who, [])
        times += [upload.time] * (upload.time not in times)
        begin = f"Student Work/Submitted files/{who.name}/Chapter 2/Version {len(times)}"
        made.files[f"{begin}/{upload.name}"] = upload.data
        made.files[f"Student Work/Working files/{who.name}/Chapter 2/{upload.name}"] = "a draft"
        made.whose[who] = who.name
    return made


def ilias(uploads, teams=False):
    """class.ilExSubmission.php of ILIAS: downloadAllAssignmentFiles, which touches the files."""
    made, seen = Made(), {}
    for upload in uploads:
        who = upload.person
        team = f"Team {who.number}/" * teams
        folder = f"{team}{ascii_only(who.last)}_{ascii_only(who.first)}_{who.login}_{who.number}"
        count = seen[folder, upload.name] = seen.get((folder, upload.name), 0) + 1
        name = ascii_only(upload.name)
        if count > 1:
            name = re.sub(r"(?=\.[^.]*$)", f" ({count})", name)
        path = f"Chapter 2/Abgaben/{folder}/{'Late Submission - ' * upload.late}{name}"
        made.files[path], made.times[path] = upload.data, upload.time
        folder = folder.removeprefix(team)
        made.whose[who] = who.login if folder.count("_") == 3 else folder
    made.files["Chapter 2/Chapter 2.xlsx"] = "a table"
    made.files["Chapter 2/Feedback_files/to_A_B_c_1/from_D_E_f_2/remark.ipynb"] = "of a peer"
    return made


def github(uploads):
    """What `gh classroom clone student-repos` makes: a folder for each repository."""
    made = Made()
    for upload in uploads:
        who = upload.person
        made.files[f"class/attention-{who.login}/{upload.name}"] = upload.data
        made.files[f"class/attention-{who.login}/README.md"] = "x"
        made.files[f"class/attention-{who.login}/.git/config"] = "x"
        made.whose[who] = who.login
    return made


def google(uploads):
    """No documentation states it: files of one folder of Drive, with the person before the title."""
    made = Made()
    for upload in uploads:
        made.files[f"Chapter 2/{upload.person.name} - {upload.name}"] = upload.data
        made.whose[upload.person] = upload.person.name
    return made


def folder(uploads):
    """nbgrader's own layout of submitted/."""
    made = Made()
    for upload in uploads:
        who = upload.person
        made.files[f"{who.login}/ch02_qkv/{upload.name}"] = upload.data
        made.files[f"{who.login}/ch02_qkv/timestamp.txt"] = f"{upload.time:%Y-%m-%d %H:%M:%S} UTC\n"
        made.whose[who] = who.login
    return made


MAKERS = {
    "blackboard": blackboard,
    "canvas": canvas,
    "moodle": moodle,
    "brightspace": brightspace,
    "gradescope": gradescope,
    "exchange": exchange,
    "teams": teams,
    "ilias": ilias,
    "github": github,
    "google": google,
    "folder": folder,
}
KEEPS_ATTEMPTS = {"blackboard", "brightspace", "exchange", "teams"}
"""Platforms whose archives hold earlier attempts too."""
STATES_TIMES = {"blackboard", "brightspace", "gradescope", "exchange", "ilias", "folder"}
MINUTE = timedelta(minutes=1)
