"""Canaries: keys, tokens and secrets made up here, in every form in which they may turn up."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from urllib.parse import quote, quote_plus

import attrs

ODD = "/+='\" %&$"


def drawn(seed: str, count: int) -> str:
    """Letters and digits as a service would draw them; no token stands in this file."""
    text = "".join(
        base64.b64encode(hashlib.sha256(f"canary {seed} {n}".encode()).digest()).decode() for n in range(9)
    )
    return "".join(c for c in text if c.isalnum())[:count]


def forms(value: str) -> dict[str, str]:
    """`value` as programs write it, by the name of the form."""
    raw = value.encode()
    return {
        "plain": value,
        "json": json.dumps(value)[1:-1],
        "repr": repr(value)[1:-1],
        "shell": shlex.quote(value),
        "url": quote(value, safe=""),
        "url in lower case": quote(value, safe="").replace("%2F", "%2f").replace("%2B", "%2b"),
        "form": quote_plus(value),
        "base64": base64.b64encode(raw).decode(),
        "base64 after one": base64.b64encode(b"x" + raw).decode(),
        "base64 after two": base64.b64encode(b"xy" + raw + b"z").decode(),
        "base64 for urls": base64.urlsafe_b64encode(b"<>?" + raw).decode(),
    }


@attrs.frozen(kw_only=True)
class Canary:
    """`mark` must turn up nowhere; `planted` is what is written for it, `where` what kind of place."""

    where: str
    planted: str
    marks: tuple[str, ...]


def of_value(where: str, value: str) -> list[Canary]:
    """One canary for each form. Base64 is looked for without its first and last letters: those stand for
    what surrounds it, too."""
    made = []
    for name, planted in forms(value).items():
        mark = planted[4:-6] if name.startswith("base64") else planted
        made.append(Canary(where=f"{where}, {name}", planted=planted, marks=(mark,)))
    return made


def of_token(where: str, token: str) -> Canary:
    """A token that nobody told gipper about."""
    return Canary(where=where, planted=token, marks=(token,))


SECRETS = {
    f"JOB_SECRET_{n}": f"s{drawn(f'secret {n}', 20)}{ODD[n % len(ODD)]}{drawn(f'b{n}', 6)}" for n in range(26)
}
KEYS = {"ACME_API_KEY": drawn("acme", 40), "ACME_SECOND_KEY": f"{drawn('second', 24)}/{drawn('2nd', 8)}"}
TOKENS = [
    *(f"hf_{drawn(f'hf {n}', 34)}" for n in range(12)), *(f"ghp_{drawn(f'gh {n}', 36)}" for n in range(6)),
    *(f"sk-proj-{drawn(f'sk {n}', 40)}" for n in range(6)), *(f"glpat-{drawn(f'gl {n}', 24)}" for n in range(4)),
]  # fmt: skip

NAMES = [
    *(f"hf_{drawn(f'name {n}', 34)}" for n in range(5)), *(f"ghp_{drawn(f'name {n}', 36)}" for n in range(5)),
]  # fmt: skip


def held(text: str | bytes, canaries: list[Canary]) -> list[str]:
    """Which canaries `text` holds: where each was planted, never its value."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return [c.where for c in canaries if any(mark.encode() in data for mark in c.marks)]
