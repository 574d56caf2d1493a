"""What holds for every test: no keys, no network, folders of its own, and no process left behind."""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["gipper.testing.pytest_plugin"]

# A provider's key, its base URL, a proxy or gipper's own settings must never reach a test: its reaper
# could end real machines.
_PRIVATE = re.compile(
    r"GIPPER_.*|.*_API_KEY|.*_API_URL|.*_BASE_URL|.*_TOKEN|(HTTPS?|ALL|NO)_PROXY|XDG_(CONFIG|DATA)_HOME",
    re.IGNORECASE,
)
_REAL_CONNECT = socket.socket.connect
_REAL_CONNECT_EX = socket.socket.connect_ex
_LEAVE_S = 5.0
# program → Debian's package. An ordinary user's PATH leaves out the folder of sshd.
_NEEDED = {"sshd": "openssh-server", "ssh": "openssh-client", "gcc": "gcc", "rsync": "rsync"}
_MORE_FOLDERS = ("/usr/sbin", "/usr/local/sbin")


class BlockedConnect(RuntimeError):
    """A test tried to reach an address outside loopback. Not an OSError: nothing should handle it."""


def _strip_environment() -> None:
    for name in [n for n in os.environ if _PRIVATE.fullmatch(n)]:
        del os.environ[name]


def _is_loopback(host: str) -> bool:
    if host in ("localhost", ""):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _check_address(sock: socket.socket, address: Any) -> None:
    if sock.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(str(address[0])):
        raise BlockedConnect(f"a test may only reach loopback, not {address}")


def _guarded_connect(self: socket.socket, address: Any) -> None:
    _check_address(self, address)
    _REAL_CONNECT(self, address)


def _guarded_connect_ex(self: socket.socket, address: Any) -> int:
    _check_address(self, address)
    return _REAL_CONNECT_EX(self, address)


def _missing() -> list[str]:
    """Debian's packages of which the tests need a program that isn't here."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_MORE_FOLDERS))
    return sorted({p for program, p in _NEEDED.items() if shutil.which(program, path=path) is None})


def pytest_configure(config: pytest.Config) -> None:
    if missing := _missing():
        told = f"the tests need {', '.join(missing)}; type: sudo apt install openssh-server gcc rsync"
        pytest.exit(told, returncode=pytest.ExitCode.USAGE_ERROR)
    _strip_environment()
    socket.socket.connect = _guarded_connect  # type: ignore[method-assign]
    socket.socket.connect_ex = _guarded_connect_ex  # type: ignore[method-assign]


def pytest_unconfigure(config: pytest.Config) -> None:
    socket.socket.connect = _REAL_CONNECT  # type: ignore[method-assign]
    socket.socket.connect_ex = _REAL_CONNECT_EX  # type: ignore[method-assign]


@pytest.fixture(scope="session", autouse=True)
def no_process_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """At the session's end: processes that still carry the tests' folders are ended, and that fails."""
    base = tmp_path_factory.getbasetemp()
    yield
    # A process in the middle of its exec has no environment to read yet: one look could miss it.
    time.sleep(0.05)
    left = _leftovers(base)
    deadline = time.monotonic() + _LEAVE_S
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = _leftovers(base)
    told = [_describe(pid) for pid in left]
    for pid in left:
        _end(pid)
    assert not told, "processes were left behind (now ended):\n" + "\n".join(told)


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME and gipper's folders are new and empty for each test; returns the folder that holds them."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIPPER_DATA", str(home / "data"))
    monkeypatch.setenv("GIPPER_CONFIG", str(home / "config" / "config.toml"))
    monkeypatch.setenv("GIPPER_KEYS", str(home / "keys"))
    return home


def _leftovers(base: Path) -> list[int]:
    """Processes with `base` in environment, arguments or cwd; not this one, nor its ancestors."""
    mark = os.fsencode(f"{base}/")
    mine = _ancestors(os.getpid())
    pids = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
    return [pid for pid in pids if pid not in mine and _carries(pid, mark)]


def _carries(pid: int, mark: bytes) -> bool:
    folder = Path("/proc") / str(pid)
    try:
        if _stat(pid)[0] == "Z":
            return False
        texts = [(folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()]
        texts.append(os.fsencode(os.readlink(folder / "cwd")))
    except OSError:
        return False
    return any(mark in text for text in texts)


def _ancestors(pid: int) -> set[int]:
    seen = {pid}
    while pid > 1:
        try:
            pid = int(_stat(pid)[1])
        except OSError:
            break
        seen.add(pid)
    return seen


def _stat(pid: int) -> list[str]:
    """State, parent and what follows, of /proc/PID/stat."""
    text = (Path("/proc") / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()


def _describe(pid: int) -> str:
    try:
        words = (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        words = b"?"
    return f"  {pid} {words.decode('utf-8', 'replace')[:200]}"


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
