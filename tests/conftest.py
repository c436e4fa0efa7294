from typing import Any

collect_ignore = ["conftest.py"]  # as a module of doctests: the other folders have one of its name


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what a test recorded as its summary, also where it ran in another process."""
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for name, text in report.user_properties:
            if name == "summary" and report.when == "call":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(text)
