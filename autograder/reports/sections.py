"""Find the section of the book that treats an exercise, to be read again after a mistake."""

from __future__ import annotations

from dataclasses import dataclass

from docutils.nodes import make_id

from autograder import exercises
from autograder.course.errors import BadInputError
from autograder.course.layout import CONFIG, Course


@dataclass(frozen=True)
class Section:
    """A section of the book."""

    page: str
    """The name of its page, such as ``02_qkv``."""
    heading: str

    @property
    def chapter(self) -> int:
        return int(self.page.split("_")[0])

    @property
    def says(self) -> str:
        """Return its chapter and heading in words.

        >>> section_of("ch02_qkv/softmax").says
        'chapter 2, "The mathematics"'
        """
        return f'chapter {self.chapter}, "{self.heading}"'

    def url(self, book: str) -> str:
        """Return its address in the book that is published at the address `book`.

        >>> section_of("ch08_kv_cache/quantize_kv").url("https://example.org/course/")
        'https://example.org/course/book/08_kv_cache.html#rounding-to-8-bits'
        """
        return f"{book.rstrip('/')}/book/{self.page}.html#{make_id(self.heading)}"


def section_of(exercise: str) -> Section | None:
    """Return the section that treats an exercise, named ``assignment/function``, or None."""
    try:
        declared = exercises.find(exercise.split("/")[1])  # which may have moved to another assignment
    except exercises.UnknownExerciseError:
        return None
    return Section(exercises.chapter_of(declared.assignment), declared.section)


def book_url(course: Course) -> str:
    """Return the address of the course's published book from nbgrader_config.py, or an empty text.

    Raises:
        BadInputError: the setting is not the address of a web page.
    """
    url = str(course.config.get("Course", {}).get("book_url", ""))
    if url and not url.startswith(("http://", "https://")):
        raise BadInputError(
            f"c.Course.book_url in {CONFIG} is {url!r}. Expected an address such as https://example.org/course."
        )
    return url
