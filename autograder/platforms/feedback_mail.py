"""Write the pages of feedback as mails in one mailbox file, which the school's own mail program sends."""

from __future__ import annotations

import mailbox
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path

from autograder.course.class_list import Person
from autograder.course.errors import BadInputError

_ADDRESS = re.compile(r"[\w.+/=?^'!#$%&*{}|~`-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
_TEXT = """Hello{name},

your feedback on {assignment} is attached. Save {pages} and open {them} in a browser.
"""


@dataclass(frozen=True)
class Mail:
    """A mail to a student with pages of feedback attached."""

    to: Address
    assignment: str
    pages: tuple[Path, ...]


def address(email: str, name: str = "") -> Address | None:
    """Return an e-mail address as it is written in a header, or None if the text is not an address.

    >>> str(address("ada@uni.de", "Ada  Löwe")), address("ada@uni.de, eve@x.org")
    ('Ada Löwe <ada@uni.de>', None)
    """
    if not _ADDRESS.fullmatch(email):
        return None
    return Address("".join(filter(str.isprintable, " ".join(name.split()))), addr_spec=email)


def find_addresses(
    students: list[str], people: Mapping[str, Person]
) -> tuple[dict[str, Address], dict[str, str]]:
    """Return the address of each student, and for each student without an address of their own the reason.

    The address is the one in the gradebook, else the id of the student if that is an address.
    """
    emails = {student: people.get(student, Person(student)).email or student for student in students}
    shared = Counter(email.casefold() for email in emails.values())
    addresses, missing = {}, {}
    for student, email in emails.items():
        about = people.get(student, Person(student))
        to = address(email, about.name)
        if to is None:
            given = f"{about.email!r} is not an e-mail address" if about.email else "no e-mail address"
            missing[student] = f"{given} in the gradebook"
        elif shared[email.casefold()] > 1:
            missing[student] = f"another student has the same e-mail address, {email}"
        else:
            addresses[student] = to
    return addresses, missing


def write_mailbox(path: Path, mails: list[Mail], sender: str = "") -> None:
    """Write a mailbox file (mbox).

    Args:
        path: the file.
        mails: the mails.
        sender: the address of the person who sends the mails; the mail program's own, if empty.

    Raises:
        BadInputError: `sender` is not an e-mail address.
    """
    sent_by = require_sender(sender)
    path.unlink(missing_ok=True)  # a mailbox that exists would be continued
    box = mailbox.mbox(path)
    try:
        for mail in mails:
            message = EmailMessage()
            if sent_by:
                message["From"] = sent_by
            message["To"] = mail.to
            message["Subject"] = f"Feedback on {mail.assignment}"
            message["Date"] = formatdate(localtime=True)
            several = len(mail.pages) > 1
            message.set_content(
                _TEXT.format(
                    name=f" {mail.to.display_name}" if mail.to.display_name else "",
                    assignment=mail.assignment,
                    pages="the pages" if several else "the page",
                    them="them" if several else "it",
                )
            )
            for page in mail.pages:
                message.add_attachment(page.read_bytes(), maintype="text", subtype="html", filename=page.name)
            box.add(message)
    finally:
        box.close()


def require_sender(sender: str) -> Address | None:
    """Return the sender's address, or None if the text is empty.

    Raises:
        BadInputError: the text is not an e-mail address.
    """
    sent_by = address(sender) if sender else None
    if sender and sent_by is None:
        raise BadInputError(f"--sender must be an e-mail address such as teacher@school.org, not {sender!r}.")
    return sent_by
