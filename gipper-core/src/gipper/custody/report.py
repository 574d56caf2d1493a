"""The custody report as values: rotate, review, can't vouch for. Pure.

Rotate: secrets and flagged credentials that were on machines in the window. Review: every file that was
there, grouped by input, what came back, and what people wrote down. Can't vouch for: why this may not be all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal

import attrs

from gipper.custody.stays import FileBack, FileThere, Stay, Told, Trail, overlaps


@attrs.frozen(kw_only=True)
class Scope:
    """What is asked about; None narrows nothing. The window is [`since`, `until`)."""

    provider: str | None = None
    run: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def covers(self, provider: str, run: str | None) -> bool:
        """Whether a machine of `provider` and `run` is asked about, time aside."""
        return self.provider in (None, provider) and self.run in (None, run)

    def meets(self, begin: datetime, end: datetime | None) -> bool:
        """Whether something from `begin` to `end` (None: not proved over) falls into the window."""
        return overlaps(begin, end, self.since, self.until)


@attrs.frozen(kw_only=True)
class Where:
    """One machine and how long a thing was on it; `until` None: the machine isn't proved gone."""

    provider: str
    pod: str
    run: str | None
    since: datetime
    until: datetime | None


@attrs.frozen(kw_only=True)
class Credential:
    """Something to rotate: a secret by name, or a flagged file by path, hash and reason."""

    kind: Literal["secret", "file"]
    name: str
    why: str
    sha256: str | None
    where: tuple[Where, ...]


@attrs.frozen(kw_only=True)
class MachineLine:
    """A machine in the window, with what it was given beside files."""

    provider: str
    pod: str
    name: str
    run: str | None
    job: str
    since: datetime
    until: datetime | None
    address: str | None
    host_key: str | None
    ports: tuple[str, ...]
    volumes: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Group:
    """The files of one input that were on one machine."""

    where: Where
    job: str
    input: str
    bytes: int
    files: tuple[FileThere, ...]


@attrs.frozen(kw_only=True)
class CameBack:
    """The files that came home from one machine."""

    where: Where
    job: str
    files: tuple[FileBack, ...]


@attrs.frozen(kw_only=True)
class Gap:
    """A reason why the report may not be all: `kind` for programs, `text` for people."""

    kind: str
    text: str
    provider: str | None = None
    pod: str | None = None
    run: str | None = None


@attrs.frozen(kw_only=True)
class Report:
    """All three parts. `receipts` and `head` say which ledger it was made from; `asked` which markets were
    asked for machines that it lacks (empty: none)."""

    scope: Scope
    made: datetime
    receipts: int
    head: str
    machines: tuple[MachineLine, ...]
    rotate: tuple[Credential, ...]
    files: tuple[Group, ...]
    back: tuple[CameBack, ...]
    notes: tuple[Told, ...]
    gaps: tuple[Gap, ...]
    asked: tuple[str, ...]


def make_report(
    trail: Trail, scope: Scope, *, made: datetime, receipts: int, head: str, gaps: Sequence[Gap],
    asked: Sequence[str],
) -> Report:  # fmt: skip
    """The report on what `scope` asks about; `gaps` as `gaps_of` and the markets' answers have them."""
    stays = in_scope(trail, scope)
    return Report(
        scope=scope, made=made, receipts=receipts, head=head, gaps=tuple(gaps), asked=tuple(asked),
        machines=tuple(_machine(trail, s) for s in stays),
        rotate=tuple(_credentials(stays, scope)),
        files=tuple(g for s in stays for g in _groups(trail, s, scope)),
        back=tuple(_back(s) for s in stays if s.back),
        notes=tuple(n for n in trail.notes if scope.covers(n.provider, n.run) and scope.meets(n.at, n.at)),
    )  # fmt: skip


def in_scope(trail: Trail, scope: Scope) -> list[Stay]:
    """The stays that the scope asks about, oldest first."""
    found = (s for s in trail.stays.values() if scope.covers(s.provider, s.run))
    return sorted((s for s in found if s.within(scope.since, scope.until)), key=lambda s: s.since)


def _where(stay: Stay, since: datetime) -> Where:
    return Where(provider=stay.provider, pod=stay.pod, run=stay.run, since=since, until=stay.until)


def _back(stay: Stay) -> CameBack:
    return CameBack(where=_where(stay, stay.since), job=stay.job, files=tuple(stay.back))


def _machine(trail: Trail, stay: Stay) -> MachineLine:
    run = trail.runs.get(stay.run or "")
    return MachineLine(
        provider=stay.provider, pod=stay.pod, name=stay.name, run=stay.run, job=stay.job, since=stay.since,
        until=stay.until, address=stay.address, host_key=stay.host_key,
        ports=run.ports if run else (), volumes=run.volumes(stay.provider) if run else (),
    )  # fmt: skip


def _credentials(stays: Iterable[Stay], scope: Scope) -> Iterator[Credential]:
    secrets: dict[str, list[Where]] = {}
    files: dict[tuple[str, str, str], list[Where]] = {}
    for stay in stays:
        for name, at in stay.secrets.items():
            if scope.meets(at, stay.until):
                secrets.setdefault(name, []).append(_where(stay, at))
        for file in stay.files:
            if file.flag is not None and scope.meets(file.at, stay.until):
                files.setdefault((file.path, file.flag, file.sha256), []).append(_where(stay, file.at))
    for name, where in sorted(secrets.items()):
        why = "handed to the job"
        yield Credential(kind="secret", name=name, why=why, sha256=None, where=tuple(where))
    for (path, flag, sha256), where in sorted(files.items(), key=lambda item: item[0]):
        yield Credential(kind="file", name=path, why=flag, sha256=sha256, where=tuple(where))


def _groups(trail: Trail, stay: Stay, scope: Scope) -> Iterator[Group]:
    run = trail.runs.get(stay.run or "")
    grouped: dict[str, list[FileThere]] = {}
    for file in stay.files:
        if scope.meets(file.at, stay.until):
            named = run.input_of(file.path) if run else "(the run's beginning is not in the ledger)"
            grouped.setdefault(named, []).append(file)
    for named, files in grouped.items():
        yield Group(
            where=_where(stay, min(f.at for f in files)), job=stay.job, input=named,
            bytes=sum(f.size for f in files), files=tuple(files),
        )  # fmt: skip
