"""When a page has all that it asked for."""

from __future__ import annotations

from typing import Any

QUIET = """() => {
  const answered = performance.getEntriesByType("resource").map((entry) => entry.responseEnd);
  return document.fonts.status === "loaded" && performance.now() - Math.max(0, ...answered) > 500;
}"""


def settle(page: Any) -> None:
    """Wait until a page is loaded, with its fonts, and half a second has brought nothing more.

    Playwright's "networkidle" sometimes never comes if a script keeps the page busy.
    """
    page.wait_for_load_state()
    page.wait_for_function(QUIET)
