"""What each key of a box may be: a function per key gives the value, or says what it should be."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from gipper.api import country_code, usd

_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")
_IPV6: Final = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_MOST_USD_H: Final = Decimal(1000)


class Wrong(Exception):
    """What the value should have been; completes "... is not"."""


def host_key(text: object) -> str:
    """ "TYPE BASE64", without a comment. Raises Wrong."""
    parts = text.split() if isinstance(text, str) else []
    if len(parts) >= 2 and is_key(parts[0], parts[1]):
        return f"{parts[0]} {parts[1]}"
    raise Wrong('a host key like "ssh-ed25519 AAAA..." (see /etc/ssh/ssh_host_ed25519_key.pub on the box)')


def is_key(kind: str, blob: str) -> bool:
    """Whether `blob` is base64 of a key that says of itself that it is a `kind`."""
    try:
        raw = base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError):
        return False
    return kind.isascii() and raw[4 : 4 + len(kind)] == kind.encode()


def _text(pattern: re.Pattern[str], what: str) -> Callable[[Any], str]:
    def rule(value: Any) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise Wrong(what)
        return value

    return rule


def _words(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > 100:
        raise Wrong("a text of at most 100 characters on one line")
    return value


def _address(value: Any) -> str:
    if not isinstance(value, str) or not (_HOST.fullmatch(value) or _IPV6.fullmatch(value)):
        raise Wrong("a host name or a bare IP address (the port has a key of its own)")
    return value


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def rule(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise Wrong(f"a whole number from {least} to {most}")
        return value

    return rule


def _number(value: Any, most: Decimal) -> Decimal | None:
    if not isinstance(value, (int, Decimal)) or isinstance(value, bool):
        return None
    number = Decimal(value)
    return number if number.is_finite() and 0 <= number <= most else None


def _dollars(value: Any) -> Decimal:
    number = _number(value, _MOST_USD_H)
    if number is None:
        raise Wrong(f"dollars an hour from 0 to {_MOST_USD_H}")
    return usd(number)


def _rate(value: Any) -> float:
    number = _number(value, Decimal(10**6))
    if not number:
        raise Wrong("a rate in Mb/s above 0")
    return float(number)


def _country(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 2 or country_code(value.upper()) != value.upper():
        raise Wrong('a country\'s code of two letters, like "DE"')
    return value.upper()


def _file(value: Any) -> Path:
    try:
        path = Path(value).expanduser() if isinstance(value, str) and value.isprintable() else None
    except RuntimeError:
        path = None
    if path is None or not path.is_absolute() or '"' in str(path):
        raise Wrong("the absolute path of a private key's file (~ is allowed)")
    return path


RULES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "name": _text(_NAME, "a name of up to 32 small letters, digits and inner hyphens"),
    "address": _address,
    "port": _whole(1, 65535),
    "user": _text(_USER, "a user's name"),
    "key": _file,
    "host_key": host_key,
    "gpus": _whole(0, 64),
    "gpu": _words,
    "usd_h": _dollars,
    "country": _country,
    "where": _words,
    "down_mbps": _rate,
    "up_mbps": _rate,
}
