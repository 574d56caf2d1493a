"""What `gipper doctor` looks at: each finding with its cure. Nothing is changed and nothing is rented."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import attrs

from gipper.errors import GipperError

if TYPE_CHECKING:
    from gipper.core import Gipper

Level = Literal["ok", "warning", "trouble"]
_LEAST_FREE: Final = 1 << 30


@attrs.frozen(kw_only=True)
class Finding:
    """One thing that was looked at. `cure` is what to type or to do; None where all is well."""

    level: Level
    what: str
    text: str
    cure: str | None = None


Check = Callable[["Gipper"], Iterator[Finding]]


def examine(gipper: Gipper) -> Iterator[Finding]:
    """Every check in order; one that fails by itself is a finding and doesn't stop the others."""
    for check in _CHECKS:
        try:
            yield from check(gipper)
        except GipperError as error:
            name = check.__name__.strip("_").replace("_", " ")
            yield Finding(
                level="trouble", what=name, text=gipper.redactor.text(error.message), cure=error.hint
            )


def _settings(gipper: Gipper) -> Iterator[Finding]:
    loaded = gipper.loaded_settings
    where = gipper.paths.config_file
    text = str(where) if where.exists() else f"{where} does not exist: the defaults count"
    yield Finding(level="ok", what="settings", text=text)
    for note in loaded.notes:
        yield Finding(level="warning", what="settings", text=note, cure=f"edit {where}")


def _data_folder(gipper: Gipper) -> Iterator[Finding]:
    from gipper.installation import is_network_filesystem

    folder = gipper.paths.data_folder
    place = next(p for p in (folder, *folder.parents) if p.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        cure = "mend its permissions, or set GIPPER_DATA"
        yield _trouble("data folder", f"{folder} can't be written", cure)
        return
    yield Finding(level="ok", what="data folder", text=str(folder))
    free = shutil.disk_usage(place).free
    if free < _LEAST_FREE:
        yield _warning("data folder", f"only {free / 1e6:,.0f} MB are free there", "make room on that disk")
    if is_network_filesystem(place):
        yield _warning(
            "data folder", f"{folder} is on a network file system, where locks may not hold",
            "set GIPPER_DATA to a folder on a local disk",
        )  # fmt: skip
    if folder.exists() and folder.stat().st_mode & 0o077:
        yield _warning("data folder", f"others can look into {folder}", f"chmod 700 {folder}")


def _ledger(gipper: Gipper) -> Iterator[Finding]:
    ledger = gipper.ledger
    if ledger.damaged is not None:
        yield _trouble("ledger", ledger.damaged, "gipper ledger verify, then gipper ledger verify --accept")
        return
    verdict = ledger.verify()
    if not verdict.whole:
        yield _trouble("ledger", "; ".join(verdict.problems), "gipper ledger verify --accept")
    else:
        yield Finding(level="ok", what="ledger", text=f"{verdict.receipts} receipts, whole")


def _ssh_key(gipper: Gipper) -> Iterator[Finding]:
    key = gipper.paths.keys_folder / "id_ed25519"
    if not key.exists():
        yield Finding(level="ok", what="ssh key", text=f"{key} is made at first use")
    elif stat.S_IMODE(key.stat().st_mode) & 0o077:
        yield _trouble("ssh key", f"others can read {key}", f"chmod 600 {key}")
    else:
        yield Finding(level="ok", what="ssh key", text=str(key))


def _plugins(gipper: Gipper) -> Iterator[Finding]:
    usable = gipper.providers()
    gipper.registry.load_team_plugins()
    names = ", ".join(p.name for p in usable) or "none"
    yield Finding(level="ok", what="providers", text=names)
    for problem in gipper.registry.problems:
        yield _trouble("plugin", str(problem), "update or uninstall it; `gipper plugins` has the details")


def _keys(gipper: Gipper) -> Iterator[Finding]:
    for provider in gipper.providers():
        if provider.key_name is None:
            continue
        if not provider.has_key():
            yield _warning(
                "key", f"{provider.key_name} is not set: {provider.title} is left out",
                f"export {provider.key_name}=..., or write it into {_dotenv(gipper)} (chmod 600)",
            )  # fmt: skip
            continue
        check = provider.check_key()
        if check is not None and not check.ok:
            yield _trouble("key", f"{provider.key_name}: {check.problem}", "make a new key with that scope")
        else:
            yield Finding(level="ok", what="key", text=f"{provider.key_name} is set")


def _machines(gipper: Gipper) -> Iterator[Finding]:
    from gipper.lifecycle.book import KINDS, Book

    book = Book.of(gipper.ledger.read(kinds=KINDS))
    now = gipper.runtime.now()
    late = [r for r in book.open_pods() if now > r.end + timedelta(minutes=10)]
    for record in late:
        which = f"{record.provider} {record.name}"
        yield _trouble("machines", f"{which} is past its end and not proved gone", "gipper pod reap")
    if not late:
        count = len(book.open_pods())
        yield Finding(level="ok", what="machines", text=f"{count} open in the ledger, none past its end")


def _tools(gipper: Gipper) -> Iterator[Finding]:
    found = shutil.which("ssh")
    if found is None:
        yield _warning("ssh", "OpenSSH's client is not installed (only `gipper pod ssh` needs it)",
                       "apt-get install openssh-client")  # fmt: skip
    else:
        yield Finding(level="ok", what="ssh", text=found)


def _dotenv(gipper: Gipper) -> Path:
    return gipper.paths.dotenv or gipper.paths.dotenv_beside_config


def _trouble(what: str, text: str, cure: str) -> Finding:
    return Finding(level="trouble", what=what, text=text, cure=cure)


def _warning(what: str, text: str, cure: str) -> Finding:
    return Finding(level="warning", what=what, text=text, cure=cure)


_CHECKS: Final[tuple[Check, ...]] = (
    _settings, _data_folder, _ledger, _ssh_key, _plugins, _keys, _machines, _tools,
)  # fmt: skip
