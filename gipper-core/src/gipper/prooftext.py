"""What a run's receipts prove about its machines, and the lines that say so. Pure: receipts in, text out.

Nothing is taken on trust that the receipts themselves contradict: a proof needs two complete listings,
begun after the market's last answer, and no sight of the machine since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final

import attrs

from gipper.money import ZERO
from gipper.values.receipts import (
    PodCreate,
    PodCreateDoubtful,
    PodCreateFailed,
    PodIntent,
    PodReappeared,
    PodRecheck,
    PodTerminate,
    PodTerminated,
    PodTerminationPending,
    Receipt,
    RunEnd,
    RunStart,
    Spend,
    SpendBilled,
    parse_stamp,
)
from gipper.wording import counted


@attrs.frozen(kw_only=True)
class Asked:
    """One answer to "end this machine"; `answered` None = there was none that counts.

    `recorded`: when the receipt was written, which is after the answer.
    """

    recorded: datetime
    why: str
    answer: str
    answered: datetime | None


@attrs.frozen(kw_only=True)
class Gone:
    """One proof of absence, as recorded."""

    at: datetime
    described: datetime
    listings: tuple[datetime, ...]
    ended_by: str
    leftovers: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Pending:
    """A teardown that was given up for the time being, and what was seen last."""

    at: datetime
    last: str


@attrs.define(kw_only=True)
class MachineProof:
    """All that the receipts say about one machine's end. Dollars are None where nothing is recorded."""

    provider: str
    pod: str
    name: str = ""
    usd_h: Decimal | None = None
    created: datetime | None = None
    adopted: bool = False
    asked: list[Asked] = attrs.field(factory=list)
    gone: list[Gone] = attrs.field(factory=list)
    pending: list[Pending] = attrs.field(factory=list)
    rechecked: list[datetime] = attrs.field(factory=list)
    reappeared: list[datetime] = attrs.field(factory=list)
    spend_usd: Decimal | None = None
    spend_s: float | None = None
    spend_basis: str | None = None
    billed_usd: Decimal | None = None

    @property
    def proof(self) -> Gone | None:
        """The proof that counts: the one whose listings are the latest."""
        return max(self.gone, key=lambda g: max(g.listings, default=g.described), default=None)

    @property
    def unchecked(self) -> bool:
        """Proved gone, and not looked for once more since."""
        proof = self.proof
        return proof is not None and not any(t >= max(proof.listings, default=t) for t in self.rechecked)

    @property
    def doubt(self) -> str | None:
        """Why it isn't proved gone, or None where it is."""
        proof = self.proof
        if proof is None:
            return self._without_proof()
        if len(proof.listings) < 2:
            return f"its proof names {counted(len(proof.listings), 'listing')} where two are needed"
        last = max(proof.listings)
        if any(seen >= last for seen in self.reappeared):
            return f"it was listed again at {_time(max(self.reappeared))} and not proved gone since"
        later = [a for a in self.asked if (a.answered or a.recorded) > min(proof.listings)]
        if later:
            when = _time(later[-1].answered or later[-1].recorded)
            return f"it was asked to end at {when}, after the listings that lacked it"
        return None

    def _without_proof(self) -> str:
        if self.pending:
            return f"it was not proved gone in time: {self.pending[-1].last}"
        return (
            "it was asked to end, and nobody proved that it is gone" if self.asked else "nobody ended it yet"
        )


@attrs.define(kw_only=True)
class Rent:
    """One attempt to rent, by the name that its machine would bear; `doubt` None = nothing is open."""

    provider: str
    name: str
    intended: datetime
    failed: str | None = None
    doubtful: str | None = None
    pods: int = 0

    @property
    def doubt(self) -> str | None:
        """Why a machine of this name may exist that nobody knows."""
        if self.pods or self.failed is not None:
            return None
        return self.doubtful or "the rent was never answered"


