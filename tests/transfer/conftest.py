"""What the transfer tests share: a byte channel over a local shell, and trees to compare."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support_root import tmpfs

from gipper.errors import CommandTimeout, ConnectionLost
from gipper.runtime import RealRuntime
from gipper.ssh.bytechannel import InputClosed


class LocalChannel:
    """A ByteChannel over ``/bin/sh -c`` on this host; `cut_after` breaks it after so many bytes."""

    def __init__(
        self, script: str, *, cut_after: int | None = None, env: dict[str, str] | None = None
    ) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", script], bufsize=0, env=env, start_new_session=True, **pipes
        )
        self._stderr = bytearray()
        self._left = cut_after
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        while data := self.process.stderr.read(65536):
            self._stderr += data

    def _spend(self, count: int) -> None:
        if self._left is not None:
            self._left -= count
            if self._left < 0:
                self._kill()
                raise ConnectionLost("cut by the test")

    def write(self, data: bytes | memoryview) -> None:
        self._spend(len(data))
        view = memoryview(data)
        try:
            while view:
                view = view[self.process.stdin.write(view) :]
        except BrokenPipeError as error:
            raise InputClosed("stdin is closed") from error

    def close_write(self) -> None:
        if not self.process.stdin.closed:
            self.process.stdin.close()

    def read(self, n: int) -> bytes:
        data = self.process.stdout.read(n)
        self._spend(len(data))
        return data

    def poll_stderr(self) -> bytes:
        if self.process.poll() is not None:
            self._listener.join(5)
        out = bytes(self._stderr)
        del self._stderr[: len(out)]
        return out

    def status(self, timeout_s: float) -> int:
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise CommandTimeout("no end") from error
        self._listener.join(5)
        return code if code >= 0 else 128 - code

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        self.close_write()
        self._kill()
        self.process.wait()
        self._listener.join(5)
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def runtime() -> RealRuntime:
    return RealRuntime()


@pytest.fixture
def open_local() -> Callable[..., LocalChannel]:
    return LocalChannel


@pytest.fixture(scope="session")
def open_local_session() -> Callable[..., LocalChannel]:
    return LocalChannel


def snapshot(top: Path) -> dict[bytes, tuple[str, int, bytes, int]]:
    """path → (type, mode, content or target, whole seconds of mtime) of everything below `top`."""
    out: dict[bytes, tuple[str, int, bytes, int]] = {}
    root = os.fsencode(top)
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            seen, key = os.lstat(path), os.path.relpath(path, root)
            if os.path.islink(path):
                out[key] = ("link", 0, os.readlink(path), 0)
            elif os.path.isdir(path):
                out[key] = ("dir", seen.st_mode & 0o7777, b"", 0)
            else:
                with open(path, "rb") as file:
                    out[key] = ("file", seen.st_mode & 0o7777, file.read(), int(seen.st_mtime))
    return out


@pytest.fixture(scope="session")
def see() -> Callable[[Path], dict[bytes, tuple[str, int, bytes, int]]]:
    return snapshot


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    with tmpfs(tmp_path / "disk", "4m") as disk:
        yield disk


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that a throw-away user can reach, too (pytest's own are closed to others)."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)
