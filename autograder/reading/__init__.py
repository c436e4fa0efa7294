"""Read a submission's source code: find forbidden calls, and code that tampers with the grader."""
