"""A machine in memory for tests of checks: scripted answers, everything asked is kept."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from pathlib import Path

from gipper.errors import GipperError
from gipper.remote import Completed, Fetched, Known, Manifest, Progress, Sent
from gipper.runtime import Event
from gipper.values.jobs import Job, RunTable
from gipper.values.machines import Address

NOTHING = Completed(status=127, stderr=b"not found")


class FakeRemote:
    """A `Remote` whose commands answer by the first word of `answers` that stands in them.

    An answer may be an error (ConnectionLost, CommandTimeout), which is raised. What no word fits ends with
    status 127. `asked` are the commands in order, `sent` what went up.
    """

    def __init__(self, answers: Mapping[str, Completed | GipperError] | None = None) -> None:
        self.answers = dict(answers or {})
        self.asked: list[str] = []
        self.sent: list[tuple[Manifest, str]] = []
        self.closed = False

    @property
    def address(self) -> Address:
        """An address of the documentation's block."""
        return Address(host="203.0.113.7")

    @property
    def fingerprint(self) -> str:
        """A made-up one."""
        return "SHA256:madeUpMadeUpMadeUpMadeUpMadeUpMadeUpMadeUpM"

    def run(
        self, command: str, *, stdin: bytes = b"", timeout_s: float = 60.0, limit: int = 4 << 20
    ) -> Completed:
        """The scripted answer."""
        self.asked.append(command)
        found = next((answer for word, answer in self.answers.items() if word in command), NOTHING)
        if isinstance(found, GipperError):
            raise found
        return found

    def ask(self, script: str, *, timeout_s: float = 60.0) -> Completed:
        """The scripted answer."""
        return self.run(script, timeout_s=timeout_s)

    def send(
        self, manifest: Manifest, base: str, *, progress: Progress | None = None, stop: Event | None = None
    ) -> Sent:
        """Keeps it in `sent`."""
        self.sent.append((manifest, base))
        return Sent(files=manifest.files, bytes=manifest.bytes, seconds=0.0)

    def fetch(
        self, base: str, source: str, dest: Path, *, known: MutableMapping[str, Known] | None = None,
        live: bool = False, max_bytes: int | None = None, progress: Progress | None = None,
        stop: Event | None = None,
    ) -> Fetched:  # fmt: skip
        """Nothing is there."""
        return Fetched(files=(), bytes=0, seconds=0.0, missing=(f"{source}: not there",))

    def close(self) -> None:
        """Sets `closed`."""
        self.closed = True


def made_job(command: str = "true") -> Job:
    """A job with defaults for everything but its command."""
    return Job(name="made-up", run=RunTable(command=command), folder=Path())
