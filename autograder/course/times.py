"""Read times as people and programs write them, with their time zones."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

HOURS = {
    **{"WEST": 1, "MEZ": 1, "CEST": 2, "MESZ": 2, "EEST": 3, "MSK": 3, "JST": 9, "KST": 9, "AEST": 10},
    **{"AEDT": 11, "NZST": 12, "NZDT": 13, "EDT": -4, "CDT": -5, "MDT": -6, "PDT": -7, "PST": -8},
    **{"AKST": -9, "AKDT": -8},
}
"""The hours ahead of UTC of common abbreviations that the system's list of time zones lacks."""


def read_time(text: str) -> datetime:
    """Return a time in UTC, or without a zone if the text names none.

    nbgrader's own reader takes the last of three words for a zone: it reads +0100 as 100 seconds, and
    drops PM.

    Raises:
        ValueError: the text is not a time, lacks day, month or year, or names an unknown time zone.

    >>> read_time("2026-03-07 18:00:00 +0100"), read_time("2026-03-07 6:00 PM").hour
    (datetime.datetime(2026, 3, 7, 17, 0, tzinfo=datetime.timezone.utc), 18)
    """
    import dateutil.parser

    text = re.sub(r"\b(?:UTC|GMT)\s*(?=[+-]\d)", "", text)  # dateutil reads UTC+2 as POSIX does, west of UTC
    numbers = re.match(r"\s*(\d{1,2})([./-])(\d{1,2})\2\d{2,4}(?!\d)", text)
    if numbers and numbers[2] != "." and max(int(numbers[1]), int(numbers[3])) <= 12:
        raise ValueError(f"{text} does not say which number is the day")
    is_day_first = bool(numbers and numbers[2] == ".")
    time, other = (
        dateutil.parser.parse(text, tzinfos=_zone, dayfirst=is_day_first, default=default)
        for default in (datetime(2000, 1, 1), datetime(2004, 2, 2))
    )
    if time != other:  # dateutil fills in what the text lacks
        raise ValueError(f"{text} does not name the day, the month and the year")
    return time.astimezone(UTC) if time.tzinfo else time


def _zone(name: str | None, offset: int | None) -> tzinfo | None:
    from dateutil import tz

    if offset is not None:
        return tz.tzoffset(name, offset)
    zone = tz.gettz(name) if name else None
    if zone is None and name in HOURS:
        return tz.tzoffset(name, 3600 * HOURS[name])
    if name and zone is None:
        raise ValueError(f"{name} is not a known time zone")
    return zone
