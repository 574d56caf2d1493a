"""`--debug` and `GIPPER_DEBUG`: what happens, line by line on stderr, safe to paste into a bug report.

Known values go first: everything in the dotenv files and every variable of the environment that isn't known
to be harmless, in all the forms that redaction knows. Then what looks like a token, then the home folder.
Control characters are shown, a line is cut at a thousand characters.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gipper import __version__
from gipper.errors import ConfigError, GipperError
from gipper.keys import parse_dotenv
from gipper.paths import Paths
from gipper.redact import Redactor, token_shapes
from gipper.runtime import RealRuntime, Runtime

Write = Callable[[str], None]
_LONGEST: Final = 1000
_DOTENV_MOST: Final = 1 << 20
# What the libraries beneath tell of requests (method, path, status) and of SSH (algorithms, channels).
_LOGGERS: Final = ("urllib3", "paramiko", "gipper")
_STARTS: Final = frozenset({"subprocess.Popen", "os.posix_spawn", "os.exec"})
_HARMLESS: Final = frozenset(
    {
        *("PATH", "HOME", "PWD", "OLDPWD", "SHELL", "TERM", "COLORTERM", "LANG", "LANGUAGE", "TZ", "USER"),
        *("LOGNAME", "HOSTNAME", "HOSTTYPE", "EDITOR", "PAGER", "DISPLAY", "NO_COLOR", "VIRTUAL_ENV"),
        *(
            "PYTHONPATH",
            "PYTHONDONTWRITEBYTECODE",
            "GIPPER_CONFIG",
            "GIPPER_KEYS",
            "GIPPER_DATA",
            "GIPPER_ENV",
        ),
        *("GIPPER_DEBUG", "GIPPER_DISABLED_PLUGINS"),
    }
)
_HARMLESS_STARTS: Final = ("LC_", "XDG_")
_SECRET_NAMES: Final = ("KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH")


def message(text: str, env: Mapping[str, str]) -> str:
    """`text` for the terminal: without what the dotenv files hold, and without the values of variables that
    are named like a secret. What it says otherwise stays, so that a hint can be typed."""
    return _learned(env, {n: v for n, v in env.items() if _named_like_a_secret(n)}).text(text)


def safe(text: str, env: Mapping[str, str]) -> str:
    """`text` for a log that strangers read: no value that could be a secret, no token by its looks."""
    return _hidden(text, _learned(env, {n: v for n, v in env.items() if not _is_harmless(n, v)}), env)


@contextmanager
def debugging(
    args: Sequence[str], env: Mapping[str, str], write: Write, *, runtime: Runtime | None = None
) -> Iterator[None]:
    """Log to `write`, a line a call, while the body runs."""
    log = _Log(env, write, runtime or RealRuntime())
    for line in _facts(args, env):
        log.line(line)
    sys.addaudithook(log.started)
    with _heard(_Handler(log)):
        try:
            yield
        finally:
            log.line("ends")
            log.open = False


@contextmanager
def _heard(handler: logging.Handler) -> Iterator[None]:
    """What the libraries tell goes to `handler`, and nowhere else meanwhile."""
    before = [(one, one.level, one.propagate) for one in map(logging.getLogger, _LOGGERS)]
    for logger, _, _ in before:
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, level, propagate in before:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


class _Log:
    """Writes lines, each with the seconds since it began. Safe to share by threads."""

    def __init__(self, env: Mapping[str, str], write: Write, runtime: Runtime) -> None:
        self._env = dict(env)
        self._redactor = _learned(env, {n: v for n, v in env.items() if not _is_harmless(n, v)})
        self._write = write
        self._runtime = runtime
        self._begun = runtime.monotonic()
        self.open = True

    def line(self, text: str) -> None:
        seconds = self._runtime.monotonic() - self._begun
        for part in _hidden(text, self._redactor, self._env).splitlines():
            self._write(f"debug {seconds:9.3f} {part[:_LONGEST]}")

    def started(self, event: str, given: tuple[Any, ...]) -> None:
        """An audit hook; those can't be taken off again, so it goes by `open`."""
        if not self.open or event not in _STARTS:
            return
        words = given[1] if len(given) > 1 and given[1] else given[:1]
        self.line(f"starts {' '.join(map(_word, words if isinstance(words, (list, tuple)) else [words]))}")


