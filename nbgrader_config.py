"""How nbgrader works in this course. `nbgrader` and `autograder` both read this file."""

from importlib.resources import files

from autograder.platforms.formgrader import escape_names

c = get_config()

c.CourseDirectory.course_id = "transformers_from_first_principles"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"
# c.Course.book_url, where the book is published, makes links of the sections that `autograder report` names.
# The gradebook is nbgrader's default, gradebook.db beside this file; c.CourseDirectory.db_url moves it.

# A submission is never run by a kernel of this machine: our grader runs it and judges it from outside.
c.Autograde.pre_convert_hook = "autograder.platforms.nbgrader_plugin.teach_gradebook"
c.Autograde.sanitize_preprocessors = [
    "autograder.platforms.nbgrader_plugin.RestoreCells",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.DeduplicateIds",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.Autograde.autograde_preprocessors = [
    "autograder.platforms.nbgrader_plugin.GradeSafely",
    "nbgrader.preprocessors.IgnorePattern",
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]

# Feedback shows no hidden test, runs no script and asks no other host for anything.
c.GenerateFeedback.exporter_class = "autograder.reports.feedback_page.FeedbackExporter"
c.GenerateFeedback.preprocessors = [
    "autograder.reports.feedback_page.Summarise",
    "autograder.reports.feedback_page.ClearHiddenTests",
]

# What a student wrote is cleaned wherever nbgrader shows it as HTML, in formgrader too.
c.HTMLExporter.sanitize_html = True
c.HTMLExporter.filters = {
    "markdown2html": "autograder.reports.safe_html.markdown2html",
    "clean_html": "autograder.reports.safe_html.clean",
    "highlight_code": "autograder.reports.safe_html.highlight_code",
}

# Formgrader shows names as text, also those that an older gradebook holds.
escape_names()
c.HTMLExporter.preprocessors = ["autograder.reports.safe_html.EscapeNames"]

# Formgrader asks no other host for a script that draws formulas: they are MathML already.
c.HTMLExporter.extra_template_basedirs.prepend([str(files("autograder") / "reports" / "templates")])
