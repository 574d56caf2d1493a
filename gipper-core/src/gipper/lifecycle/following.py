"""Following the detached job: its log comes here byte by byte, until its exit code is a file there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gipper.errors import RemoteError, Stopped
from gipper.lifecycle import remote_job
from gipper.lifecycle.joblog import JobLog
from gipper.lifecycle.link import HostLost, Link
from gipper.lifecycle.remote_job import JobEnded, Poll
from gipper.lifecycle.services import Backoff, Interrupts, Services
from gipper.runtime import Event

_MOST_S: Final = 2.0
# Past its limit and grace the runner must have written its end; this long we still believe in it.
_OVERDUE_S: Final = 30.0


class Follower:
    """Follows one job on one machine. `until` is the last moment (monotonic) to wait for its end."""

    def __init__(
        self, services: Services, link: Link, folder: str, log: JobLog,
        tick: Callable[[], str | None] = lambda: None,
    ) -> None:  # fmt: skip
        self.services = services
        self.link = link
        self.folder = folder
        self.log = log
        self.tick = tick
        self.stored = True
        self.over: str | None = None

    def follow(self, limit: float, until: float, interrupts: Interrupts) -> JobEnded | None:
        """The job's end, or None when it must be ended first: the user asked to stop, or `over` says why.

        By `limit` the runner must have ended the job; `until` is how long a dead link is made anew (both
        monotonic). Raises HostLost, RemoteError.
        """
        backoff = Backoff(most=_MOST_S)
        while not interrupts.level and self.over is None:
            self.over = self.tick()
            try:
                seen = self._poll(until, interrupts.once)
            except Stopped:
                return None
            if self._complete(seen):
                return seen.ended
            if self.services.runtime.monotonic() >= limit + _OVERDUE_S:
                raise RemoteError("the job is past its limit and its runner doesn't answer for it")
            if seen.data:
                backoff.reset()
            if len(seen.data) < remote_job._POLL_BYTES:
                self.services.pause(backoff.next(), interrupts.once)
        return None

    def drain(self, until: float) -> JobEnded | None:
        """Read the log to its end now; the job's end if it has one."""
        while True:
            seen = self._poll(until)
            if self.log.offset >= seen.log_size or not seen.data:
                self._show(self.log.finish)
                return seen.ended

    def _complete(self, seen: Poll) -> bool:
        if self.log.offset < seen.log_size:
            return False
        if seen.state in ("lost", "absent"):
            raise HostLost(f"the job's runner is gone without a word ({seen.state})", blame=False)
        if seen.state == "restarted":
            raise HostLost("the machine was restarted while the job ran", blame=False)
        return seen.state == "done"

    def _poll(self, until: float, stop: Event | None = None) -> Poll:
        offset = self.log.offset
        seen = self.link.call(lambda r: remote_job.poll(r, self.folder, offset), until=until, stop=stop)
        self._show(lambda: self.log.feed(seen.data))
        return seen

    def _show(self, step: Callable[[], bytes]) -> None:
        try:
            clean = step()
        except OSError as error:
            if self.stored:
                self.services.reporter.warn(f"the log can't be kept here: {error.strerror} ({self.log.path})")
            self.stored = False
            return
        if clean:
            self.services.reporter.log(clean)
