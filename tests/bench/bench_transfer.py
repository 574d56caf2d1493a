"""Files up and down against OpenSSH's tar pipe and rsync, and the extractor against GNU tar.

Every time is that of a whole command: start of the process, imports, login, transfer, end. Only the
pass over the inputs, which a run makes before it rents, is taken out of ours. Runs are interleaved.

    python tests/bench/bench_transfer.py [SHARE]    # SHARE of the data, 1 by default
"""

from __future__ import annotations

import io
import os
import pickle
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent.parent))

from support_sshd import Sshd  # noqa: E402 - the helper lies in the folder above

Row = tuple[str, float, float]
Case = Callable[[], float]
ROUNDS = 5
UP = {"one file": 1.25, "small files": 1.15, "sources": 1.15}
DOWN = {"one file": 1.6, "small files": 1.1, "sources": 1.1}
EXTRACT = {"small files": 1.5, "sources": 1.1}
AGAIN = 1.5
MEMORY_MIB = 80.0


def make_data(top: Path, share: float) -> None:
    """One file of 1 GiB; 10,000 of 4 KiB in 100 folders; 1,990 source-like ones and 10 packs, 60 MiB."""
    draw = random.Random(1)
    (top / "one file").mkdir(parents=True)
    with (top / "one file" / "f").open("wb") as file:
        for _ in range(max(1, int(1024 * share))):
            file.write(draw.randbytes(1 << 20))
    for n in range(int(10_000 * share)):
        path = top / "small files" / f"d{n // 100:03}" / f"f{n % 100:03}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(draw.randbytes(4096))
    for n in range(int(1_990 * share)):
        path = top / "sources" / f"pkg{n % 60:02}" / f"sub{n % 7}" / f"mod{n:04}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"def f(x):\n    return x + %d\n" % n * (13_960 // 30))
    (top / "sources" / "packs").mkdir()
    for n in range(10):
        (top / "sources" / "packs" / f"p{n}").write_bytes(draw.randbytes(int(3_510_000 * share)))


