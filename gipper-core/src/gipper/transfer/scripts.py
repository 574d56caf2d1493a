"""The shell text that runs on the rented machine: POSIX sh and tar (GNU's or busybox's); what needs
more looks for it first.

All scripts speak English (LC_ALL=C) and print `mark`, a nonce, on stderr before their own first word
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

    The stream must hold each folder before what lies in it.

    Ends with NO_SPACE where the disk hasn't `kib` KiB and `files` inodes free. What `base` already
    holds is not counted against it: the same tree may be sent again after a cut.
    """
    where = shlex.quote(base)
    # busybox's tar has no -p: for ordinary users it takes the umask off all modes. 0 is safe, as every mode
    # stands in the stream.
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
umask 0; tar -xopf -; status=$?
printf '%s %s\\n' {mark} "$status"
exit "$status"
"""
    )


# Bigger writes, hard links as files, names of which every byte can be read back from a warning.
_GNU: Final = (
    "--format=gnu --blocking-factor=128 --hard-dereference --numeric-owner"
    " --quoting-style=escape --no-unquote"
)
# One thing per record; both kinds of listing start names with "./".
_EXACT: Final = "find $follow \"$@\" $prune -printf '%y %s %T@ %i %p\\0'"
_COARSE: Final = "stat $follow -c '%f %s %Y %i %n'"
# The kernel tells by a link's mode what a descriptor is open for.
_OPEN: Final = "(set +f; ls -l /proc/[0-9]*/fd) 2>/dev/null | sed -n '/^l.w/s/^[^>]* -> \\//\\//p'"
_TAR_KIND: Final = 'case $(tar --version 2>/dev/null) in *"GNU tar"*) tar=gnu;; *) tar=plain;; esac\n'
# What tar can't tell by itself: size, times and inode of each file, before and after.
_STATS: Final = "find . -type f -exec stat -c '%s %Y %Z %i %n' {} +"


def download(base: str, source: str, mark: str) -> str:
    """Print one line (folder, file or absent; gnu or plain), then a tar stream, then `mark` and status.

    With a tar that isn't GNU's, lists of the files' states follow: before, `mark`, after, `mark`.
    """
    folder = shlex.quote(posixpath.join(base, source))
    above, member = _above(base, source)
    return (
        _start(mark)
        + f"""\
if [ -d {folder} ]; then cd -- {folder} || exit {NO_BASE}; kind=folder; follow=; set -- .
elif [ -e {folder} ]; then cd -- {above} || exit {NO_BASE}; kind=file; follow=h; set -- {member}
else echo absent; exit 0; fi
{_TAR_KIND}echo "$kind $tar"
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


def listing(base: str, source: str, mark: str) -> str:
    """Print what `source` holds: a head line, then with exact or coarse times the states of everything.

    Head: "absent"; "plain" (this machine hasn't the tools); or kind (folder, file), tar (gnu, plain),
    detail (exact, coarse) and the seconds of its clock. Then the folder's real path, the paths that are
    open for writing, `mark`, the states (ended by NUL where exact, else by line ends), `mark`.
    """
    where = shlex.quote(posixpath.join(base, source))
    above, member = _above(base, source)
    return (
        _start(mark)
        + f"""\
if [ -d {where} ]; then cd -- {where} || exit {NO_BASE}; kind=folder; follow=; set -- .
elif [ -e {where} ]; then cd -- {above} || exit {NO_BASE}; kind=file; follow=-L; set -- {member}
else echo absent; exit 0; fi
for tool in cat find ls sed stat; do
command -v $tool >/dev/null 2>&1 || {{ echo plain; exit 0; }}; done
{_TAR_KIND}prune=; detail=coarse; find . -prune -printf '' 2>/dev/null && detail=exact
echo "$kind $tar $detail $(date +%s)"
pwd -P
{_OPEN}
echo {mark}
if [ $detail = exact ]; then {_EXACT}
elif [ $kind = file ]; then {_COARSE} "$@"
else find . -exec {_COARSE} {{}} +; fi
echo {mark}
"""
    )


def some(folder: str, mark: str, *, gnu: bool, exact: bool, follow: bool, settle: bool) -> str:
    """A tar stream of those things in `folder` whose names (a line each, "./" before) come on stdin.

    Then `mark` and tar's status; after a second, if it should `settle`, the paths that are open for
    writing, `mark`, the states as in `listing`, `mark`. All names must fit into one command line.
    """
    flags = _GNU if gnu else ""
    states = _EXACT if exact else f'{_COARSE} "$@"'
    return (
        _start(mark)
        + f"""\
cd -- {shlex.quote(folder)} || exit {NO_BASE}
IFS='
'; set -- $(cat); unset IFS
prune=-prune; follow={"-L" if follow else ""}
tar -c{"h" if follow else ""}f - {flags} --no-recursion "$@"; status=$?
printf '\\n%s %s\\n' {mark} "$status"
{"sleep 1" if settle else ":"}
{_OPEN}
echo {mark}
{states} 2>/dev/null
echo {mark}
"""
    )


def _above(base: str, source: str) -> tuple[str, str]:
    head, name = posixpath.split(source.rstrip("/") or source)
    return shlex.quote(posixpath.join(base, head)), shlex.quote(f"./{name}")
