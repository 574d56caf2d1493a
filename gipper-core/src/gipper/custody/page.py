"""The custody report as one HTML page: no script, nothing loaded, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from gipper.custody import text
from gipper.custody.report import Credential, Group, Report

_STYLE: Final = (
    "body{font:15px/1.5 sans-serif;max-width:75em;margin:2em auto;padding:0 1em;color:#1b1b1b}"
    "table{border-collapse:collapse;margin:.4em 0 1.2em}td,th{padding:.15em .8em .15em 0;text-align:left;"
    "vertical-align:top;border-bottom:1px solid #ddd}code{font-size:12px;word-break:break-all}"
    "h2{border-top:3px solid #444;padding-top:.5em}.flag{background:#ffe9a8}.none{color:#555}"
    ".gap{background:#ffdcd6}"
)
# Hostile names come here: should one ever get through the escaping, the page may still load and run nothing.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(report: Report) -> str:
    """The whole page. Times are UTC, sizes bytes, modes octal."""
    title = f"Custody report: {text.scope_text(report.scope)}"
    return "\n".join(
        [
            "<!DOCTYPE html>", '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{_safe(title)}</title><style>{_STYLE}</style></head><body>", f"<h1>{_safe(title)}</h1>",
            f"<p>Made {_safe(text.moment(report.made))}, {_safe(text.source_text(report))}.</p>",
            *_machines(report), *_rotate(report), *_review(report), *_gaps(report), "</body></html>", "",
        ]
    )  # fmt: skip


def _safe(value: object) -> str:
    return escape("".join(_shown(c) for c in str(value)), quote=True)


def _shown(char: str) -> str:
    """Controls, lone surrogates and marks that reorder text are shown, as on the terminal."""
    code = ord(char)
    odd = code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000
    marks = code in (0x61C, 0x200E, 0x200F) or 0x2028 <= code <= 0x202E or 0x2066 <= code <= 0x2069
    if not (odd or marks):
        return char
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Cells are HTML already."""
    body = [f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows]
    if not body:
        yield '<p class="none">Nothing that the ledger knows of.</p>'
        return
    yield f"<table><tr>{''.join(f'<th>{_safe(h)}</th>' for h in head)}</tr>"
    yield from body
    yield "</table>"


def _machines(report: Report) -> Iterator[str]:
    yield f"<h2>Machines ({len(report.machines)})</h2>"
    yield from _table(
        ("machine", "run", "job", "from to", "address", "host key", "ports", "volumes"),
        (
            (_safe(f"{m.provider} {m.pod}"), _safe(m.run or "-"), _safe(m.job or "-"),
             _safe(text.span(m.since, m.until)), _safe(m.address or "-"), _code(m.host_key or "-"),
             _safe(", ".join(m.ports) or "-"), _safe(", ".join(m.volumes) or "-"))
            for m in report.machines
        ),
    )  # fmt: skip


def _rotate(report: Report) -> Iterator[str]:
    yield f'<h2 id="rotate">{text.ROTATE} ({len(report.rotate)})</h2>'
    yield "<p>These credentials were on machines in that time.</p>"
    yield from _table(("what", "why", "sha256", "where"), (_credential(one) for one in report.rotate))


def _credential(one: Credential) -> Iterator[str]:
    yield _safe(f"{one.kind} {one.name}")
    yield f'<span class="flag">{_safe(one.why)}</span>'
    yield _code(one.sha256 or "-")
    yield "<br>".join(_safe(text.where_text(where)) for where in one.where)


def _review(report: Report) -> Iterator[str]:
    yield f'<h2 id="review">{text.REVIEW}</h2><p>This was there.</p>'
    for group in report.files:
        yield from _group(group)
    for came in report.back:
        yield f"<h3>Came home from {_safe(text.where_text(came.where))}</h3>"
        yield from _table(
            ("path", "bytes", "sha256"), ((_safe(f.path), f"{f.size:,}", _code(f.sha256)) for f in came.files)
        )
    yield f"<h3>Recorded by people ({len(report.notes)})</h3>"
    yield from _table(("note",), ((_safe(text.told_text(note)),) for note in report.notes))


def _group(group: Group) -> Iterator[str]:
    yield f"<h3>Input {_safe(group.input)} on {_safe(text.where_text(group.where))}</h3>"
    yield from _table(
        ("path", "bytes", "mode", "looks like", "sha256"),
        (
            (_safe(f.path), f"{f.size:,}", f"{f.mode:04o}",
             f'<span class="flag">{_safe(f.flag)}</span>' if f.flag else "-", _code(f.sha256))
            for f in group.files
        ),
    )  # fmt: skip


def _gaps(report: Report) -> Iterator[str]:
    yield f'<h2 id="gaps">{_safe(text.GAPS)} ({len(report.gaps)})</h2><p>Why this may not be all.</p>'
    if report.gaps:
        yield "<ul>"
        yield from (f'<li class="gap">{_safe(text.gap_text(gap))}</li>' for gap in report.gaps)
        yield "</ul>"
    else:
        yield '<p class="none">No gap is known.</p>'
    yield f"<p>{_safe(text.asked_text(report))}</p>"


def _code(value: str) -> str:
    return f"<code>{_safe(value)}</code>"
