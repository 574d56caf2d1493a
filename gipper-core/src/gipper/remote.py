"""A rented machine as core and preflight checks see it: commands with deadlines, files up, files down.

`gipper.ssh` implements this over SSH; a simulation or a test may implement it in memory. A `Remote`
that raised `ConnectionLost` is dead: dial a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Literal, Protocol

import attrs

from gipper.runtime import Event
from gipper.values.machines import Address

Progress = Callable[[int], None]


@attrs.frozen(kw_only=True)
class Target:
    """Whom to dial. `pins` is the known_hosts file of this run, `machine_id` the alias in it.

    `host_key` is the provider's own word on the key ("ssh-ed25519 AAAA..."), where it gives one.
    """

    machine_id: str
    addresses: tuple[Address, ...]
    user: str
    key_file: Path
    pins: Path
    host_key: str | None = None


@attrs.frozen(kw_only=True)
class Completed:
    """A remote command that ended by itself. `status` is exact: 128 + n for signal n, never -1."""

    status: int
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def text(self) -> str:
        """stdout as text, undecodable bytes replaced, without the last line end."""
        return self.stdout.decode("utf-8", "replace").rstrip("\n")


@attrs.frozen(kw_only=True)
class Entry:
    """One thing to send. `path` is relative to its tree's base on the machine, with "/" separators."""

    path: str
    source: Path
    type: Literal["file", "dir", "link"]
    size: int = 0
    mode: int = 0o644
    mtime_ns: int = 0
    inode: int = 0
    sha256: str = ""
    link: str | None = None
    flag: str | None = None


@attrs.frozen(kw_only=True)
class Manifest:
    """Everything to send to one base folder on the machine, in sending order (folders first)."""

    entries: tuple[Entry, ...]
    excluded: int = 0
    notes: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(e.size for e in self.entries if e.type == "file")

    @property
    def files(self) -> int:
        """How many files."""
        return sum(1 for e in self.entries if e.type == "file")


@attrs.frozen(kw_only=True)
class Sent:
    """What went up. `changed` are the paths of files that changed while they were read."""

    files: int
    bytes: int
    seconds: float
    changed: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Known:
    """A file that was fetched: its state there when it was read, and its time of change here since then.

    `inode` 0 = not known. `here_ns` is the local file's modification time; its size is `size`, too.
    """

    size: int
    mtime_ns: int
    inode: int
    sha256: str
    here_ns: int


@attrs.frozen(kw_only=True)
class Fetched:
    """What came home. `files` are (path, size, sha256); `refused` and `missing` say why, one line each.

    `files` and `bytes` are what travelled. `home` is given by a fetch that knew what is here already:
    every file of the source that is here as it is there, whenever it came.
    """

    files: tuple[tuple[str, int, str], ...]
    bytes: int
    seconds: float
    refused: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    home: Mapping[str, Known] = attrs.field(factory=dict)

    @property
    def whole(self) -> bool:
        """True where everything that was asked for is here as it was there."""
        return not (self.refused or self.missing or self.changed)


class Remote(Protocol):
    """One machine over live connections. Every call blocks, has a deadline, and may raise
    ConnectionLost, CommandTimeout or TransferError."""

    @property
    def address(self) -> Address:
        """The address that answered."""

    @property
    def fingerprint(self) -> str:
        """The pinned host key as ``SHA256:...``."""

    def run(
        self, command: str, *, stdin: bytes = b"", timeout_s: float = 60.0, limit: int = 4 << 20
    ) -> Completed:
        """Run `command` with /bin/sh in a channel of its own; more output than `limit` bytes is cut.

        Noise that a shell start file prints is not part of the answer.
        """

    def ask(self, script: str, *, timeout_s: float = 60.0) -> Completed:
        """Run a short script on the long-lived control shell: one round trip. Its stderr is its own."""

    def send(
        self, manifest: Manifest, base: str, *, progress: Progress | None = None, stop: Event | None = None
    ) -> Sent:
        """Stream `manifest` into folder `base` (made if missing). Raises Stopped once `stop` is set.

        A file whose content no longer has the manifest's hash is sent as it is and named in `changed`;
        ConfigError where it now holds a provider key.
        """

    def fetch(
        self,
        base: str,
        source: str,
        dest: Path,
        *,
        known: MutableMapping[str, Known] | None = None,
        live: bool = False,
        max_bytes: int | None = None,
        progress: Progress | None = None,
        stop: Event | None = None,
    ) -> Fetched:
        """Bring `source` (file or folder, relative to `base`) to `dest`: confined, whole files only.

        With `known` (path below `source` -> what was fetched; "" = the file that `source` is) only files
        that changed there or here travel, and it is brought up to date, also where the fetch fails: a
        second one goes on. `live` says that somebody writes there: what is open for writing or changed
        under way is named in `changed` and never gets its final name; without it, a changed file is kept
        where there is no older version.

        A folder's content goes into `dest`; a file becomes `dest`. Files already there that are not
        in the source stay. Absent `source` is told in `missing`, hostile entries in `refused`.
        """

    def close(self) -> None:
        """Close the connections; idempotent."""


class Dialer(Protocol):
    """Opens a `Remote`."""

    def dial(self, target: Target, *, timeout_s: float, stop: Event | None = None) -> Remote:
        """Try the target's addresses in order until one lets us in or `timeout_s` is over.

        One pass over the addresses, not a wait: the caller repeats. Raises ConnectFailed, Stopped.
        """
