"""gipper's own key pair."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gipper.errors import ConfigError
from gipper.ssh.keys import KEY_NAME, ensure_key

MAKE = """
import pathlib, sys
from gipper.ssh.keys import ensure_key
print(ensure_key(pathlib.Path(sys.argv[1])).public)
"""


def test_made_once_and_private(tmp_path: Path) -> None:
    """The key is 0600 in a folder of 0700, and the second call answers with the same key."""
    pair = ensure_key(tmp_path / "a" / "keys")
    assert ensure_key(tmp_path / "a" / "keys") == pair
    assert stat.S_IMODE(pair.private.stat().st_mode) == 0o600
    assert stat.S_IMODE(pair.private.parent.stat().st_mode) == 0o700


def test_openssh_agrees(tmp_path: Path) -> None:
    """ssh-keygen reads the private file and derives the same public line."""
    pair = ensure_key(tmp_path)
    derived = subprocess.run(
        ["ssh-keygen", "-y", "-f", str(pair.private)], check=True, capture_output=True, text=True
    )
    assert derived.stdout.split()[:2] == pair.public.split()[:2]
    assert pair.private.with_suffix(".pub").read_text() == pair.public + "\n"


def test_two_processes_make_one_key(tmp_path: Path) -> None:
    """Processes that start at once all end up with the same key."""
    command = [sys.executable, "-c", MAKE, str(tmp_path / "keys")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    lines = {process.communicate(timeout=60)[0] for process in running}
    assert len(lines) == 1
    assert lines.pop().startswith("ssh-ed25519 ")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """Loose permissions are refused, with the command that mends them."""
    private = ensure_key(tmp_path).private
    private.chmod(mode)
    with pytest.raises(ConfigError) as caught:
        ensure_key(tmp_path)
    assert caught.value.hint == f"chmod 600 {private}"


def test_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    """Who can write to the folder could put a key there."""
    folder = tmp_path / "keys"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match="others can write"):
        ensure_key(folder)


def test_damaged_key_is_told(tmp_path: Path) -> None:
    """A file that is no key is refused and left alone."""
    private = tmp_path / KEY_NAME
    private.write_text("nonsense\n")
    private.chmod(0o600)
    with pytest.raises(ConfigError, match="damaged"):
        ensure_key(tmp_path)
    assert private.read_text() == "nonsense\n"


def test_half_written_key_of_a_dead_process(tmp_path: Path) -> None:
    """What a killed process left beside is swept away; the key is whole."""
    (tmp_path / "id_ed25519.new").write_text("half")
    assert ensure_key(tmp_path).public.startswith("ssh-ed25519 ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["id_ed25519", "id_ed25519.lock", "id_ed25519.pub"]
