"""`gipper` as a subprocess: a home of its own, job files, background runs, and the ledger to look into."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import attrs

from gipper import ledger

GIPPER = Path(sys.executable).with_name("gipper")
# Markets that are installed beside the tests, before any test invents some.
INSTALLED = frozenset(
    e.name for e in entry_points(group="gipper.providers") if e.dist and e.dist.name != "gipper-core"
)
# Seconds: all phases but the command's own are short, so that a machine's end is near.
SMALL_LIMITS = {
    "ready_min": 5, "checks": 1, "setup_min": 1, "upload_min": 1, "collect_min": 1, "watchdog_grace": 1,
    "kill_grace": 1,
}  # fmt: skip


def until(true: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
    """Poll `true` until it is; its value."""
    deadline = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)
    return value


@attrs.frozen(kw_only=True)
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str
    raw: bytes = attrs.field(default=b"", repr=False)

    @property
    def lines(self) -> list[str]:
        """What it wrote to stdout."""
        return self.out.splitlines()

    @property
    def all(self) -> str:
        """stdout and stderr."""
        return self.out + self.err


class Background:
    """A command that runs beside the test, its output in files."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process = process
        self._out = out
        self._err = err

    @property
    def pid(self) -> int:
        """The process."""
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send one signal to this process alone."""
        self.process.send_signal(number)

    def wait(self, seconds: float = 40.0) -> Done:
        """Its end."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still runs after {seconds} s:\n{self.so_far}") from None
        raw = self._out.read_bytes()
        return Done(code=code, out=raw.decode("utf-8", "replace"), err=self.err, raw=raw)

    @property
    def err(self) -> str:
        """What it wrote to stderr up to now."""
        return self._err.read_text("utf-8", "replace")

    @property
    def so_far(self) -> str:
        """Both streams up to now."""
        return self._out.read_text("utf-8", "replace") + self.err

    def wait_for_text(self, text: str, seconds: float = 30.0) -> None:
        """Until the text stands in either stream."""
        until(lambda: text in self.so_far or self.process.poll() is not None, f"{text!r} told", seconds)
        assert text in self.so_far, self.so_far


class World:
    """One user: HOME and gipper's folders below `home`; everything that runs for them carries the path.

    Of the markets that are installed beside the tests, only `markets` take part.
    """

    def __init__(self, home: Path, markets: Collection[str] = ()) -> None:
        self.home = home
        self.data = home / "data"
        self.config = home / "config" / "config.toml"
        self.work = home / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        self.env: dict[str, str] = {
            "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(home), "GIPPER_DATA": str(self.data),
            "GIPPER_CONFIG": str(self.config), "GIPPER_KEYS": str(home / "keys"),
            "PYTHONDONTWRITEBYTECODE": "1", "GIPPER_DISABLED_PLUGINS": ",".join(others(markets)),
        }  # fmt: skip
        self._started = 0
        self._running: list[Background] = []

    def settings(self, **tables: Any) -> None:
        """Write config.toml."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(to_toml(tables), encoding="utf-8")

    def job(self, command: str, *, file: str = "job.toml", **tables: Any) -> Path:
        """A job file for `local` with outputs from `out/` to `home-out/`; `tables` replace or add keys."""
        given: dict[str, Any] = {
            "name": "e2e",
            "gpu": {"count": 0, "providers": ["local"]},
            "outputs": [{"src": "out", "dst": "home-out"}],
            "run": {"command": command},
            "budget": {"max_usd": 0.5, "max_hours": 0.05},
            **tables,
        }
        path = self.work / file
        path.write_text(to_toml(given), encoding="utf-8")
        return path

    def out(self, name: str) -> Path:
        """A file that came home."""
        return self.work / "home-out" / name

    def gipper(
        self, *args: object, timeout: float = 60.0, env: Mapping[str, str] | None = None,
        through: Sequence[str] = (),
    ) -> Done:  # fmt: skip
        """Run one command to its end, `through` another program where given."""
        done = subprocess.run(
            [*through, str(GIPPER), *map(str, args)], env={**self.env, **(env or {})}, capture_output=True,
            timeout=timeout, stdin=subprocess.DEVNULL, check=False, cwd=self.work,
        )  # fmt: skip
        return Done(
            code=done.returncode, out=done.stdout.decode("utf-8", "replace"),
            err=done.stderr.decode("utf-8", "replace"), raw=done.stdout,
        )  # fmt: skip

    def start(self, *args: object, env: Mapping[str, str] | None = None) -> Background:
        """Start one command in a session of its own, as a terminal would."""
        self._started += 1
        out, err = (self.home / f"{self._started}.{name}" for name in ("stdout", "stderr"))
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = subprocess.Popen(
                [str(GIPPER), *map(str, args)], env={**self.env, **(env or {})}, cwd=self.work,
                stdin=subprocess.DEVNULL, stdout=to_out, stderr=to_err, start_new_session=True,
            )  # fmt: skip
        running = Background(process, out, err)
        self._running.append(running)
        return running

    def receipts(self, *kinds: str) -> list[Any]:
        """The ledger's receipts, oldest first."""
        return list(ledger.read(folder=self.data, kinds=kinds or None))

    def kinds(self) -> list[str]:
        """The kinds of all receipts, oldest first."""
        return [r.kind for r in self.receipts()]

    def wait_for(self, kind: str, count: int = 1, seconds: float = 30.0) -> Any:
        """The `count`th receipt of `kind`, as soon as it is in a run's own copy of its receipts."""

        def found() -> bool:
            texts = [f.read_bytes() for f in self.data.glob("runs/*/receipts.jsonl")]
            return sum(t.count(b'"kind":"%s"' % kind.encode()) for t in texts) >= count

        until(found, f"receipt {kind}", seconds)
        return self.receipts(kind)[count - 1]

    def ends(self) -> list[str]:
        """How each run ended, oldest first."""
        return [str(r["outcome"]) for r in self.receipts("run.end")]

    def sound(self) -> None:
        """The trail is whole: every machine has one proof and one spend, every run one end."""
        assert self.gipper("ledger", "verify").code == 0
        kinds = self.kinds()
        assert kinds.count("run.start") == kinds.count("run.end")
        assert kinds.count("pod.create") == kinds.count("pod.terminated") == kinds.count("spend")

    def machines(self) -> list[Path]:
        """Folders of machines that exist."""
        return list(self.data.glob("providers/local/machines/*"))

    def processes(self) -> dict[int, str]:
        """Everything that runs and carries this home in environment, arguments or working folder."""
        return {pid: name for pid, name in _processes() if _carries(pid, os.fsencode(self.home))}

    def clean(self) -> list[str]:
        """End what is left by its pid; what that was."""
        for running in self._running:
            if running.process.poll() is None:
                running.process.kill()
            running.process.wait()
        deadline = time.monotonic() + 5
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        left = self.processes()
        for pid in left:
            _kill(pid)
        return sorted(left.values())


