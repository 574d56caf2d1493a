"""The tests' own guards: that they would notice."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent


def _session(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    """A pytest session of its own, under the same conftest, with one test file."""
    for name in ("conftest.py", "pytest.ini"):
        shutil.copy(TESTS / name, folder)
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    asked = [sys.executable, "-m", "pytest", "-q", "--basetemp", str(folder / "base"), str(folder)]
    # Without this session's own mark in arguments and environment, or it would count as left behind.
    env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    return subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False, cwd=folder, env=env)


def test_a_process_left_behind_fails_the_session(tmp_path: Path) -> None:
    """A daemon that a test forgot is ended, and the session fails though every test passed."""
    done = _session(
        tmp_path,
        "import subprocess\n"
        "def test_forgets(tmp_path):\n"
        "    child = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        "    (tmp_path.parent.parent / 'pid').write_text(str(child.pid))\n",
    )
    assert done.returncode == 1, done.stdout
    assert "processes were left behind" in done.stdout
    pid = int((tmp_path / "pid").read_text())
    assert (
        not Path(f"/proc/{pid}").exists()
        or "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    )


def test_a_tidy_session_passes(tmp_path: Path) -> None:
    """A session that leaves nothing passes."""
    done = _session(tmp_path, "def test_tidy():\n    pass\n")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("address", ["192.0.2.1", "8.8.8.8", "example.org"])
def test_other_hosts_cannot_be_reached(address: str) -> None:
    """A connect outside loopback is refused before a packet leaves."""
    with socket.socket() as sock, pytest.raises(RuntimeError, match="only reach loopback"):
        sock.connect((address, 80))


def test_loopback_can_be_reached() -> None:
    """Loopback is open: emulators and machines live there."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()[:2]):
        pass


def test_keys_and_settings_are_gone(own_folders: Path) -> None:
    """No key, base URL or setting of the person who runs the tests is visible in them."""
    named = [n for n in os.environ if n.endswith(("_API_KEY", "_BASE_URL", "_API_URL"))]
    assert not named
    assert {n for n in os.environ if n.startswith("GIPPER_")} == {
        "GIPPER_DATA",
        "GIPPER_CONFIG",
        "GIPPER_KEYS",
    }
    assert os.environ["HOME"] == str(own_folders)
