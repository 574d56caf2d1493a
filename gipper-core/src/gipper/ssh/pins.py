"""Host keys: what a machine's key must be, kept in a known_hosts file of the run's own.

One line per machine under an alias (OpenSSH reads the file with ``HostKeyAlias``), so that two
machines at one address, or one machine at two, never meet. The user's file is not touched.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import os
import re
from pathlib import Path
from typing import Final

import attrs

from gipper.errors import ConnectFailed, RemoteError

_PLAIN: Final = re.compile(r"[^a-z0-9.-]")


@attrs.frozen(kw_only=True)
class HostKey:
    """A server's public key: its type ("ssh-ed25519") and its SSH wire form."""

    type: str
    blob: bytes

    @classmethod
    def parse(cls, text: str) -> HostKey | None:
        """From "TYPE BASE64 [comment]"; None where it isn't that."""
        parts = text.split()
        if len(parts) < 2:
            return None
        try:
            return cls(type=parts[0], blob=base64.b64decode(parts[1], validate=True))
        except binascii.Error:
            return None

    @property
    def fingerprint(self) -> str:
        """As OpenSSH prints it: ``SHA256:`` and unpadded base64."""
        digest = hashlib.sha256(self.blob).digest()
        return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")

    def __str__(self) -> str:
        return f"{self.type} {base64.b64encode(self.blob).decode('ascii')}"


def host_alias(machine_id: str) -> str:
    """The name of a machine in the pins file, and what ``HostKeyAlias`` must say.

    OpenSSH matches names in lower case and reads some characters as patterns: those are escaped, so
    that different ids have different aliases.
    """
    return _PLAIN.sub(lambda m: f"_{ord(m[0]):x}_", machine_id)


def read_pin(pins: Path, machine_id: str) -> HostKey | None:
    """The key that was recorded for this machine; None before the first contact.

    Raises ConnectFailed (host_key) where the line of this machine can't be read.
    """
    try:
        text = pins.read_text("utf-8", "replace")
    except FileNotFoundError:
        return None
    return _find(text, host_alias(machine_id), pins)


def check_pin(pins: Path, machine_id: str, seen: HostKey, given: str | None) -> None:
    """Accept `seen` as this machine's key: recorded at first contact, the same ever after.

    `given` is the provider's own word; it must fit too. Raises ConnectFailed with kind host_key.
    """
    if given is not None:
        _must_equal(_given(given), seen, machine_id, "the provider says")
    try:
        pinned = _pin(pins, machine_id, seen)
    except OSError as error:
        raise RemoteError(f"the host keys in {pins} can't be kept: {error.strerror}") from None
    _must_equal(pinned, seen, machine_id, "it was at first contact")


def _pin(pins: Path, machine_id: str, seen: HostKey) -> HostKey:
    pins.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(pins, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "r+", encoding="utf-8", errors="replace") as file:
        # Two connections may be first at once: only one of them may decide.
        fcntl.flock(fd, fcntl.LOCK_EX)
        pinned = _find(file.read(), host_alias(machine_id), pins)
        if pinned is None:
            file.write(f"{host_alias(machine_id)} {seen}\n")
            file.flush()
            os.fsync(fd)
        return pinned or seen


def wanted_type(pins: Path, machine_id: str, given: str | None) -> str | None:
    """The type of key to ask the server for; None where any will do."""
    if given is not None:
        return _given(given).type
    pinned = read_pin(pins, machine_id)
    return pinned.type if pinned else None


def _find(text: str, alias: str, pins: Path) -> HostKey | None:
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name == alias:
            key = HostKey.parse(rest)
            if key is None:
                raise ConnectFailed(f"the host key of {alias} in {pins} can't be read", kind="host_key")
            return key
    return None


def _given(text: str) -> HostKey:
    key = HostKey.parse(text)
    if key is None:
        raise ConnectFailed("the provider gave a host key that can't be read", kind="host_key")
    return key


def _must_equal(wanted: HostKey, seen: HostKey, machine_id: str, whose: str) -> None:
    if wanted != seen:
        raise ConnectFailed(
            f"the host key of machine {machine_id} is {seen.type} {seen.fingerprint}, "
            f"but {whose} {wanted.type} {wanted.fingerprint}",
            kind="host_key",
        )
