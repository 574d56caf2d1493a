"""The ledger's vocabulary: one class per kind of receipt, and the envelope that carries it.

Payload classes hold plain values only: str, int, float, bool, None, `Decimal` (dollars), aware
`datetime`, tuples and mappings of these. `to_json` turns a payload into what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar, Final

import attrs

from gipper.money import usd, wire


@attrs.frozen(kw_only=True)
class Receipt(Mapping[str, Any]):
    """A stored receipt. As a mapping it answers to its own keys, to `job` (= `run`) and to the payload's.

    In `payload`, dollars are `Decimal` and everything else is as JSON has it.
    """

    id: str
    seq: int
    ts: datetime
    kind: str
    run: str | None
    refs: Mapping[str, str]
    payload: Mapping[str, Any]
    prev: str

    def __getitem__(self, key: str) -> Any:
        if key == "job":
            return self.run
        if key in _ENVELOPE:
            return getattr(self, key)
        return self.payload[key]

    def __iter__(self) -> Iterator[str]:
        yield from _ENVELOPE
        yield "job"
        yield from (k for k in self.payload if k not in _ENVELOPE and k != "job")

    def __len__(self) -> int:
        return sum(1 for _ in self)


_ENVELOPE: Final = ("id", "seq", "ts", "kind", "run", "refs", "payload", "prev")


class Payload:
    """Base of every payload class; `kind` is how the ledger names it."""

    kind: ClassVar[str]


@attrs.frozen(kw_only=True)
class Owner:
    """The process that supervises a run: enough to say later whether it still lives."""

    host_id: str
    boot_id: str
    pid_ns: str
    pid: int
    start_ticks: int


@attrs.frozen(kw_only=True)
class RunStart(Payload):
    kind: ClassVar[str] = "run.start"
    job: Mapping[str, Any]
    owner: Owner
    client: str
    plugins: Mapping[str, str]
    hooks: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class RunEnd(Payload):
    """`predicted` and `actual` hold seconds by phase, `wall_s` and dollars `usd` of the last machine."""

    kind: ClassVar[str] = "run.end"
    outcome: str
    reason: str
    provider: str | None = None
    pod: str | None = None
    predicted: Mapping[str, Any] | None = None
    actual: Mapping[str, Any] | None = None
    exit_code: int | None = None


@attrs.frozen(kw_only=True)
class EstimateReceipt(Payload):
    kind: ClassVar[str] = "estimate"
    provider: str
    offer: str
    estimate: Mapping[str, Any]
    seen: int
    left_out: Mapping[str, int]


@attrs.frozen(kw_only=True)
class PodIntent(Payload):
    kind: ClassVar[str] = "pod.intent"
    provider: str
    offer: str
    name: str
    attempt: int
    end: datetime
    usd_h: Decimal
    reserved_usd: Decimal
    gpu: str | None = None
    gpu_count: int = 0
    host_id: str | None = None
    region: str | None = None
    appear_s: float | None = None


@attrs.frozen(kw_only=True)
class PodReserve(Payload):
    """The reservation of an open machine was raised, under the lock, after the cap was checked."""

    kind: ClassVar[str] = "pod.reserve"
    provider: str
    name: str
    reserved_usd: Decimal


@attrs.frozen(kw_only=True)
class PodCreate(Payload):
    kind: ClassVar[str] = "pod.create"
    provider: str
    pod: str
    name: str
    usd_h: Decimal
    host_key: str | None = None
    host_id: str | None = None
    adopted: bool = False


@attrs.frozen(kw_only=True)
class PodCreateFailed(Payload):
    kind: ClassVar[str] = "pod.create_failed"
    provider: str
    name: str
    error: str
    text: str = ""


@attrs.frozen(kw_only=True)
class PodCreateDoubtful(Payload):
    kind: ClassVar[str] = "pod.create_doubtful"
    provider: str
    name: str
    text: str
    listings: tuple[datetime, ...] = ()


@attrs.frozen(kw_only=True)
class PodReady(Payload):
    kind: ClassVar[str] = "pod.ready"
    provider: str
    pod: str
    seconds: float
    address: str
    port: int
    host_key: str
    host_id: str | None = None


@attrs.frozen(kw_only=True)
class Preflight(Payload):
    kind: ClassVar[str] = "preflight"
    provider: str
    pod: str
    check: str
    verdict: str
    seconds: float
    facts: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Probe(Payload):
    """Measured rates of a machine in Mb/s, seen from the host; None = that direction wasn't measured."""

    kind: ClassVar[str] = "probe"
    provider: str
    pod: str
    down_mbps: float | None = None
    up_mbps: float | None = None


@attrs.frozen(kw_only=True)
class Rtt(Payload):
    """The round trip to an offer's address, measured before anything was rented; `basis` = how."""

    kind: ClassVar[str] = "rtt"
    provider: str
    offer: str
    ms: float
    basis: str


@attrs.frozen(kw_only=True)
class WatchdogArmed(Payload):
    kind: ClassVar[str] = "watchdog.armed"
    provider: str
    pod: str
    how: str
    until: datetime


@attrs.frozen(kw_only=True)
class WatchdogFailed(Payload):
    kind: ClassVar[str] = "watchdog.failed"
    provider: str
    pod: str
    why: str