@attrs.define(kw_only=True)
class RunProof:
    """A run's machines and rents, and `gaps`: why these receipts may not be all."""

    run: str
    job: str = ""
    outcome: str | None = None
    machines: dict[tuple[str, str], MachineProof] = attrs.field(factory=dict)
    rents: dict[str, Rent] = attrs.field(factory=dict)
    gaps: tuple[str, ...] = ()

    @property
    def doubts(self) -> tuple[str, ...]:
        """Every reason why this run's machines aren't all proved gone; empty = proved."""
        machines = (f"{m.provider} {m.pod}: {d}" for m in self.machines.values() if (d := m.doubt))
        rents = (
            f"{r.provider} {r.name}: a machine may exist: {d}" for r in self.rents.values() if (d := r.doubt)
        )
        return (*machines, *rents, *(f"the ledger is not whole: {g}" for g in self.gaps))


def proof_of(run: str, receipts: Iterable[Receipt], gaps: Sequence[str] = ()) -> RunProof:
    """What the receipts of `run` amount to; kinds that say nothing about machines' ends are passed over."""
    proof = RunProof(run=run, gaps=tuple(gaps))
    for receipt in receipts:
        handler = _HANDLERS.get(receipt.kind)
        if handler is not None:
            proof.job = proof.job or receipt.refs.get("name", "")
            handler(proof, receipt)
    return proof


def lines(proof: RunProof) -> list[str]:
    """The proof for people, one fact a line, the verdict last."""
    named = f" ({proof.job})" if proof.job else ""
    out = [f"run {proof.run}{named}: {proof.outcome or 'not ended'}"]
    for machine in proof.machines.values():
        out += _machine_lines(machine)
    for rent in proof.rents.values():
        if not rent.pods:
            told = rent.failed if rent.failed is not None else f"a machine may exist: {rent.doubt}"
            out.append(f"rent {rent.name} ({rent.provider}), tried {_time(rent.intended)}: {told}")
    out += [f"the ledger is not whole: {gap}" for gap in proof.gaps]
    return [*out, _verdict(proof)]


def _machine_lines(machine: MachineProof) -> list[str]:
    state = f"NOT proved gone: {machine.doubt}" if machine.doubt else "proved gone"
    out = [f"machine {machine.pod} ({machine.provider}, {machine.name or 'name unknown'}): {state}"]
    out.append(f"  created     {_created(machine)}")
    out += [f"  asked       {a.why}: {_answer(a)}" for a in machine.asked]
    for gone in machine.gone:
        out.append(f"  described   {_time(gone.described)}: gone (ended by {gone.ended_by})")
        out.append(f"  not listed  {' and '.join(_time(t) for t in gone.listings) or 'never looked'}")
        out += [f"  left over   {item}" for item in gone.leftovers]
    out += [f"  pending     {_time(p.at)}: {p.last}" for p in machine.pending]
    out += [f"  back        {_time(t)}: listed again" for t in machine.reappeared]
    out += [f"  looked      {_time(t)}: not listed" for t in machine.rechecked]
    if machine.unchecked:
        out.append("  looked      not yet once more; the next reap does it")
    return [*out, f"  cost        {_cost(machine)}"]


def _created(machine: MachineProof) -> str:
    price = f" at ${machine.usd_h:.4f}/h" if machine.usd_h is not None else ""
    when = _time(machine.created) if machine.created else "not recorded"
    return f"{when}{price}" + (" (found by its name)" if machine.adopted else "")


def _answer(asked: Asked) -> str:
    answered = "" if asked.answered is None else f" at {_time(asked.answered)}"
    return f"{asked.answer}{answered}, recorded {_time(asked.recorded)}"


def _cost(machine: MachineProof) -> str:
    if machine.spend_usd is None:
        text = "not recorded"
    else:
        text = f"${machine.spend_usd:.6f} for {machine.spend_s or 0:.0f} s ({machine.spend_basis})"
    if machine.reappeared:
        text += "; what it cost when it was back is in no receipt: see `gipper pod reconcile`"
    return text + (f"; billed ${machine.billed_usd:.6f}" if machine.billed_usd is not None else "")


