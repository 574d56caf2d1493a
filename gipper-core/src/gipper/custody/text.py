"""The custody report as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from gipper.custody.report import CameBack, Credential, Gap, Group, MachineLine, Report, Scope, Where
from gipper.custody.stays import Told
from gipper.wording import counted

ROTATE: Final = "Rotate"
REVIEW: Final = "Review"
GAPS: Final = "Can't vouch for"


def lines(report: Report) -> Iterator[str]:
    """The report: what it covers, the machines, then its three parts; sizes in bytes, times in UTC."""
    yield f"Custody report, made {moment(report.made)}: {scope_text(report.scope)}"
    yield source_text(report)
    yield ""
    yield f"Machines ({len(report.machines)})"
    for machine in report.machines:
        yield from _machine(machine)
    yield from _rotate(report)
    yield from _review(report)
    yield from _gaps(report)


def scope_text(scope: Scope) -> str:
    """What was asked about, in words."""
    named = [f"machines of {scope.provider}" if scope.provider else "all machines"]
    named += [f"of run {scope.run}"] if scope.run else []
    named += [f"from {moment(scope.since)}"] if scope.since else []
    named += [f"until {moment(scope.until)}"] if scope.until else []
    return " ".join(named)


def source_text(report: Report) -> str:
    """Which ledger it was made from."""
    return f"from a ledger of {counted(report.receipts, 'receipt')}, head {report.head or '(none)'}"


def asked_text(report: Report) -> str:
    """Whether markets were asked for machines that the ledger lacks."""
    if report.asked:
        return f"Asked for machines that the ledger lacks: {', '.join(report.asked)}."
    return "No market was asked for machines that the ledger lacks; --check-providers does that."


def moment(when: datetime) -> str:
    """A time for people."""
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


def span(since: datetime, until: datetime | None) -> str:
    """From when to when."""
    return f"{moment(since)} to {moment(until) if until else 'NOT PROVED GONE'}"


def where_text(where: Where) -> str:
    """Which machine, and when."""
    run = f", run {where.run}" if where.run else ""
    return f"{where.provider} {where.pod}{run}: {span(where.since, where.until)}"


def gap_text(gap: Gap) -> str:
    """One gap, with the machine or run that it is about."""
    about = " ".join(x for x in (gap.provider, gap.pod) if x)
    run = f"run {gap.run}" if gap.run else ""
    named = ", ".join(x for x in (about, run) if x)
    return f"{gap.kind}: {named}: {gap.text}" if named else f"{gap.kind}: {gap.text}"


def told_text(note: Told) -> str:
    """One thing that a person wrote down."""
    pod = f" {note.pod}" if note.pod else ""
    told = f"{moment(note.at)} {note.provider}{pod}: {note.text}"
    return f"{told} (by {note.by}, recorded {moment(note.recorded)})"


def credential_text(one: Credential) -> str:
    """What to rotate."""
    if one.kind == "secret":
        return f"secret {one.name} ({one.why})"
    return f"file {one.name} ({one.why}), sha256 {one.sha256}"


def _machine(machine: MachineLine) -> Iterator[str]:
    run = f", run {machine.run}" if machine.run else ""
    job = f" ({machine.job})" if machine.job else ""
    yield f"  {machine.provider} {machine.pod}{run}{job}: {span(machine.since, machine.until)}"
    if machine.address:
        yield f"    address {machine.address}, host key {machine.host_key or 'not recorded'}"
    if machine.ports:
        yield f"    ports published: {', '.join(machine.ports)}"
    for volume in machine.volumes:
        yield f"    volume attached: {volume}"


def _rotate(report: Report) -> Iterator[str]:
    yield ""
    yield f"{ROTATE} ({len(report.rotate)}): these credentials were on machines in that time"
    for one in report.rotate:
        yield f"  {credential_text(one)}"
        for where in one.where:
            yield f"    on {where_text(where)}"
    if not report.rotate:
        yield "  nothing that the ledger knows of"


def _review(report: Report) -> Iterator[str]:
    count = sum(len(g.files) for g in report.files)
    yield ""
    yield f"{REVIEW} ({counted(count, 'file')}, {counted(len(report.notes), 'note')}): this was there"
    for group in report.files:
        yield from _group(group)
    for came in report.back:
        yield from _back(came)
    for note in report.notes:
        yield f"  recorded {told_text(note)}"
    if not (report.files or report.back or report.notes):
        yield "  nothing that the ledger knows of"


def _group(group: Group) -> Iterator[str]:
    job = f" of {group.job}" if group.job else ""
    yield f"  input {group.input}{job}: {counted(len(group.files), 'file')}, {group.bytes:,} bytes"
    yield f"    on {where_text(group.where)}"
    for file in group.files:
        flag = f"  [{file.flag}]" if file.flag else ""
        yield f"    {file.sha256}  {file.size:>12}  {file.mode:04o}  {file.path}{flag}"


def _back(came: CameBack) -> Iterator[str]:
    yield f"  came home: {counted(len(came.files), 'file')}"
    yield f"    from {where_text(came.where)}"
    for file in came.files:
        yield f"    {file.sha256}  {file.size:>12}  {file.path}"


def _gaps(report: Report) -> Iterator[str]:
    yield ""
    yield f"{GAPS} ({len(report.gaps)}): why this may not be all"
    for gap in report.gaps:
        yield f"  {gap_text(gap)}"
    if not report.gaps:
        yield "  no gap is known"
    yield f"  {asked_text(report)}"
