"""Checkpoints: while the job is followed, one folder of it is brought home again and again, beside."""

from __future__ import annotations

from typing import Final

import attrs

from gipper.errors import Stopped
from gipper.lifecycle.bringing import (
    CheckpointPlace,
    asked,
    bring,
    checkpoint_place,
    listed,
    told,
    write_sync,
)
from gipper.lifecycle.kept import Kept, WholeSet
from gipper.lifecycle.link import Link
from gipper.lifecycle.services import Services
from gipper.remote import Fetched
from gipper.runtime import Event, Task
from gipper.values.jobs import Job

# A read on a link that died ends by itself within this time.
_LAST_S: Final = 30.0


@attrs.define
class Checkpoints:
    """Syncs the checkpoint of `job`, if it has one, between `begin` and `end`.

    It uses the link's connections for bulk data and never mends a link: a sync that fails is told once
    and tried again after the next interval, the following goes on. At most one sync at a time.
    """

    services: Services
    link: Link
    job: Job
    folder: str
    kept: Kept
    _warned: bool = False
    _task: Task[None] | None = None
    _over: Event = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._over = self.services.runtime.event()

    def begin(self) -> None:
        """Go on beside the caller."""
        place = checkpoint_place(self.job, self.services.settings.checkpoint_every_s)
        if place is not None:
            self._task = self.services.runtime.spawn("checkpoints", lambda: self._loop(place))

    def end(self) -> None:
        """Give up the sync at hand; afterwards nothing of it moves a file any more. Never raises."""
        self._over.set()
        if self._task is None:
            return
        runtime = self.services.runtime
        if runtime.wait_any([self._task.done], runtime.monotonic() + _LAST_S) is None:
            return
        try:
            self._task.result()
        except Exception as error:  # noqa: BLE001 - a fault in a sync must not keep a machine from its end
            self.services.reporter.warn(f"checkpoints ended early: {self.services.redact(repr(error))}")

    def _loop(self, place: CheckpointPlace) -> None:
        runtime = self.services.runtime
        due = runtime.monotonic() + place.every_s
        while runtime.wait_any([self._over], due) is None:
            due = runtime.monotonic() + place.every_s
            if not self.link.dead:
                self._sync(place)

    def _sync(self, place: CheckpointPlace) -> None:
        begun = self.services.runtime.monotonic()
        remote, base, source = self.link.remote, self.folder + "/work", asked(self.folder, place.source)
        fetched, failure = bring(
            self.kept, place.source,
            lambda known: remote.fetch(base, source, place.place, known=known, live=True, stop=self._over),
        )  # fmt: skip
        fetched = attrs.evolve(fetched, seconds=self.services.runtime.monotonic() - begun)
        if failure is None:
            failure = self._record(place, fetched)
        problem = "" if failure is None else told(self.services, failure)
        write_sync(self.services, self.link.rental, f"checkpoint {place.source}", fetched, problem)
        if not isinstance(failure, Stopped):
            self._tell(place, problem)

    def _record(self, place: CheckpointPlace, fetched: Fetched) -> OSError | None:
        if not fetched.whole:
            return None
        whole = WholeSet(
            source=place.source, place=place.place, at=self.services.runtime.now(),
            files=listed(fetched.home),
        )  # fmt: skip
        try:
            self.kept.save_whole(whole)
        except OSError as error:
            return error
        return None

    def _tell(self, place: CheckpointPlace, problem: str) -> None:
        if problem and not self._warned:
            self.services.reporter.warn(
                f"the checkpoint {place.source} could not be brought home, which is tried again every "
                f"{place.every_s:g} s: {problem}"
            )
        self._warned = bool(problem)
