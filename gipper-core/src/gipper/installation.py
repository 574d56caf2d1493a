"""Who we are: this installation's id in machine names, and the process that supervises a run."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import attrs

from gipper.errors import ConfigError
from gipper.folders import make_private
from gipper.naming import new_inst
from gipper.values.receipts import Owner

Alive = Literal["alive", "dead", "unknown"]

_FILE: Final = "installation.json"
_LOCK: Final = "installation.lock"
# Types of proc(5) mountinfo whose files several hosts may see at once.
_NETWORK_TYPES: Final = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "lustre", "gfs2", "ocfs2"),
        *("beegfs", "gpfs", "orangefs", "pvfs2", "9p", "virtiofs", "davfs", "fuse.davfs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone"),
        *("fuse.juicefs", "fuse.mount_s3", "fuse.seaweedfs"),
    }
)


@attrs.frozen(kw_only=True)
class HostIdentity:
    """What tells this host, its boot and this pid namespace from others; `host_id` is a hash."""

    host_id: str
    boot_id: str
    pid_ns: str


@attrs.frozen(kw_only=True)
class Installation:
    """`renewed_from` is the id that was given up in this very call, None otherwise."""

    inst: str
    renewed_from: str | None = None


def this_host() -> HostIdentity:
    """The identity of this host and process, read from /etc and /proc.

    The machine id itself is confidential by its own manual page, so that only a hash leaves here.
    """
    machine = _text("/etc/machine-id") or socket.gethostname()
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return HostIdentity(
        host_id=_hash("gipper host", machine),
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
        pid_ns=namespace,
    )


def installation_id(
    data: Path, *, host: HostIdentity, on_network: Callable[[Path], bool] | None = None
) -> Installation:
    """The id of the installation whose data folder is `data`, drawn at first use.

    It is bound to the host, or on a network file system to the folder (device and inode): in a copy
    elsewhere a new one is drawn, and this one result says so. Raises ConfigError where it can't be
    kept.
    """
    try:
        make_private(data)
        with _locked(data / _LOCK):
            shared = (on_network or is_network_filesystem)(data)
            return _installation(data, _folder_hash(data) if shared else host.host_id)
    except OSError as error:
        raise ConfigError(
            f"this installation's id can't be kept in {data}: {error.strerror or error}",
            hint=f"check that {data} is a folder of yours that can be written, or set GIPPER_DATA",
        ) from error


def owner_of_this_process(host: HostIdentity | None = None) -> Owner:
    """This process, so that a later one can tell whether it still lives."""
    here = host or this_host()
    pid = os.getpid()
    return Owner(
        host_id=here.host_id,
        boot_id=here.boot_id,
        pid_ns=here.pid_ns,
        pid=pid,
        start_ticks=start_ticks(pid) or 0,
    )


def owner_alive(
    owner: Owner,
    *,
    host: HostIdentity | None = None,
    ticks_of: Callable[[int], int | None] | None = None,
) -> Alive:
    """Whether the process lives, as far as `host` (this one by default) can tell.

    `ticks_of(pid)` is the start time of a living process, None where there is none; PermissionError
    where the system won't tell.
    """
    here = host or this_host()
    if owner.host_id != here.host_id:
        return "unknown"
    if owner.boot_id != here.boot_id:
        return "dead"
    if owner.pid_ns != here.pid_ns:
        return "unknown"
    try:
        ticks = (ticks_of or start_ticks)(owner.pid)
    except PermissionError:
        return "unknown"
    return "alive" if ticks is not None and ticks == owner.start_ticks else "dead"


def start_ticks(pid: int) -> int | None:
    """When process `pid` started, in clock ticks since boot; None where it is gone or a zombie.

    Raises PermissionError where it exists but /proc hides it.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        _refuse_hidden(pid)
        return None
    return parse_stat(stat)


def parse_stat(stat: str) -> int | None:
    """The start time in the text of /proc/PID/stat (field 22); None for a zombie."""
    # The program's name stands in brackets and may itself hold spaces and brackets.
    fields = stat.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in {"Z", "X"}:
        return None
    return int(fields[19])


def is_network_filesystem(path: Path) -> bool:
    """True where other hosts may write `path` too, by /proc/self/mountinfo; False where it can't be told."""
    place = path.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return filesystem_type(_text("/proc/self/mountinfo"), place.resolve()) in _NETWORK_TYPES


def filesystem_type(mountinfo: str, path: Path) -> str:
    """The type of the file system that `path` (absolute, resolved) lies on; "" where it isn't said."""
    best, found = -1, ""
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields = before.split(" ")
        if not dash or len(fields) < 5:
            continue
        point = Path(_unescaped(fields[4]))
        # Of two mounts on one point the later one hides the earlier.
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, found = len(point.parts), after.split(" ")[0]
    return found


def _installation(data: Path, bound_to: str) -> Installation:
    kept = _kept(data / _FILE)
    if kept is not None and kept[1] == bound_to:
        return Installation(inst=kept[0])
    inst = new_inst()
    _keep(data / _FILE, {"inst": inst, "bound_to": bound_to})
    return Installation(inst=inst, renewed_from=None if kept is None else kept[0])


def _kept(path: Path) -> tuple[str, str] | None:
    try:
        record = json.loads(path.read_text())
        return str(record["inst"]), str(record["bound_to"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return "unreadable", ""


def _keep(path: Path, record: dict[str, str]) -> None:
    fresh = path.with_name(path.name + ".new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, json.dumps(record).encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    fresh.replace(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _refuse_hidden(pid: int) -> None:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return
    # It may also have ended just now; then the next look says so.
    raise PermissionError(f"process {pid} can't be looked at")


def _folder_hash(folder: Path) -> str:
    info = folder.stat()
    return _hash("gipper folder", f"{info.st_dev}:{info.st_ino}")


def _hash(what: str, text: str) -> str:
    return hashlib.sha256(f"{what}:{text}".encode()).hexdigest()[:32]


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), text)
