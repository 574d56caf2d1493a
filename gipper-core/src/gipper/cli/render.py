"""All that gipper prints: tables, lines and warnings, with hostile text made harmless.

Job names, logs and providers' answers come from strangers. They are never read as markup, and their
control characters are shown (`\\x1b`) instead of sent to the terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, TextIO

# C0, DEL and C1 controls, line separators that split lines unseen, and the marks that reorder text.
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_EMPTY: Final = "-"


def neutralise(text: str, *, keep: str = "\n\t") -> str:
    """`text` with control and reordering characters shown as escapes; those in `keep` stay."""
    return _UNSAFE.sub(lambda match: _shown(match.group(), keep), text)


def say(text: str = "") -> None:
    """Print lines to stdout at once. Raises BrokenPipeError where nobody reads any more."""
    _write(sys.stdout, f"{neutralise(text)}\n")


def tell(text: str) -> None:
    """As `say`, for what must not end because its reader went away: a run that is being supervised."""
    try:
        say(text)
    except OSError:
        drop_output()


def warn(text: str) -> None:
    """Print lines to stderr at once; a stderr that can't be written to stops nothing."""
    try:
        _write(sys.stderr, f"{neutralise(text)}\n")
    except (OSError, ValueError):
        return


def print_json(value: Any) -> None:
    """Print `value` as JSON: dollars as numbers, times as UTC text."""
    _write(sys.stdout, json.dumps(value, default=_plain, ensure_ascii=False, indent=2) + "\n")


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    json_rows: Iterable[Mapping[str, Any]] | None = None,
    as_json: bool = False,
) -> None:
    """Print `rows` as a table on a terminal, as plain columns when piped, or as a JSON list.

    A plain table has a header, one line per row and at least two spaces between cells; an empty cell
    is `-`, nothing is cut. `json_rows` stand in for the rows in JSON (default: columns to cells).
    """
    if as_json:
        given = (dict(zip(columns, row, strict=True)) for row in rows) if json_rows is None else json_rows
        print_json([dict(row) for row in given])
        return
    table = [list(row) for row in rows]
    if _on_terminal():
        _print_rich(columns, table, title)
    else:
        _print_plain(columns, table)


def money(amount: Decimal | None) -> str:
    """Dollars for people, to the hundredth of a cent; unknown is `-`, never 0."""
    return _EMPTY if amount is None else f"{amount:.4f}"


def drop_output() -> None:
    """Send the rest of stdout nowhere, so that the interpreter's last flush has nothing to complain of."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lives as long as the process
    finally:
        os.close(null)


def _shown(char: str, keep: str) -> str:
    if char in keep:
        return char
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"


def _write(stream: TextIO | None, text: str) -> None:
    # A process may be started without its standard streams.
    if stream is not None:
        stream.write(text)
        stream.flush()


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _cell(value: object) -> str:
    text = "" if value is None else neutralise(str(value), keep="")
    return text or _EMPTY


def _right(rows: Sequence[Sequence[object]], column: int) -> bool:
    cells = [row[column] for row in rows if row[column] not in (None, "", _EMPTY)]
    return bool(cells) and all(_is_number(cell) for cell in cells)


def _is_number(cell: object) -> bool:
    return re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", str(cell)) is not None


def _print_plain(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    lines = [[neutralise(c, keep="") for c in columns], *([_cell(v) for v in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    right = [_right(rows, i) for i in range(len(columns))]
    for line in lines:
        padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
        _write(sys.stdout, "  ".join(padded).rstrip() + "\n")


def _print_rich(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    heading = None if title is None else Text(neutralise(title, keep=""))
    table = Table(title=heading, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(
            Text(neutralise(column, keep="")), justify="right" if _right(rows, index) else "left"
        )
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    Console(file=sys.stdout, markup=False, highlight=False, emoji=False).print(table)
