"""Tokens known by their looks: prefixes that services publish, assignments to telling names, JWTs.

For texts whose secrets nobody told us, such as a job's command; known values are `Redactor`'s work.
"""

from __future__ import annotations

import re
from typing import Final

REDACTED: Final = "<redacted>"

# Every run that must be followed by something is bounded: these see hostile text, and a long word must
# not be scanned again from each of its letters.

# Each service documents its own prefix so that scanners may know it.
_PREFIXED: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"hf_[A-Za-z0-9]{8,}"
    r"|sk-[A-Za-z0-9_-]{12,}|[rs]k_(?:live|test)_[A-Za-z0-9]{8,}"
    r"|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}"
    r"|npm_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{20,}|dckr_pat_[A-Za-z0-9_-]{16,}|r8_[A-Za-z0-9]{20,}"
    r"|wandb_v1_[A-Za-z0-9_]{16,}|nvapi-[A-Za-z0-9_-]{16,}"
    r"|eyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r")"
)
_PEM: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_BEARER: Final = re.compile(r"(?i)(?P<keep>\b(?:bearer|basic)\s+)(?P<drop>[A-Za-z0-9._~+/=-]{8,})")
_USERINFO: Final = re.compile(
    r"(?P<keep>\b[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s/:@'\"]{0,256}:)(?P<drop>[^\s/@'\"]{1,1024})(?=@)"
)
# A value that begins with $ is a reference to a variable, not a secret.
_NAMED: Final = re.compile(
    r"(?i)(?P<keep>(?<![A-Z0-9_-])[A-Z0-9_-]{0,80}?(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|"
    r"secret[_-]?key|private[_-]?key|credentials?)(?:_?[0-9]+|_value|_b(?:ase)?64)?"
    r"(?:\s*[=:]\s*|\s+(?=[^-\s])))"
    r"(?P<drop>\"(?!\$)[^\"\n]+\"|'[^'\n]+'|(?![\"'$])[^\s\"';|&)]+)"
)
_USER_FLAG: Final = re.compile(r"(?P<keep>(?<!\S)(?:-u|--user)[ =]?[^\s:]+:)(?P<drop>(?!\$)[^\s'\"]+)")


def token_shapes(text: str) -> str:
    """`text` with everything that looks like a token, password or private key replaced."""
    text = _PEM.sub(REDACTED, text)
    text = _USERINFO.sub(_keep, text)
    text = _BEARER.sub(_keep, text)
    text = _USER_FLAG.sub(_keep, text)
    text = _NAMED.sub(_named, text)
    return _PREFIXED.sub(REDACTED, text)


def _keep(match: re.Match[str]) -> str:
    return match["keep"] + REDACTED


def _named(match: re.Match[str]) -> str:
    """Prose such as "token count" has no separator: there only a command-line flag counts."""
    keep = match["keep"]
    if keep != keep.rstrip() and not keep.rstrip().endswith(("=", ":")) and not keep.startswith("-"):
        return match[0]
    return match[0] if match["drop"] == REDACTED else keep + REDACTED
