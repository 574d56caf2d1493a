"""What a reaper should do about each machine: the table of the reaper as a pure function.

The first row that fits decides. "look" = only the machine itself can say: a finished job is collected,
a machine without a job is ended, anything else is left until its end.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Literal

import attrs

from gipper.lifecycle.book import Book, PodRecord
from gipper.naming import PREFIX, MachineName
from gipper.values.machines import Machine, MachineState

Action = Literal["end", "retry", "prove", "close", "look", "leave"]
Client = Literal["alive", "dead", "unknown"]
_STRANGER_GRACE: Final = timedelta(minutes=30)
_UNPROMISED: Final = timedelta(seconds=600)


@attrs.frozen(kw_only=True)
class Verdict:
    """One machine (or one intent without a machine) and what to do about it. `pod` None = no id known.

    `back`: machines of the record that are listed although they were proved gone.
    """

    action: Action
    provider: str
    pod: str | None
    name: str
    why: str
    record: PodRecord | None = None
    machine: Machine | None = None
    needs_lock: bool = False
    back: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Sight:
    """What one provider listed, and what is known around it.

    `now` is the time by the market's clock, `now_sure` whether it may be believed; `listed` is when the
    listing began, by ours.
    """

    provider: str
    machines: tuple[Machine, ...]
    inst: str
    now: datetime
    listed: datetime
    ledger_whole: bool
    end_unknown: bool
    client: Callable[[str], Client]
    now_sure: bool = True

    def past(self, moment: datetime) -> bool:
        """Whether `moment` is over for sure."""
        return self.now_sure and self.now >= moment


def verdicts(sight: Sight, book: Book) -> list[Verdict]:
    """What to do about every machine of gipper's at this provider."""
    ours = [r for r in book.pods.values() if r.provider == sight.provider]
    known = [_of_record(sight, r) for r in ours if _open(r)]
    over = [v for r in ours if not _open(r) and (v := _of_closed(sight, r)) is not None]
    names = {r.name for r in ours}
    strangers = [
        _of_stranger(sight, m)
        for m in sight.machines
        if m.name.startswith(PREFIX) and m.name not in names and m.state is not MachineState.GONE
    ]
    return [*known, *over, *strangers]


def rechecks(sight: Sight, book: Book, after: timedelta) -> list[tuple[PodRecord, str]]:
    """Machines proved gone at least `after` before this listing, not in it, and not looked for since."""
    return [
        (record, pod)
        for record in book.pods.values()
        if record.provider == sight.provider
        for pod in due(record, sight.listed, after)
        if not _shown(sight, record)
    ]


def due(record: PodRecord, now: datetime, after: timedelta) -> list[str]:
    """Machines of `record` that must be looked for once more by now."""
    looked = record.terminated - record.rechecked
    return [p for p in record.pods if p in looked and now >= record.proved_at[p] + after]


def _open(record: PodRecord) -> bool:
    return record.open or bool(record.unspent and not record.failed)


def _of_record(sight: Sight, record: PodRecord) -> Verdict:
    listed = [m for m in sight.machines if m.name == record.name or m.id in record.pods]
    back = _back(sight, record)
    pod = record.pods[0] if record.pods else (listed[0].id if listed else None)

    def verdict(action: Action, why: str, *, needs_lock: bool = True) -> Verdict:
        return Verdict(
            action=action, provider=sight.provider, pod=pod, name=record.name, why=why, record=record,
            machine=listed[0] if listed else None, needs_lock=needs_lock, back=back,
        )  # fmt: skip

    over = sight.past(record.end)
    client = sight.client(record.run)
    if record.ending and client != "alive":
        return verdict("retry", "its teardown is unfinished")
    if back and client != "alive":
        return verdict("end", "it is there although it was proved gone")
    if pod is not None and listed and over:
        return verdict("end", f"it is past its end ({record.end:%H:%M} UTC)", needs_lock=False)
    if client == "alive" or (client == "unknown" and not over):
        return verdict("leave", f"its client is {client}, until {record.end:%Y-%m-%d %H:%M} UTC")
    if pod is None:
        return _of_intent(sight, record, verdict)
    if not listed:
        return verdict("prove", "it is not listed and nobody supervises it")
    return verdict("look", f"nobody supervises it; it ends at {record.end:%Y-%m-%d %H:%M} UTC")


def _of_intent(sight: Sight, record: PodRecord, verdict: Callable[..., Verdict]) -> Verdict:
    appear = _UNPROMISED if record.appear_s is None else timedelta(seconds=record.appear_s)
    if sight.past(record.end + appear):
        return verdict("close", "it never appeared")
    return verdict("leave", "no machine of this name is listed; it is looked for until its end")


def _of_closed(sight: Sight, record: PodRecord) -> Verdict | None:
    back = _back(sight, record)
    there = [m for m in _shown(sight, record) if m.id in back or m.id not in record.terminated]
    if not there:
        return None
    why = "it was proved gone" if back else "nothing should be left of its name"
    return Verdict(
        action="end", provider=sight.provider, pod=there[0].id, name=record.name, record=record,
        why=f"it is there although {why}", machine=there[0], back=back,
    )  # fmt: skip


def _shown(sight: Sight, record: PodRecord) -> list[Machine]:
    """By its name; by its id alone only where the market doesn't say the name (an id may be used again)."""
    return [
        m
        for m in sight.machines
        if m.state is not MachineState.GONE
        and (m.name == record.name or (not m.name and m.id in record.pods))
    ]


def _back(sight: Sight, record: PodRecord) -> tuple[str, ...]:
    """A listing that began before the proof did may still show what has gone since: that isn't back."""
    shown = [m.id for m in _shown(sight, record) if m.id in record.terminated]
    return tuple(pod for pod in shown if sight.listed >= record.proved_at[pod])


def _of_stranger(sight: Sight, machine: Machine) -> Verdict:
    parsed = MachineName.parse(machine.name)

    def verdict(action: Action, why: str) -> Verdict:
        return Verdict(
            action=action, provider=sight.provider, pod=machine.id, name=machine.name, why=why,
            machine=machine, needs_lock=False,
        )  # fmt: skip

    if parsed is None:
        why = "its name is none that gipper gives"
        return verdict("end" if sight.end_unknown else "leave", f"{why}; --unknown ends it")
    if parsed.inst != sight.inst:
        if sight.past(parsed.end + _STRANGER_GRACE):
            return verdict("end", "it is another installation's and 30 minutes past its end")
        return verdict("leave", f"it is another installation's ({parsed.inst}), until {parsed.end:%H:%M} UTC")
    if sight.ledger_whole:
        return verdict("end", "forgotten: this ledger doesn't know it")
    if sight.past(parsed.end) or sight.end_unknown:
        return verdict("end", "it is past its end, and the ledger is damaged")
    return verdict("leave", "the ledger is damaged and may have known it; --unknown ends it")
