"""What the job prints, and where it is printed to: bytes exact in the log, harmless on the screen."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import attrs
import pytest
from support_cli import GIPPER, World

MIB = 1 << 20


def _log(user: World) -> bytes:
    logs = list(user.data.glob("runs/*/log"))
    assert len(logs) == 1
    return logs[0].read_bytes()


def test_d_057_d_058_bytes_that_are_no_text_and_square_brackets(user: World) -> None:
    """Invalid UTF-8 and markup-like text: shown literally, the kept log byte for byte the job's."""
    (user.work / "p.py").write_text(
        "import sys\n"
        "sys.stdout.buffer.write(b'[/bold] [red] [//] [link=x] [/usr/bin/x]\\n' + b'\\xff\\xfe\\n'"
        " + 'é'.encode() * 100_001 + b'\\n\\x1b[2Jgone?\\n')\n"
    )
    job = user.job(
        "mkdir out; python3 p.py | tee out/said",
        name="[/bold] job [x]",
        inputs=[{"src": "p.py", "dst": "p.py"}],
    )
    done = user.gipper("pod", "run", job)
    assert done.code == 0, done.all[-3000:]
    assert "[/bold] [red] [//] [link=x] [/usr/bin/x]" in done.out
    assert "é" * 100_001 in done.out
    assert "\x1b" not in done.out
    assert _log(user) == user.out("said").read_bytes()
    assert "[/bold] job [x]" in user.gipper("pod", "cost").out


@attrs.frozen
class Measured:
    """A finished process: its exit code and the most memory it had, in KiB."""

    code: int
    peak: int


def _measured(user: World, *args: object) -> Measured:
    # Not its rusage: that begins with the size of whoever started it.
    running = user.start(*args)
    peak = 0
    while running.process.poll() is None:
        peak = max(peak, _peak_kib(running.pid))
        time.sleep(0.005)
    return Measured(running.wait().code, peak)


def _peak_kib(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) if found else 0


def test_d_059_progress_bars(user: World) -> None:
    """2,000,000 carriage returns: memory stays under 120 MiB and the log is no larger than the job's."""
    (user.work / "p.py").write_text(
        "import sys\nw = sys.stdout.write\nfor i in range(2_000_000):\n    w(f'\\rstep {i}')\n"
    )
    job = user.job("mkdir out; python3 p.py | tee out/said | cat", inputs=[{"src": "p.py", "dst": "p.py"}])
    measured = _measured(user, "pod", "run", job)
    assert measured.code == 0
    assert _log(user) == user.out("said").read_bytes()
    assert 0 < measured.peak < 120 * 1024


def test_d_053_both_streams_full(user: World) -> None:
    """20 MiB on each stream: no hang, exact byte counts, memory under 120 MiB."""
    command = f"mkdir out; yes out | head -c {20 * MIB} & yes err | head -c {20 * MIB} >&2 & wait; echo done > out/a"
    measured = _measured(user, "pod", "run", user.job(command))
    assert measured.code == 0
    log = _log(user)
    assert len(log) == 40 * MIB
    assert 0 < measured.peak < 120 * 1024


def test_d_091_c_locale(user: World) -> None:
    """LC_ALL=C, no UTF-8 mode, stdout a pipe: no encode error, files UTF-8, the machine's name ASCII."""
    job = user.job("mkdir out; echo 日本; echo 日本 > out/größe.txt", name="größe-01")
    env = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = user.gipper("pod", "run", job, env=env)
    assert done.code == 0, done.all
    assert _log(user) == "日本\n".encode()
    assert user.out("größe.txt").read_text("utf-8") == "日本\n"
    assert str(user.receipts("pod.intent")[0]["name"]).isascii()
    assert user.receipts()[0].refs["name"] == "größe-01"
    for words in (["pod", "cost"], ["ledger"], ["pod", "ls"], ["doctor"]):
        assert user.gipper(*words, env=env).code == 0


def test_a_reader_that_leaves(user: World) -> None:
    """`gipper … | head -1` ends quietly, and a run whose reader left goes on to its end."""
    said = user.job("mkdir out; yes | head -c 3000000; echo x > out/a")
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; '{GIPPER}' pod run '{said}' | head -1"], env=user.env, cwd=user.work,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == (b"y\n", 0), done.stderr
    assert b"Traceback" not in done.stderr and b"roken pipe" not in done.stderr
    assert user.out("a").read_text() == "x\n"
    user.sound()
    for words in ("ledger", "pod cost", "plugins"):
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; '{GIPPER}' {words} | head -1 >/dev/null"], env=user.env,
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.stderr == b"", words


@pytest.mark.parametrize("extra", [{}, {"NO_COLOR": "1"}, {"TERM": "xterm-256color", "FORCE_COLOR": "1"}])
def test_no_colour_in_a_pipe(user: World, extra: dict[str, str]) -> None:
    """Piped output is plain whatever the environment says."""
    for words in (["pod", "ls"], ["pod", "cost"], ["plugins"], ["--help"], ["pod", "run", "--help"]):
        assert "\x1b" not in user.gipper(*words, env=extra).all


def test_log_dir_keeps_a_copy(user: World) -> None:
    """`--log-dir` keeps the job's log there as well."""
    place = user.work / "logs"
    done = user.gipper("pod", "run", user.job("mkdir out; echo hi | tee out/a"), "--log-dir", place)
    assert done.code == 0, done.all
    kept = list(Path(place).iterdir())
    assert len(kept) == 1 and kept[0].read_text() == "hi\n" and str(kept[0]) in done.out
