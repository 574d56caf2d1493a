"""A command's round trip on an open connection, and connections that die of key exchanges.

OpenSSH with a control master is the yardstick: the whole `ssh -S SOCKET host true`, as one types it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support_sshd import Sshd, wait_until

from gipper.errors import ConnectionLost
from gipper.runtime import RealRuntime
from gipper.ssh.remote import SshDialer, SshRemote

Row = tuple[str, float, float]
ROUNDS = 40
CHANNELS = 200
MIB = 1 << 20


def main() -> list[Row]:
    """The figures, each with the most that it may be."""
    runtime = RealRuntime()
    with tempfile.TemporaryDirectory() as folder:
        with Sshd(Path(folder) / "a") as sshd:
            rows = [round_trip(runtime, sshd)]
        with Sshd(Path(folder) / "b", extra=["RekeyLimit 2M"]) as sshd:
            rows.append(lost(runtime, sshd))
    return rows


def round_trip(runtime: RealRuntime, sshd: Sshd) -> Row:
    """Medians of interleaved rounds, as a ratio."""
    control = sshd.folder / "master"
    base = ["ssh", "-S", str(control), *sshd.ssh_options()]
    master = subprocess.Popen([*base, "-M", "-N", sshd.host], stdin=subprocess.DEVNULL)
    remote = SshDialer(runtime).dial(sshd.target(), timeout_s=30)
    try:
        wait_until(control.exists, what="control master")
        remote.ask("true")
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(timed(lambda: remote.ask("true")))
            theirs.append(
                timed(lambda: subprocess.run([*base, "-n", sshd.host, "true"], check=True, timeout=60))
            )
    finally:
        remote.close()
        master.terminate()
        master.wait()
    ratio = statistics.median(ours) / statistics.median(theirs)
    return ("exec round trip on an open connection / ssh with a control master", ratio, 0.5)


def lost(runtime: RealRuntime, sshd: Sshd) -> Row:
    """Short channels beside a stream to a server that wants new keys every 2 MiB."""
    dialer = SshDialer(runtime)
    remote = dialer.dial(sshd.target(), timeout_s=30)
    streams = [runtime.spawn("stream", lambda remote=remote: stream(remote))]
    count = 0
    for _ in range(CHANNELS):
        try:
            remote.run("true", timeout_s=120)
        except ConnectionLost:
            count += 1
            remote = dialer.dial(sshd.target(), timeout_s=30)
        if streams[-1].done.is_set():
            streams.append(runtime.spawn("stream", lambda remote=remote: stream(remote)))
    remote.close()
    return (f"connections lost over {CHANNELS} short channels across key exchanges", float(count), 0.0)


def stream(remote: SshRemote) -> None:
    """Something that keeps the connection, and so the exchanges, busy."""
    try:
        remote.run(f"head -c {20 * MIB} /dev/zero", limit=1, timeout_s=120)
    except ConnectionLost:
        pass  # Counted by the short channels, which see it as well.


def timed(call: Callable[[], object]) -> float:
    """Seconds that `call` takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


if __name__ == "__main__":
    for name, value, limit in main():
        print(f"{value:8.3f}  at most {limit:.3f}  {name}")