class _Handler(logging.Handler):
    """Hands records of libraries on."""

    def __init__(self, log: _Log) -> None:
        super().__init__(logging.DEBUG)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One line; whatever is wrong with a record must not end what it tells of."""
        try:
            self._log.line(f"{record.name}: {record.getMessage()}")
        except (TypeError, ValueError, OSError):
            return


def _word(word: object) -> str:
    return os.fsdecode(word) if isinstance(word, (str, bytes, os.PathLike)) else str(word)


def _facts(args: Sequence[str], env: Mapping[str, str]) -> Iterator[str]:
    """What a bug report needs first. Of variables and keys only names."""
    yield f"gipper {__version__}, Python {platform.python_version()}, {platform.platform()}"
    yield f"command: gipper {' '.join(args)}"
    yield f"plugins: {', '.join(_plugins()) or 'none'}"
    named = sorted(n for n in env if n.startswith("GIPPER_") or _named_like_a_secret(n))
    yield f"set: {', '.join(named) or '-'}"
    try:
        paths = Paths.from_env(env)
    except (GipperError, RuntimeError):
        return
    for what, path in (
        ("settings", paths.config_file),
        ("data", paths.data_folder),
        ("keys", paths.keys_folder),
    ):
        yield f"{what}: {path} ({'there' if path.exists() else 'missing'})"


def _plugins() -> Iterator[str]:
    from importlib.metadata import entry_points

    for group in ("gipper.providers", "gipper.plugins"):
        for entry in entry_points(group=group):
            origin = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "no distribution"
            yield f"{entry.name} ({origin})"


def _hidden(text: str, redactor: Redactor, env: Mapping[str, str]) -> str:
    shown = token_shapes(redactor.text(text))
    home = env.get("HOME", "").rstrip("/")
    return shown.replace(home, "~") if len(home) > 1 else shown


def _learned(env: Mapping[str, str], values: Mapping[str, str]) -> Redactor:
    redactor = Redactor()
    for name, value in [*values.items(), *_dotenv_values(env)]:
        try:
            redactor.add(value, name)
        except ConfigError:
            continue  # Under 8 characters: hiding it would black out the log.
    return redactor


def _dotenv_values(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """All that the dotenv files hold, also files that gipper itself would refuse to read."""
    try:
        paths = Paths.from_env(env)
    except (GipperError, RuntimeError):
        return
    for file in {paths.dotenv or paths.dotenv_beside_config, paths.dotenv_beside_config, *_checkout()}:
        try:
            with file.open("rb") as stream:
                text = stream.read(_DOTENV_MOST).decode("utf-8", "replace")
        except OSError:
            continue
        yield from parse_dotenv(text).items()


def _checkout() -> tuple[Path, ...]:
    """The dotenv of the checkout that this package runs from, if it is one."""
    root = Path(__file__).resolve().parents[3]
    return (root / ".env",) if (root / "gipper-core" / "pyproject.toml").is_file() else ()


def _named_like_a_secret(name: str) -> bool:
    return any(word in name.upper() for word in _SECRET_NAMES) and name not in _HARMLESS


def _is_harmless(name: str, value: str) -> bool:
    """Known by its name, or a path that exists: hiding those would make the log useless."""
    if name in _HARMLESS or name.startswith(_HARMLESS_STARTS):
        return True
    try:
        return value.startswith("/") and Path(value).exists() and not _named_like_a_secret(name)
    except (OSError, ValueError):
        return False
