"""Inputs that look sensitive, by name and content. A net with holes: it knows common shapes.

Every input's beginning comes by, so each rule first looks for a few plain bytes and only then for a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import attrs

from gipper.api import hookimpl

_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_EXAMPLES: Final = (".example", ".sample", ".template", ".dist")
_PLACEHOLDER: Final = re.compile(rb"example|placeholder|your[_-]|changeme|xxxx|\.\.\.|abcdefgh|12345678")


@attrs.frozen
class _Token:
    """A prefix that a service publishes; `body` begins after it."""

    service: str
    needles: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


def _token(service: str, pattern: bytes, *needles: bytes) -> _Token:
    return _Token(service, needles, re.compile(rb"(?<![A-Za-z0-9_-])(?:" + pattern + rb")"))


# Lengths are those that the services give out, so that a name in source code isn't one.
_TOKENS: Final = (
    _token("Hugging Face", rb"hf_[A-Za-z0-9]{30,}", b"hf_"),
    _token("API key", rb"sk-[A-Za-z0-9_-]{24,}", b"sk-"),
    _token("payment", rb"[rs]k_live_[A-Za-z0-9]{16,}", b"k_live_"),
    _token(
        "GitHub", rb"gh[opsur]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,}",
        b"ghp_", b"gho_", b"ghs_", b"ghu_", b"ghr_", b"github_pat_",
    ),
    _token("GitLab", rb"glpat-[A-Za-z0-9_-]{20,}", b"glpat-"),
    _token("AWS", rb"(?:AKIA|ASIA)[0-9A-Z]{16}(?![A-Za-z0-9])", b"AKIA", b"ASIA"),
    _token("Slack", rb"xox[abeoprs]-[0-9]+-[A-Za-z0-9-]{16,}", b"xox"),
    _token("Google", rb"AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{40,}", b"AIza", b"ya29."),
    _token("npm", rb"npm_[A-Za-z0-9]{36}", b"npm_"),
    _token("PyPI", rb"pypi-[A-Za-z0-9_-]{50,}", b"pypi-"),
    _token("Docker", rb"dckr_pat_[A-Za-z0-9_-]{20,}", b"dckr_pat_"),
    _token("Replicate", rb"r8_[A-Za-z0-9]{30,}", b"r8_"),
    _token("NVIDIA", rb"nvapi-[A-Za-z0-9_-]{40,}", b"nvapi-"),
    _token("W&B", rb"wandb_v1_[A-Za-z0-9_]{30,}", b"wandb_v1_"),
    _token("JWT", rb"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}", b".eyJ"),
)  # fmt: skip
_PEM: Final = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----[\s\\rn\"',+]*"
    rb"(?:[A-Za-z-]+: [^\n]{0,200}\s+){0,5}[A-Za-z0-9+/=]{40}"
)
# A value long enough to be drawn at random, after a name that tells what it holds. Such values are rare and
# such names are not: so the value is looked for first. Bounded and possessive: nothing is tried twice.
_VALUE: Final = re.compile(rb"[:=][ \t]{0,8}\\?[\"']?([A-Za-z0-9+/=_-]{20,200}+)(?![A-Za-z0-9+/=_(.\[-])")
_NAME: Final = re.compile(
    rb"(?:token|secret|passw(?:or)?d|passphrase|(?:api|access|secret|account)[_-]?key)\\?[\"']?[ \t]*\Z"
)
_NAME_BYTES: Final = 48
_JWT_BYTES: Final = 4096
_WORD: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-")
_SHAPE: Final = bytes(97 if c in _WORD else 32 for c in range(256))
# The shortest of the tokens above, without what stands before a dot.
_RUN: Final = b"a" * 20
_DIGIT: Final = re.compile(rb"[0-9]")
_ASSIGNED: Final = re.compile(rb"^[ \t]*(?:export[ \t]+)?[A-Za-z_]\w*[ \t]*=[ \t]*[\"']?[^\s\"'#$<]", re.M)
_USERINFO: Final = re.compile(rb"://(?:[^\s/:@]*:)?[^\s/:@$<{]{8,}@")
_JOINTS: Final = re.compile(rb"[-_/=+]")
_KUBE_USER: Final = re.compile(rb"client-key-data|\btoken[\"']?:|\bpassword[\"']?:|tokenFile|exec[\"']?:")


@hookimpl
def gipper_classify_upload(path: str, head: bytes) -> str | None:
    """What the input looks like, in a few words that never hold its content."""
    if not head:
        return None
    if head.startswith(_UTF16):
        head = head.replace(b"\0", b"")
    return "; ".join(dict.fromkeys(_reasons(path, head))) or None


def _reasons(path: str, head: bytes) -> Iterator[str]:
    name = path.rpartition("/")[2].lower()
    yield from _by_name(path.lower(), name, head)
    if b"PRIVATE KEY" in head and _PEM.search(head):
        yield "private key"
    if b"PuTTY-User-Key-File-" in head[:64]:
        yield "private key"
    if b"clusters" in head and b"users" in head and b"current-context" in head and _KUBE_USER.search(head):
        yield "kubeconfig"
    kind = "notebook with a token" if name.endswith(".ipynb") else "token"
    for around in _long_words(head):
        yield from (f"{kind} ({service})" for service in _tokens(around))
        if _assigned_secret(around):
            yield f"{kind} (assigned to a telling name)"


def _long_words(head: bytes) -> Iterator[bytes]:
    """What no token can do without, each with what stands around it: a long run of letters and digits.

    `translate` and `find` go through a file many times faster than a pattern for each kind of token."""
    shape, end = head.translate(_SHAPE), 0
    while (start := shape.find(_RUN, end)) >= 0:
        end = shape.find(b" ", start)
        end = len(head) if end < 0 else end
        if _DIGIT.search(head, start, end):
            after = _JWT_BYTES if head.find(b"eyJ", start, end) >= 0 else 1
            yield head[max(0, start - _NAME_BYTES) : end + after]


def _by_name(path: str, name: str, head: bytes) -> Iterator[str]:
    if _dotenv_name(name) and _ASSIGNED.search(head):
        yield "dotenv file"
    if name in (".netrc", "_netrc") and b"password" in head:
        yield "netrc with a password"
    if (path == ".git/config" or path.endswith("/.git/config")) and _USERINFO.search(head):
        yield "git remote with credentials"
    if _cloud(path, name, head):
        yield "cloud credentials"
    rule = _LOGINS.get(name)
    if rule is not None and rule(head):
        yield "stored login"


def _dotenv_name(name: str) -> bool:
    dotenv = name == ".env" or name.startswith(".env.") or name.endswith(".env") or name == ".envrc"
    return dotenv and not name.endswith(_EXAMPLES)


def _cloud(path: str, name: str, head: bytes) -> bool:
    if name == "credentials" and b"aws_secret_access_key" in head:
        return True
    if name.endswith(".json"):
        service = b'"service_account"' in head and b'"private_key"' in head
        return service or (b'"client_secret"' in head and b'"refresh_token"' in head)
    return f"/{path}".endswith(("/.azure/msal_token_cache.bin", "/.config/gcloud/credentials.db"))


_LOGINS: Final[dict[str, Callable[[bytes], object]]] = {
    ".git-credentials": _USERINFO.search,
    ".npmrc": lambda head: b":_authToken=" in head and b"_authToken=${" not in head,
    ".pypirc": lambda head: b"password" in head,
    ".pgpass": lambda head: b":" in head,
    "config.json": lambda head: b'"auths"' in head and b'"auth":' in head,
}


def _tokens(text: bytes) -> Iterator[str]:
    for one in _TOKENS:
        for needle in one.needles:
            if needle in text and any(_random(m[0]) for m in one.pattern.finditer(text)):
                yield one.service


def _assigned_secret(text: bytes) -> bool:
    return any(_random(m[1], digits=3) and _told(text, m.start()) for m in _VALUE.finditer(text))


def _told(text: bytes, end: int) -> bool:
    return _NAME.search(text[max(0, end - _NAME_BYTES) : end].lower()) is not None


def _random(text: bytes, digits: int = 1) -> bool:
    """Drawn by a machine, by its looks: many characters, digits among them, no placeholder."""
    if len(set(text)) < 10 or _PLACEHOLDER.search(text.lower()):
        return False
    count = sum(48 <= c <= 57 for c in text)
    return digits <= count and count < len(text) and not _worded(text)


def _worded(text: bytes) -> bool:
    """Words and small numbers joined by dashes, such as a model's name or a path: drawn by nobody."""
    return all(part.isalpha() or len(part) <= 5 for part in _JOINTS.split(text))
