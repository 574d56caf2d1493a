"""The shell text that runs on the rented machine: POSIX sh, tar (GNU's or busybox's), nothing else.

Both scripts speak English (LC_ALL=C) and print `mark`, a nonce, on stderr before their own first word
there, so that what a shell start file says is told apart.
"""

from __future__ import annotations

import posixpath
import shlex
from typing import Final

# Exit statuses of our own, away from tar's 1 and 2 and the shell's 126 and up.
NO_BASE: Final = 81
NO_SPACE: Final = 82

# The number before the one that ends in "%" is what is free, whatever spaces the first column holds. A
# file system that doesn't count its inodes says 0.
_FREE: Final = """\
free_of() { free=; before=; for word in $1; do case $word in
*[0-9]%) free=$before;; esac; before=$word; done
case $free in *[!0-9]*) free=;; esac; }
free_of "$(df -Pi . 2>/dev/null)"; free_inodes=$free
free_of "$(df -Pk . 2>/dev/null)"; free_kib=$free
"""


def _start(mark: str) -> str:
    return f"LC_ALL=C; export LC_ALL; set -f; unset TAR_OPTIONS; printf '\\n%s\\n' {mark} >&2\n"


def upload(base: str, mark: str, *, kib: int, files: int) -> str:
    """Unpack stdin into `base`, made if missing; prints `mark` and tar's status at the end.

    Ends with NO_SPACE where the disk hasn't `kib` KiB and `files` inodes free. What `base` already
    holds is not counted against it: the same tree may be sent again after a cut.
    """
    where = shlex.quote(base)
    return (
        _start(mark)
        + f"umask 077; mkdir -p -- {where} && cd -- {where} || exit {NO_BASE}\n"
        + _FREE
        + f"""\
if [ -n "$free_kib" ] && [ "$free_kib" -lt {kib} ]; then
have=$(du -skx . 2>/dev/null | cut -f 1); case $have in ''|*[!0-9]*) have=0;; esac
if [ $((free_kib + have)) -lt {kib} ]; then
echo "no space: $free_kib KiB free, {kib} KiB needed" >&2; exit {NO_SPACE}; fi; fi
if [ "${{free_inodes:-0}}" -gt 0 ] && [ "$free_inodes" -lt {files} ]; then
have=$(find . -xdev 2>/dev/null | wc -l)
if [ $((free_inodes + have)) -lt {files} ]; then
echo "no space: $free_inodes inodes free, {files} needed" >&2; exit {NO_SPACE}; fi; fi
tar -xopf -; status=$?
printf '%s %s\\n' {mark} "$status"
exit "$status"
"""
    )


# Bigger writes, hard links as files, names of which every byte can be read back from a warning.
_GNU: Final = "--format=gnu --hard-dereference --numeric-owner --quoting-style=escape --blocking-factor=128"
# What tar can't tell by itself: size, times and inode of each file, before and after.
_STATS: Final = "find . -type f -exec stat -c '%s %Y %Z %i %n' {} +"


def download(base: str, source: str, mark: str) -> str:
    """Print one line (folder, file or absent; gnu or plain), then a tar stream, then `mark` and status.

    With a tar that isn't GNU's, lists of the files' states follow: before, `mark`, after, `mark`.
    """
    head, name = posixpath.split(source.rstrip("/") or source)
    folder = shlex.quote(posixpath.join(base, source))
    above = shlex.quote(posixpath.join(base, head))
    member = shlex.quote(f"./{name}")
    return (
        _start(mark)
        + f"""\
if [ -d {folder} ]; then cd -- {folder} || exit {NO_BASE}; kind=folder; follow=; set -- .
elif [ -e {folder} ]; then cd -- {above} || exit {NO_BASE}; kind=file; follow=h; set -- {member}
else echo absent; exit 0; fi
case $(tar --version 2>/dev/null) in *"GNU tar"*) tar=gnu;; *) tar=plain;; esac
echo "$kind $tar"
if [ $tar = gnu ]; then
tar -c${{follow}}f - {_GNU} "$@"; status=$?
printf '\\n%s %s\\n' {mark} "$status"; exit 0; fi
states() {{ if [ $kind = folder ]; then {_STATS} 2>/dev/null
else stat -Lc '%s %Y %Z %i %n' "$@" 2>/dev/null; fi; }}
before=$(states "$@")
tar -c${{follow}}f - "$@"; status=$?
printf '\\n%s %s\\n' {mark} "$status"
printf '%s\\n%s\\n' "$before" {mark}
states "$@"; printf '%s\\n' {mark}
"""
    )
