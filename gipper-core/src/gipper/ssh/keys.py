"""gipper's own key pair: the only key that is ever offered to a machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from gipper.errors import ConfigError
from gipper.folders import make_private

KEY_NAME: Final = "id_ed25519"
_COMMENT: Final = "gipper"
_OTHERS: Final = 0o077
_OTHERS_WRITE: Final = 0o022


@attrs.frozen(kw_only=True)
class KeyPair:
    """A private key's file (OpenSSH format) and its public half as one authorized_keys line."""

    private: Path
    public: str


def ensure_key(folder: Path) -> KeyPair:
    """The key pair in `folder`, made at first use: 0600 in a folder of 0700, one key for all processes.

    Raises ConfigError where others can read the key or write to its folder, or where it is damaged.
    """
    _ensure_folder(folder)
    private = folder / KEY_NAME
    with _locked(folder / f"{KEY_NAME}.lock"):
        if not private.exists():
            _make(private)
        check_private(private)
        return KeyPair(private=private, public=_public_line(private))


def check_private(private: Path) -> None:
    """Raise ConfigError where `private` is missing or readable by anyone but its owner."""
    try:
        mode = private.stat().st_mode
    except OSError as error:
        raise ConfigError(f"the ssh key {private} can't be read: {error.strerror}") from None
    if mode & _OTHERS:
        raise ConfigError(
            f"the ssh key {private} can be read by others (mode {mode & 0o777:03o})",
            hint=f"chmod 600 {private}",
        )


def _ensure_folder(folder: Path) -> None:
    try:
        make_private(folder)
        mode = folder.stat().st_mode
    except OSError as error:
        raise ConfigError(f"the key folder {folder} can't be made: {error.strerror}") from None
    if mode & _OTHERS_WRITE:
        raise ConfigError(f"others can write to the key folder {folder}", hint=f"chmod 700 {folder}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _make(private: Path) -> None:
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    text = Ed25519PrivateKey.generate().private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.OpenSSH, forms.NoEncryption()
    )
    unfinished = private.with_suffix(".new")
    # The lock is held: what lies here was left by a process that died while it wrote.
    unfinished.unlink(missing_ok=True)
    _write_new(unfinished, text)
    unfinished.rename(private)
    public = private.with_suffix(".pub")
    public.unlink(missing_ok=True)
    _write_new(public, _public_line(private).encode() + b"\n")


def _write_new(path: Path, text: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(fd)


def _public_line(private: Path) -> str:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization as forms

    try:
        key = forms.load_ssh_private_key(private.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"the ssh key {private} is damaged or needs a passphrase: {error}",
            hint=f"move {private} away; gipper makes a new one at the next run",
        ) from None
    line = key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
    return f"{line.decode('ascii')} {_COMMENT}"
