"""The account's list of SSH keys: ours is found by its body, or added once.

Answers may hold private keys (of pairs that the market made): nothing of them is shown or kept.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from gipper.api import ConfigError, ProviderContext, ProviderError, wire
from gipper_shadeform.client import Ask, Client
from gipper_shadeform.errors import UNIQUE, failure

_WHAT: Final = "the account's SSH keys"
_LOCK: Final = "ssh-key.lock"
# Another gipper that adds its key is done long before.
LOCK_S: Final = 120.0
_LOOK_S: Final = 0.2
_NAMES: Final = 5


def key_id(context: ProviderContext, client: Client, public_key: str) -> str:
    """The id of `public_key` in the account, where it is added if it isn't there; never empty.

    Two processes of one user add it once. Raises ProviderError, ConfigError; nothing is rented by then.
    """
    body = _body(public_key)
    found = _find(client, body)
    if found is not None:
        return found
    with _alone(context):
        return _find(client, body) or _add(client, public_key, body)


def _find(client: Client, body: str) -> str | None:
    return next((i for i, _, known in _listed(client) if known == body), None)


def _listed(client: Client) -> Iterator[tuple[str, str, str]]:
    """(id, name, body) of each key."""
    answer = client.good(Ask(what=_WHAT, method="GET", path="/sshkeys", quiet=True))
    keys = answer.get("ssh_keys")
    if not isinstance(keys, list):
        raise ProviderError(f"shadeform: {_WHAT} were answered without a list")
    for row in map(wire.mapping, keys):
        ident, line = wire.text(row.get("id")), wire.text(row.get("public_key"))
        if ident and line:
            yield ident, wire.text(row.get("name")) or "", _body(line)


def _add(client: Client, public_key: str, body: str) -> str:
    """Add the key under a name of its own. A name that is taken is another key's: the next one is tried."""
    base = f"gipper-{fingerprint(body)}"
    for number in range(1, _NAMES + 1):
        name = base if number == 1 else f"{base}-{number}"
        made = _added(client, name, public_key) or _find(client, body)
        if made is not None:
            return made
    raise ProviderError(
        f"shadeform: gipper's SSH key could not be added: its names ({base}...) are other keys'",
        hint="delete old keys named gipper-... in Shadeform's console",
    )


def _added(client: Client, name: str, public_key: str) -> str | None:
    """The id of the key that was added; None where the name is taken."""
    what = "adding gipper's SSH key to the account"
    given: Mapping[str, Any] = {"name": name, "public_key": public_key}
    reply = client.reply(Ask(what=what, method="POST", path="/sshkeys/add", body=given, quiet=True))
    if not reply.good and reply.says(UNIQUE):
        return None
    if not reply.good:
        raise failure(reply, what)
    made = wire.text(reply.body.get("id"))
    if made is None:
        raise ProviderError(f"shadeform: {what}: the answer names no key")
    return made


def fingerprint(body: str) -> str:
    """A short name of a key's body."""
    data = body.partition(" ")[2]
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raw = data.encode()
    return hashlib.sha256(raw).hexdigest()[:12]


def _body(line: str) -> str:
    """Algorithm and key; the comment may have been changed."""
    return " ".join(line.split()[:2])


@contextmanager
def _alone(context: ProviderContext) -> Iterator[None]:
    """One process of this user at a time. Raises ProviderError after `LOCK_S`."""
    path = context.data_folder / _LOCK
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(
            f"shadeform: {path} can't be opened ({error.strerror})", hint="make its folder writable"
        ) from error
    try:
        _wait(context, handle)
        yield
    finally:
        os.close(handle)


def _wait(context: ProviderContext, handle: int) -> None:
    give_up = context.runtime.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if context.runtime.monotonic() >= give_up:
                raise ProviderError(
                    "shadeform: another gipper has been adding its SSH key for two minutes",
                    hint="end it, or try again",
                ) from None
            context.runtime.sleep(_LOOK_S)
        else:
            return
