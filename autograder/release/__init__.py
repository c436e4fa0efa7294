"""Make the students' notebooks, check them for leaks, and hash the code that verdicts depend on."""
