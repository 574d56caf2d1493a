"""One harmless line out of whatever a server sent."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

Redact = Callable[[str], str]

LINE_MAX: Final = 200
# Enough for any error; a hostile body is not redacted for minutes.
BODY_MAX: Final = 64 * 1024

_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def body_text(body: bytes, redact: Redact) -> str:
    """The beginning of a body as text, redacted before it is cut, so that no half of a key survives."""
    return redact(body[: 2 * BODY_MAX].decode("utf-8", "replace"))[:BODY_MAX]


def is_html(content_type: str, text: str) -> bool:
    """True for a web page, whatever it calls itself."""
    return "html" in content_type.casefold() or text.lstrip()[:1] == "<"


def one_line(content_type: str, text: str) -> str:
    """At most one line of `text` (redacted already): a page's title, else its first line."""
    if is_html(content_type, text):
        title = _TITLE.search(text)
        return f"a web page: {_clean(title[1])}" if title and title[1].strip() else "a web page"
    return _clean(next((line for line in text.splitlines() if line.strip()), ""))


def _clean(text: str) -> str:
    line = " ".join(_CONTROL.sub(" ", text).split())
    return line if len(line) <= LINE_MAX else line[: LINE_MAX - 3] + "..."
