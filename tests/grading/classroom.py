"""A small class without any grading: a gradebook and the files around it, made in milliseconds."""

import json
import shutil

from nbgrader.api import Gradebook
from scratch import ROOT

from autograder.course.layout import Course
from autograder.grading import gradebook

FIRST, SECOND = "ch02_qkv", "ch03_scaling"
DUE = "2026-03-08 23:59:00 UTC"


def new_class(folder, handed_in):
    """A course in which `handed_in` maps (student, assignment) to points of 10, as if it had been graded."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    for assignment in (FIRST, SECOND):
        home = folder / "solutions" / assignment
        home.mkdir(parents=True)
        shutil.copy(ROOT / "solutions" / assignment / f"{assignment}.ipynb", home)
    course = Course.at(folder)
    with gradebook.opened(course) as writer:
        book = writer.book
        for assignment in (FIRST, SECOND):
            book.add_assignment(assignment, duedate=DUE)
            book.add_notebook(assignment, assignment)
            for cell in ("softmax", "explain"):
                book.add_grade_cell(cell, assignment, assignment, max_score=5.0, cell_type="code")
            book.add_solution_cell("explain", assignment, assignment)
    for (student, assignment), points in handed_in.items():
        add_work(folder, student, assignment, points)
    return folder


def add_work(folder, student, assignment, points, timestamp="2026-03-07 18:00:00 UTC"):
    """Work of a student: submission, graded notebook, page, and points, half of them for each cell."""
    notebook = {
        "cells": [],
        "metadata": {"of": f"{student} {assignment}"},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    for place, name in (("submitted", "ipynb"), ("autograded", "ipynb"), ("feedback", "html")):
        home = folder / place / student / assignment
        home.mkdir(parents=True)
        (home / f"{assignment}.{name}").write_text(json.dumps(notebook))
        (home / "timestamp.txt").write_text(f"{timestamp}\n")
    with opened(folder) as book:
        book.update_or_create_student(student)
        book.update_or_create_submission(assignment, student, timestamp=timestamp)
        for name in ("softmax", "explain"):
            grade = book.find_grade(name, assignment, assignment, student)
            grade.auto_score, grade.needs_manual_grade = points / 2, False
        book.db.commit()


def opened(folder):
    return Gradebook(f"sqlite:///{folder / 'gradebook.db'}")


def rows(folder, assignment=FIRST):
    """The rows of an assignment by student."""
    return {row.student: row for row in gradebook.read(Course.at(folder), assignment)}