@attrs.frozen(kw_only=True)
class CustodyUpload(Payload):
    """Every file that is about to leave: `[path, size, sha256, mode, flag or None]` each."""

    kind: ClassVar[str] = "custody.upload"
    provider: str
    pod: str
    files: tuple[tuple[str, int, str, int, str | None], ...]
    bytes: int


@attrs.frozen(kw_only=True)
class SecretsHanded(Payload):
    kind: ClassVar[str] = "secrets.handed"
    provider: str
    pod: str
    names: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Shell(Payload):
    kind: ClassVar[str] = "shell"
    provider: str
    pod: str
    by: str


@attrs.frozen(kw_only=True)
class CustodyNote(Payload):
    kind: ClassVar[str] = "custody.note"
    provider: str
    pod: str | None = None
    text: str
    by: str


@attrs.frozen(kw_only=True)
class JobStart(Payload):
    kind: ClassVar[str] = "job.start"
    provider: str
    pod: str
    folder: str
    limit_s: float


@attrs.frozen(kw_only=True)
class JobEnd(Payload):
    kind: ClassVar[str] = "job.end"
    provider: str
    pod: str
    exit_code: int | None
    signal: str | None
    timed_out: bool
    seconds: float


@attrs.frozen(kw_only=True)
class Sync(Payload):
    """Something came home: `[path, size, sha256]` of each file; `missing` names what did not."""

    kind: ClassVar[str] = "sync"
    provider: str
    pod: str
    what: str
    bytes: int
    seconds: float
    whole: bool
    files: tuple[tuple[str, int, str], ...] = ()
    missing: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Adopt(Payload):
    kind: ClassVar[str] = "adopt"
    provider: str
    pod: str
    owner: Owner
    why: str


@attrs.frozen(kw_only=True)
class Reap(Payload):
    kind: ClassVar[str] = "reap"
    seen: int
    done: tuple[str, ...]
    left: tuple[str, ...]


@attrs.frozen(kw_only=True)
class PodTerminate(Payload):
    """`blame`: "host" = the host was broken, "unsuitable" = it works but didn't suit, None = neither."""

    kind: ClassVar[str] = "pod.terminate"
    provider: str
    pod: str
    name: str
    why: str
    answer: str
    answered: datetime | None
    blame: str | None = None


@attrs.frozen(kw_only=True)
class PodTerminated(Payload):
    """Proved absent: when describe said so, and the begin of each complete listing without it."""

    kind: ClassVar[str] = "pod.terminated"
    provider: str
    pod: str
    name: str
    described: datetime
    listings: tuple[datetime, ...]
    ended_by: str = "gipper"
    leftovers: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class PodTerminationPending(Payload):
    kind: ClassVar[str] = "pod.termination_pending"
    provider: str
    pod: str
    name: str
    last: str


@attrs.frozen(kw_only=True)
class PodRecheck(Payload):
    kind: ClassVar[str] = "pod.recheck"
    provider: str
    pod: str
    listed: datetime


@attrs.frozen(kw_only=True)
class PodReappeared(Payload):
    kind: ClassVar[str] = "pod.reappeared"
    provider: str
    pod: str
    listed: datetime


@attrs.frozen(kw_only=True)
class Spend(Payload):
    kind: ClassVar[str] = "spend"
    provider: str
    pod: str
    usd: Decimal
    seconds: float
    usd_h: Decimal
    basis: str
    gpu: str | None = None


@attrs.frozen(kw_only=True)
class SpendBilled(Payload):
    kind: ClassVar[str] = "spend.billed"
    provider: str
    pod: str
    usd: Decimal
    detail: Mapping[str, Decimal]
    basis: str


@attrs.frozen(kw_only=True)
class LedgerOpened(Payload):
    """First receipt of a ledger file that follows a damaged one."""

    kind: ClassVar[str] = "ledger.opened"
    after: str
    last_seq: int
    last_hash: str


PAYLOADS: Final[Mapping[str, type[Payload]]] = {c.kind: c for c in Payload.__subclasses__()}

# Payload keys that are dollars whatever the kind, so that a reader needs no class to restore them.
DOLLAR_KEYS: Final = frozenset({"usd", "usd_h", "reserved_usd"})


def to_json(payload: Payload) -> dict[str, Any]:
    """`payload` as JSON values: dollars and times become strings, tuples become lists."""
    return attrs.asdict(payload, value_serializer=_plain)  # type: ignore[arg-type]  # each subclass is attrs


def from_json(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """A stored payload with its dollars as `Decimal`; unknown kinds pass as they are."""
    restored: dict[str, Any] = {
        k: usd(v) if k in DOLLAR_KEYS and isinstance(v, str) else v for k, v in payload.items()
    }
    if kind == SpendBilled.kind and isinstance(restored.get("detail"), dict):
        restored["detail"] = {k: usd(v) for k, v in restored["detail"].items()}
    return restored


def stamp(moment: datetime) -> str:
    """UTC with microseconds and a Z: sorts as text as it does as time."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_stamp(text: str) -> datetime:
    """The inverse of `stamp`. Raises ValueError."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)


def _plain(_instance: object, _field: object, value: Any) -> Any:
    if isinstance(value, Decimal):
        return wire(value)
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(None, None, v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(None, None, v) for v in value]
    return value
