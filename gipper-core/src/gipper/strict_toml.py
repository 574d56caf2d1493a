"""A TOML file that a person wrote, read with limits: whatever is wrong is one clear sentence."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Any, Final

from gipper.errors import ConfigError

LIMIT: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"


def read_toml(file: Path, what: str) -> dict[str, Any]:
    """The tables of `file`; `what` names the kind of file in messages. A byte order mark is skipped,
    CRLF counts as LF.

    Raises ConfigError: missing, no regular file, unreadable, over 1 MiB, not UTF-8, not TOML.
    """
    return parse_toml(read_limited(file, what), file)


def read_limited(file: Path, what: str) -> bytes:
    """The bytes of a regular file of at most `LIMIT`. Raises ConfigError."""
    try:
        # Not blocking: opening a pipe that nobody writes to would wait for ever.
        with open(file, "rb", opener=_open_nonblocking) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError(f"{file} is no regular file", hint=f"name a {what}")
            if status.st_size > LIMIT:
                raise ConfigError(
                    f"{file} has {status.st_size / 1e6:.1f} MB; a {what} may have at most 1 MiB",
                    hint=f"name a {what}; data belongs under [[inputs]]",
                )
            return stream.read(LIMIT + 1)
    except FileNotFoundError:
        raise ConfigError(f"{file} does not exist", hint=f"name the {what} that you mean") from None
    except IsADirectoryError:
        raise ConfigError(f"{file} is a folder", hint=f"name the {what} in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{file} can't be read: {reason}", hint="look at who may read it") from error


def parse_toml(data: bytes, file: Path) -> dict[str, Any]:
    """`data` as tables. Raises ConfigError with the line of the mistake."""
    data = data.removeprefix(_BOM)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError(
            f"{file} is UTF-16 (its byte order mark says so), not UTF-8", hint="save it as UTF-8"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file} is not UTF-8 text (line {line})", hint="save it as UTF-8") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ConfigError(
            f"{file} holds a NUL byte (line {line}): it is no TOML file", hint="name a TOML file"
        )
    return _parsed(text, file)


def _parsed(text: str, file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not TOML: {error}", hint="mend that line") from None
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"{file} holds a value that can't be read: {error}", hint="mend the value"
        ) from None
    except RecursionError:
        raise ConfigError(f"{file} is nested too deeply", hint="write it flatter") from None


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
