"""The ledger folded by machine: what went there, what came back, who was there. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from gipper.prooftext import RunProof, proof_of
from gipper.values.receipts import (
    PAYLOADS,
    Adopt,
    CustodyNote,
    CustodyUpload,
    JobStart,
    PodCreate,
    PodReady,
    Receipt,
    RunStart,
    SecretsHanded,
    Shell,
    Sync,
    parse_stamp,
)

# In `refs` of a custody.note: when it happened, which may be long before it was written down.
HAPPENED: Final = "happened"
_WHOLE_FOLDER: Final = "."


@attrs.frozen(kw_only=True)
class FileThere:
    """One file that went up: bytes, permission bits, why it looks sensitive (None: it doesn't)."""

    path: str
    size: int
    sha256: str
    mode: int
    flag: str | None
    at: datetime


@attrs.frozen(kw_only=True)
class FileBack:
    """One file that came home."""

    path: str
    size: int
    sha256: str
    at: datetime


@attrs.frozen(kw_only=True)
class Told:
    """Something that went around gipper, as a person wrote it down. `at` is when it happened."""

    provider: str
    pod: str | None
    run: str | None
    at: datetime
    recorded: datetime
    by: str
    text: str


@attrs.define(kw_only=True)
class Stay:
    """One machine, from its creation (or the first receipt that names it) to the proof that it is gone.

    `until` None: it isn't proved gone. `secrets` are names, with the moment before their values left.
    """

    provider: str
    pod: str
    name: str = ""
    run: str | None = None
    job: str = ""
    since: datetime
    until: datetime | None = None
    address: str | None = None
    host_key: str | None = None
    started: bool = False
    files: list[FileThere] = attrs.field(factory=list)
    secrets: dict[str, datetime] = attrs.field(factory=dict)
    back: list[FileBack] = attrs.field(factory=list)
    shells: list[tuple[datetime, str]] = attrs.field(factory=list)

    def within(self, since: datetime | None, until: datetime | None) -> bool:
        """Whether the machine existed, or may have, in [`since`, `until`)."""
        return overlaps(self.since, self.until, since, until)


@attrs.define(kw_only=True)
class RunSeen:
    """What a run's own receipts say of its job: inputs as (source, remote place), what else it was given."""

    run: str
    job: str = ""
    owner: str = ""
    inputs: list[tuple[str, str]] = attrs.field(factory=list)
    secrets: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    options: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    elsewhere: list[datetime] = attrs.field(factory=list)

    def volumes(self, provider: str) -> tuple[str, ...]:
        """Volumes that the job names for a provider: options whose name says so, whatever the market."""
        table = self.options.get(provider, {})
        return tuple(
            f"{k} {v}" for k, v in sorted(table.items()) if "volume" in k and v not in (None, "", ())
        )

    def input_of(self, path: str) -> str:
        """Which input a remote path came from, by its place; the longest one decides."""
        fitting = [(len(place), source) for source, place in self.inputs if _below(path, place)]
        return max(fitting)[1] if fitting else "(not an input: an earlier checkpoint)"


@attrs.define(kw_only=True)
class Trail:
    """All stays by (provider, machine), all runs, all notes; `proof` knows about ends and open rents."""

    stays: dict[tuple[str, str], Stay] = attrs.field(factory=dict)
    runs: dict[str, RunSeen] = attrs.field(factory=dict)
    notes: list[Told] = attrs.field(factory=list)
    unknown: dict[str, int] = attrs.field(factory=dict)
    first: datetime | None = None
    proof: RunProof = attrs.field(factory=lambda: RunProof(run=""))


def trail_of(receipts: Iterable[Receipt]) -> Trail:
    """The trail that `receipts` (in order) amount to; kinds of a later gipper are counted in `unknown`."""
    every = list(receipts)
    trail = Trail(proof=proof_of("", every))
    for receipt in every:
        trail.first = min(trail.first or receipt.ts, receipt.ts)
        if receipt.kind not in PAYLOADS:
            trail.unknown[receipt.kind] = trail.unknown.get(receipt.kind, 0) + 1
        elif (handler := _HANDLERS.get(receipt.kind)) is not None:
            handler(trail, receipt)
    for key, machine in trail.proof.machines.items():
        if key in trail.stays and machine.doubt is None and machine.proof is not None:
            trail.stays[key].until = machine.proof.described
    return trail


def overlaps(
    begin: datetime, end: datetime | None, since: datetime | None, until: datetime | None
) -> bool:  # fmt: skip
    """Whether [`begin`, `end`] and the window [`since`, `until`) meet; None = open on that side."""
    return (until is None or begin < until) and (since is None or end is None or end >= since)


def _below(path: str, place: str) -> bool:
    return place in (_WHOLE_FOLDER, path) or path.startswith(place.rstrip("/") + "/")


def _stay(trail: Trail, r: Receipt) -> Stay:
    key = (str(r["provider"]), str(r["pod"]))
    if key not in trail.stays:
        trail.stays[key] = Stay(provider=key[0], pod=key[1], since=r.ts)
    stay = trail.stays[key]
    stay.run, stay.job = stay.run or r.run, stay.job or r.refs.get("name", "")
    stay.name = stay.name or str(r.payload.get("name", ""))
    return stay


def _run_start(trail: Trail, r: Receipt) -> None:
    job = r.payload["job"]
    pod = job.get("pod") or {}
    trail.runs[str(r.run)] = RunSeen(
        run=str(r.run), job=str(job.get("name") or r.refs.get("name", "")),
        owner=str(r.payload["owner"].get("host_id", "")),
        inputs=[_placed(one) for one in job.get("inputs") or ()],
        secrets=tuple(pod.get("secrets") or ()), ports=tuple(map(str, pod.get("ports") or ())),
        options=job.get("provider") or {},
    )  # fmt: skip


def _placed(one: Mapping[str, Any]) -> tuple[str, str]:
    """An input's source, and where it lands; which of file and folder it was doesn't matter here."""
    source = str(one.get("src", ""))
    name = posixpath.basename(source.rstrip("/"))
    dst = str(one.get("dst") or name)
    # "dst/" may stand for the folder itself or for a file in it: the folder covers both.
    return source, posixpath.normpath(dst.rstrip("/") or "/")


def _adopt(trail: Trail, r: Receipt) -> None:
    seen = trail.runs.get(str(r.run))
    if seen is not None and str(r.payload["owner"].get("host_id", "")) != seen.owner:
        seen.elsewhere.append(r.ts)


def _create(trail: Trail, r: Receipt) -> None:
    _stay(trail, r)


def _ready(trail: Trail, r: Receipt) -> None:
    stay = _stay(trail, r)
    stay.address, stay.host_key = f"{r['address']} port {r['port']}", r["host_key"]


def _upload(trail: Trail, r: Receipt) -> None:
    _stay(trail, r).files.extend(
        FileThere(path=path, size=size, sha256=sha256, mode=mode, flag=flag, at=r.ts)
        for path, size, sha256, mode, flag in r["files"]
    )


def _secrets(trail: Trail, r: Receipt) -> None:
    handed = _stay(trail, r).secrets
    for name in r["names"]:
        handed.setdefault(str(name), r.ts)


def _shell(trail: Trail, r: Receipt) -> None:
    _stay(trail, r).shells.append((r.ts, str(r["by"])))


def _job_start(trail: Trail, r: Receipt) -> None:
    _stay(trail, r).started = True


def _sync(trail: Trail, r: Receipt) -> None:
    _stay(trail, r).back.extend(
        FileBack(path=path, size=size, sha256=sha256, at=r.ts) for path, size, sha256 in r["files"]
    )


def _note(trail: Trail, r: Receipt) -> None:
    told = r.refs.get(HAPPENED)
    trail.notes.append(
        Told(
            provider=str(r["provider"]), pod=r["pod"], run=r.run, recorded=r.ts, by=str(r["by"]),
            at=parse_stamp(told) if told else r.ts, text=str(r["text"]),
        )
    )  # fmt: skip


_HANDLERS: Final[Mapping[str, Callable[[Trail, Receipt], None]]] = {
    RunStart.kind: _run_start,
    Adopt.kind: _adopt,
    PodCreate.kind: _create,
    PodReady.kind: _ready,
    CustodyUpload.kind: _upload,
    SecretsHanded.kind: _secrets,
    Shell.kind: _shell,
    JobStart.kind: _job_start,
    Sync.kind: _sync,
    CustodyNote.kind: _note,
}
