"""Run a student's code in its own process: the wire, the call, the zygote. No module here knows an exercise.

The zygote loads these files as the top-level package `cage`, without the rest of `autograder`.
"""
