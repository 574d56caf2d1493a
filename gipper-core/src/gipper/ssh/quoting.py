"""Shell text that means the same whatever the login shell is, and the markers around its output."""

from __future__ import annotations

import secrets
from typing import Final

from gipper.errors import RemoteError

# Linux takes no argument over 128 KiB; the rest is room for what is put around it.
MAX_SCRIPT: Final = 120_000
# What some login shell (csh, fish) reads inside single quotes: these go as octal escapes.
_UNSAFE: Final = {"\\": "\\0134", "'": "\\0047", "!": "\\0041", "\n": "\\0012", "\r": "\\0015"}


def new_marker() -> str:
    """128 random bits: nothing that a machine prints by itself contains it."""
    return secrets.token_hex(16)


def quote(text: str) -> str:
    """`text` as one word of POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def exec_line(command: str, marker: str) -> str:
    """What to ask sshd to execute so that ``/bin/sh`` runs `command` between known borders.

    Both streams get a line with `marker` before the command's own first byte. The command runs in a
    shell of its own under one that stays, which turns a death by signal n into status 128 + n.
    Raises RemoteError where `command` is too long or holds a NUL.
    """
    encoded = _checked("".join(_UNSAFE.get(c, c) for c in command))
    return (
        f'exec /bin/sh -c \'c=$(printf %b. "$0"); printf "\\n{marker}\\n" >&2; printf "\\n{marker}\\n"; '
        f"/bin/sh -c \"${{c%.}}\" sh; exit $?' '{encoded}'"
    )


def frame(script: str, marker: str) -> bytes:
    """One request to a shell that reads its stdin: run `script` apart, between borders on both streams.

    stdout: ``<marker>{``, the output, ``<marker>} STATUS``; stderr the same without a status.
    Raises RemoteError where `script` is too long or holds a NUL.
    """
    word = quote(_checked(script))
    text = (
        f"printf '\\n{marker}{{\\n' >&2; printf '\\n{marker}{{\\n'; "
        f"/bin/sh -c {word} sh </dev/null; "
        f"printf '\\n{marker}}} %d\\n' $?; printf '\\n{marker}}}\\n' >&2\n"
    )
    return text.encode("utf-8", "surrogateescape")


def _checked(text: str) -> str:
    if "\0" in text:
        raise RemoteError("a remote command can't hold a NUL character")
    if len(text.encode("utf-8", "surrogateescape")) > MAX_SCRIPT:
        raise RemoteError(f"a remote command of over {MAX_SCRIPT} bytes", hint="send it over stdin")
    return text