def worker(action: str, where: str, remote_dir: str, local: str) -> None:
    """In a process of its own: log in and move one tree; prints seconds of the pass and peak MiB."""
    from gipper.remote import Target
    from gipper.runtime import RealRuntime
    from gipper.ssh.remote import SshDialer
    from gipper.values.machines import Address

    port, user, key, pins = where.split("|")
    runtime, pass_s = RealRuntime(), 0.0
    target = Target(
        machine_id="bench",
        addresses=(Address(host="127.0.0.1", port=int(port)),),
        user=user,
        key_file=Path(key),
        pins=Path(pins),
    )
    if action == "up":
        start = time.perf_counter()
        from gipper.transfer.inputs import survey
        from gipper.values.jobs import Input

        inputs = [Input(src=local, dst=".")]
        found = survey(inputs, Path("/"), scanner=None, classify=None, progress=None, runtime=runtime)
        pass_s = time.perf_counter() - start
    remote = SshDialer(runtime).dial(target, timeout_s=20)
    if action == "up":
        remote.send(found.manifests["."], remote_dir)
    elif action == "again":
        again(remote, remote_dir, local)
    else:
        assert remote.fetch(remote_dir, ".", Path(local)).whole
    remote.close()
    print(pass_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def again(remote: Any, remote_dir: str, local: str) -> None:
    """A fetch that knows what an earlier one brought, as a run's folder would tell it."""
    place = Path(local + ".known")
    known = pickle.loads(place.read_bytes()) if place.exists() else {}
    assert remote.fetch(remote_dir, ".", Path(local), known=known, live=True).whole
    place.write_bytes(pickle.dumps(known))


class Bench:
    """Data, a server and the commands that are compared."""

    def __init__(self, top: Path, sshd: Sshd) -> None:
        self.data, self.out = top / "data", top / "out"
        self.peak_mib = 0.0
        self._sshd = sshd
        self._ssh = ["ssh", *sshd.ssh_options(), sshd.host]

    def ours(self, action: str, remote_dir: Path, local: Path) -> float:
        """Our whole command, the pass taken out."""
        sshd = self._sshd
        where = f"{sshd.port}|{sshd.user}|{sshd.key.private}|{sshd.folder / 'known_hosts'}"
        command = [sys.executable, HERE, "worker", action, where, remote_dir, local]
        start = time.perf_counter()
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        seconds = time.perf_counter() - start
        pass_s, peak = map(float, done.stdout.split())
        self.peak_mib = max(self.peak_mib, peak)
        return seconds - pass_s

    def theirs(self, script: str, *words: str | Path) -> float:
        """A pipeline of other people's tools; $SSH is ssh with all its options."""
        env = {**os.environ, "SSH": " ".join(f"'{w}'" for w in self._ssh[1:-1])}
        start = time.perf_counter()
        subprocess.run(["bash", "-euo", "pipefail", "-c", script, "-", *words], check=True, env=env)
        return time.perf_counter() - start

    def rsync(self, source: Path, target: Path) -> float:
        """`rsync -a` with the same cipher."""
        shell = "ssh " + " ".join(self._ssh[1:-1])
        start = time.perf_counter()
        subprocess.run(["rsync", "-a", "-e", shell, f"{source}/", f"{self._sshd.host}:{target}/"], check=True)
        return time.perf_counter() - start

    def race(self, *cases: Case) -> list[float]:
        """Medians of the cases, interleaved, each into an empty folder."""
        times: list[list[float]] = [[] for _ in cases]
        for turn in range(ROUNDS):
            for n in range(len(cases)):
                which = (n + turn) % len(cases)
                shutil.rmtree(self.out, ignore_errors=True)
                self.out.mkdir()
                times[which].append(cases[which]())
        return [statistics.median(t) for t in times]


def uploads(bench: Bench) -> list[Row]:
    """Up, against both."""
    rows: list[Row] = []
    for name, limit in UP.items():
        source = bench.data / name
        pipe = f'tar -cf - -C "$1" . | eval ssh "$SSH" {bench._sshd.host} "\'tar -xf - -C $2\'"'
        cases: list[Case] = [
            lambda source=source: bench.ours("up", bench.out, source),
            lambda source=source, pipe=pipe: bench.theirs(pipe, source, bench.out),
        ]
        if name in EXTRACT:
            cases.append(lambda source=source: bench.rsync(source, bench.out))
        ours, theirs, *rsync = bench.race(*cases)
        rows.append((f"upload of {name} against tar | ssh tar", ours / theirs, limit))
        rows += [(f"upload of {name} against rsync -a", ours / r, 1.0) for r in rsync]
    return rows


def downloads(bench: Bench) -> list[Row]:
    """Down, checked, hashed and confined."""
    rows: list[Row] = []
    for name, limit in DOWN.items():
        source = bench.data / name
        pipe = f'eval ssh "$SSH" {bench._sshd.host} "\\"tar -cf - -C \'$1\' .\\"" | tar -xf - -C "$2"'
        ours, theirs = bench.race(
            lambda source=source: bench.ours("down", source, bench.out),
            lambda source=source, pipe=pipe: bench.theirs(pipe, source, bench.out),
        )
        rows.append((f"download of {name} against ssh tar | tar", ours / theirs, limit))
    return rows


def second_fetch(bench: Bench) -> list[Row]:
    """The small files fetched before, then one in a hundred changed: against rsync -a of the same."""
    source, ours_here, rsync_here = bench.data / "small files", bench.data / "ours", bench.data / "rsync"
    files = sorted(p for p in source.rglob("*") if p.is_file())
    shell = "ssh " + " ".join(bench._ssh[1:-1])
    pull = ["rsync", "-a", "-e", shell, f"{bench._sshd.host}:{source}/", f"{rsync_here}/"]
    bench.ours("again", source, ours_here)
    subprocess.run(pull, check=True)
    ours, theirs = [], []
    for turn in range(ROUNDS):
        for n in range(turn, len(files), 100):
            files[n].write_bytes(os.urandom(4096))
        time.sleep(3.2)
        for who in ("ours", "rsync") if turn % 2 else ("rsync", "ours"):
            if who == "ours":
                ours.append(bench.ours("again", source, ours_here))
            else:
                start = time.perf_counter()
                subprocess.run(pull, check=True)
                theirs.append(time.perf_counter() - start)
    ratio = statistics.median(ours) / statistics.median(theirs)
    return [("second fetch, 1 % of small files changed, against rsync -a", ratio, AGAIN)]


def unpack(archive: bytes, out: Path) -> float:
    """The extractor alone, from memory."""
    from gipper.transfer.extract import Extractor
    from gipper.transfer.tarread import ByteSource

    start = time.perf_counter()
    extractor = Extractor(out)
    extractor.run(ByteSource(io.BytesIO(archive).read))
    extractor.finish()
    extractor.close()
    return time.perf_counter() - start


def gnu_unpack(archive: bytes, out: Path) -> float:
    """GNU tar, from memory."""
    start = time.perf_counter()
    subprocess.run(["tar", "-xf", "-", "-C", out], input=archive, check=True)
    return time.perf_counter() - start


def extractors(bench: Bench) -> list[Row]:
    """The confined extractor on the two trees."""
    rows: list[Row] = []
    for name, limit in EXTRACT.items():
        command = ["tar", "-cf", "-", "-C", bench.data / name, "."]
        archive = subprocess.run(command, check=True, capture_output=True).stdout
        ours, theirs = bench.race(
            lambda archive=archive: unpack(archive, bench.out),
            lambda archive=archive: gnu_unpack(archive, bench.out),
        )
        rows.append((f"extracting {name} against tar -x", ours / theirs, limit))
    return rows


def main(share: float = 1.0) -> list[Row]:
    """All rows; `share` below 1 makes the data smaller and the figures rougher."""
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as folder:
        top = Path(folder)
        make_data(top / "data", share)
        with Sshd(top / "sshd") as sshd:
            bench = Bench(top, sshd)
            rows = [*uploads(bench), *downloads(bench), *second_fetch(bench), *extractors(bench)]
            return [*rows, ("peak memory of a transfer, MiB", bench.peak_mib, MEMORY_MIB)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(*sys.argv[2:])
    else:
        for what, figure, most in main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0):
            print(f"{what}: {figure:.2f} (at most {most:g})", flush=True)
