"""What runs beside a student's code: the wire, the call, the zygote. Nothing here knows an exercise.

The zygote loads these files by themselves, without the package around them.
"""
