"""Checks and grades the exercises of *Transformers from first principles*.

A notebook needs one name from here: ``from autograder import check``. Where to look for the rest:

- an exercise: `exercise` is the shape in which each of `exercises` is declared; `variants` gives other
  students other numbers; `sections` knows where the book treats it
- a check: `student` is called in the notebook; `checking` examines an answer by `values`, `costs` and
  `forbidden`, has `shrink` make what failed smaller, and tells it in a `report`; `telltale` finds code that
  touches the grader's own machinery, for a remark to the teacher
- strangers' code: `cage` is all that runs beside it; `attacks` is what it must hold; `grading` grades one
  submission, then a class
- a course: `layout`, `files`, `release`, `audit` (nothing leaks), `versions` (what a fix concerns),
  `databases`
- in: `collecting`, from learning platforms, with `student_ids`; out: `export`, `platforms`, and `feedback`
  with its `feedback_page`
- the class at a glance: `overview` and its `overview_page`, of `items`, `alike` and `looks`; `safe_html` is
  what every page goes through
- elsewhere: `bundles` and their `bundle_library`, `wheels`, `bundled`, `templates`; `gradescope`,
  `classroom`, `colab`, `hub`, `clusters`
- the proof: `verify`, its page the `kill_matrix`, faults that no bank foresees in `mutation`, the classes
  that `samples` makes up, and `doctor`
- the commands: `cli`, its `tables`, `errors` and `workers`, and `nbgrader_plugin`; what they print goes
  through the `terminal`, in which a student's text is `visible`, and `formgrader` shows names as text too
"""

from autograder.student import check

__all__ = ["check"]