@attrs.frozen
class Orphan:
    """A run whose client was killed for good while its job ran."""

    user: World
    machine: str


@contextmanager
def world(home: Path, markets: Collection[str] = ()) -> Iterator[World]:
    """A world whose processes must all be gone at its end."""
    made = World(home, markets)
    yield made
    left = made.clean()
    assert not left, f"left behind (now ended): {left}"


def to_toml(table: Mapping[str, Any]) -> str:
    """`table` as TOML, one line a key, inner tables inline."""
    return "".join(f"{_key(k)} = {_value(v)}\n" for k, v in table.items())


def closing(done: Done) -> list[str]:
    """The four lines that end a run."""
    return done.lines[-4:]


def distribution(
    folder: Path, name: str, modules: Mapping[str, str], entries: Mapping[str, Mapping[str, str]]
) -> None:
    """A distribution as an installer leaves it: metadata, entry points by group, modules."""
    info = folder / f"{name.replace('-', '_')}-1.2.3.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2.3\n", encoding="utf-8")
    groups = (
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in entries.items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text, encoding="utf-8")


def command_lines() -> list[bytes]:
    """The arguments of every process on this computer."""
    return [_read(pid, "cmdline") for pid, _name in _processes()]


def environments(pids: list[int]) -> list[bytes]:
    """The environments of some processes."""
    return [_read(pid, "environ") for pid in pids]


def others(markets: Collection[str] = ()) -> list[str]:
    """The installed providers that are neither gipper's own nor in `markets`."""
    return sorted(INSTALLED - set(markets))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return json.dumps(str(value), ensure_ascii=False)


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else json.dumps(name)


def _processes() -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            words = _read(int(folder.name), "cmdline").replace(b"\0", b" ").decode("utf-8", "replace")
            if words:
                yield int(folder.name), f"{folder.name} {words[:150]}"


def _carries(pid: int, mark: bytes) -> bool:
    try:
        folder = os.fsencode((Path("/proc") / str(pid) / "cwd").readlink())
    except OSError:
        return False
    texts = (_read(pid, "environ"), _read(pid, "cmdline"), folder)
    return any(mark in text for text in texts)


def _read(pid: int, what: str) -> bytes:
    try:
        return (Path("/proc") / str(pid) / what).read_bytes()
    except OSError:
        return b""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