def _verdict(proof: RunProof) -> str:
    if proof.doubts:
        return f"NOT proved: {counted(len(proof.doubts), 'open point')}"
    if not proof.machines:
        return "proved: no machine was rented"
    total = sum((m.spend_usd or ZERO for m in proof.machines.values()), start=ZERO)
    rented = counted(len(proof.machines), "machine")
    return f"proved: {rented} rented, all gone; ${total:.6f} by gipper's own count"


def _time(moment: datetime) -> str:
    return f"{moment.strftime('%Y-%m-%d %H:%M:%S.%f')[:-3]} UTC"


def _of(proof: RunProof, r: Receipt) -> MachineProof:
    key = (r["provider"], r["pod"])
    machine = proof.machines.setdefault(key, MachineProof(provider=key[0], pod=key[1]))
    machine.name = machine.name or r.payload.get("name", "")
    return machine


def _run_start(proof: RunProof, r: Receipt) -> None:
    proof.job = proof.job or r.refs.get("name", "")


def _run_end(proof: RunProof, r: Receipt) -> None:
    proof.outcome = r["outcome"]


def _intent(proof: RunProof, r: Receipt) -> None:
    proof.rents[r["name"]] = Rent(provider=r["provider"], name=r["name"], intended=r.ts)


def _create(proof: RunProof, r: Receipt) -> None:
    known = (r["provider"], r["pod"]) in proof.machines
    machine = _of(proof, r)
    if not known or machine.created is None:
        machine.created, machine.usd_h, machine.adopted = r.ts, r["usd_h"], r["adopted"]
    if r["name"] in proof.rents:
        proof.rents[r["name"]].pods += 1


def _create_failed(proof: RunProof, r: Receipt) -> None:
    if r["name"] in proof.rents:
        proof.rents[r["name"]].failed = f"nothing was created ({r['error']})"


def _doubtful(proof: RunProof, r: Receipt) -> None:
    if r["name"] in proof.rents:
        looks = len(r["listings"])
        proof.rents[r["name"]].doubtful = f"{r['text']}; {counted(looks, 'complete listing')} did not show it"


def _terminate(proof: RunProof, r: Receipt) -> None:
    answered = parse_stamp(r["answered"]) if r["answered"] else None
    asked = Asked(recorded=r.ts, why=r["why"], answer=r["answer"], answered=answered)
    _of(proof, r).asked.append(asked)


def _terminated(proof: RunProof, r: Receipt) -> None:
    _of(proof, r).gone.append(
        Gone(
            at=r.ts, described=parse_stamp(r["described"]), ended_by=r["ended_by"],
            listings=tuple(parse_stamp(t) for t in r["listings"]), leftovers=tuple(r["leftovers"]),
        )
    )  # fmt: skip


def _pending(proof: RunProof, r: Receipt) -> None:
    _of(proof, r).pending.append(Pending(at=r.ts, last=r["last"]))


def _recheck(proof: RunProof, r: Receipt) -> None:
    _of(proof, r).rechecked.append(parse_stamp(r["listed"]))


def _reappeared(proof: RunProof, r: Receipt) -> None:
    _of(proof, r).reappeared.append(parse_stamp(r["listed"]))


def _spend(proof: RunProof, r: Receipt) -> None:
    machine = _of(proof, r)
    machine.spend_usd, machine.spend_s, machine.spend_basis = r["usd"], r["seconds"], r["basis"]


def _billed(proof: RunProof, r: Receipt) -> None:
    _of(proof, r).billed_usd = r["usd"]


_HANDLERS: Final[Mapping[str, Callable[[RunProof, Receipt], None]]] = {
    RunStart.kind: _run_start,
    RunEnd.kind: _run_end,
    PodIntent.kind: _intent,
    PodCreate.kind: _create,
    PodCreateFailed.kind: _create_failed,
    PodCreateDoubtful.kind: _doubtful,
    PodTerminate.kind: _terminate,
    PodTerminated.kind: _terminated,
    PodTerminationPending.kind: _pending,
    PodRecheck.kind: _recheck,
    PodReappeared.kind: _reappeared,
    Spend.kind: _spend,
    SpendBilled.kind: _billed,
}
