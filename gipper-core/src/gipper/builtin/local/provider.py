"""The provider's hooks: rent, look, list and end machines that are folders with a process."""

from __future__ import annotations

import base64
import binascii
import os
import subprocess
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final

import attrs

from gipper.api import (
    Address,
    Diagnosis,
    Doubtful,
    Listing,
    Machine,
    MachineState,
    Offer,
    OfferQuery,
    Port,
    ProviderContext,
    ProviderError,
    ProviderInfo,
    Refused,
    RentRequest,
    hookimpl,
    usd,
)
from gipper.builtin.local import offers, procs
from gipper.builtin.local.end import end_machine, server_of
from gipper.builtin.local.launch import USER, make_host_key, start_server
from gipper.builtin.local.record import HOST_KEY, LOG, Record, load, name_of, new_id, save

_HOST: Final = "127.0.0.1"
# An interpreter and its libraries take a second to start; on a machine that swaps, many.
_START: Final = timedelta(seconds=60)
_LOG_TAIL: Final = 2000


@attrs.frozen(kw_only=True)
class LocalSettings:
    """`[provider.local]`: what an hour on this machine is said to cost, so that caps can be tried."""

    usd_h: Decimal = attrs.field(default=Decimal(0), validator=attrs.validators.ge(Decimal(0)))


class LocalProvider:
    """Machines on this computer. The folder of a machine is the proof that it exists."""

    def __init__(self, context: ProviderContext) -> None:
        self._context = context

    @staticmethod
    @hookimpl
    def gipper_provider() -> ProviderInfo:
        """See the hook of the same name, as for all methods here."""
        return ProviderInfo(
            name=offers.PROVIDER,
            title="this machine",
            ssh_user=USER,
            ready_s=1.0,
            cpu=True,
            own_deadline=True,
            regions_known=False,
            named_only=True,
            bootstrap=False,
            appear_s=0.0,
            settle_s=0.2,
            settings_table=LocalSettings,
        )

    @hookimpl
    def gipper_list_offers(self, query: OfferQuery) -> Listing[Offer]:
        left = query.deadline - self._context.runtime.monotonic()
        gpus = offers.find_gpus(os.environ, left) if query.gpu_count else offers.Gpus()
        try:
            facts = offers.find_facts(self._context.data_folder)
        except OSError as error:
            raise ProviderError(f"local: can't tell what this machine has: {error}") from error
        return offers.list_offers(query, gpus, facts, self._usd_h())

    @hookimpl
    def gipper_rent(self, offer: Offer, request: RentRequest) -> Machine:
        record, private = self._new_record(offer, request)
        folder = self._folder(record.id)
        try:
            # From here on the machine exists: the folder bears its name.
            folder.mkdir(mode=0o700)
            _furnish(folder, record, private)
            start_server(folder, record.id)
        except subprocess.TimeoutExpired as error:
            raise Doubtful(f"local: machine {record.name} takes too long to start") from error
        except (OSError, subprocess.SubprocessError) as error:
            end_machine(folder, record.id, self._context.runtime)
            raise Refused(
                f"local: no machine could be started: {error}",
                kind="account",
                hint=f"look for a full disk, or an interpreter that can't start, under {folder.parent}",
            ) from error
        return self._tell(record, MachineState.STARTING)

    @hookimpl
    def gipper_describe(self, machine_id: str) -> Machine | None:
        name = name_of(machine_id)
        return self._describe(machine_id, name) if name else None

    @hookimpl
    def gipper_list_ours(self) -> Listing[Machine]:
        try:
            ids = sorted(entry.name for entry in self._machines().iterdir())
        except OSError as error:
            raise ProviderError(f"local: can't list machines: {error}") from error
        named = ((machine_id, name_of(machine_id)) for machine_id in ids)
        found = (self._describe(machine_id, name) for machine_id, name in named if name)
        return Listing(items=tuple(m for m in found if m is not None))

    @hookimpl
    def gipper_terminate(self, machine_id: str) -> None:
        if name_of(machine_id):
            end_machine(self._folder(machine_id), machine_id, self._context.runtime)

    @hookimpl
    def gipper_diagnose(self, machine_id: str) -> Diagnosis | None:
        if not name_of(machine_id):
            return None
        try:
            text = (self._folder(machine_id) / LOG).read_bytes()[-_LOG_TAIL:].decode("utf-8", "replace")
        except OSError:
            return None
        lines = text.strip().splitlines()
        return Diagnosis(text=lines[-1], fault="host") if lines else None

    def _describe(self, machine_id: str, name: str) -> Machine | None:
        folder = self._folder(machine_id)
        try:
            born = folder.stat().st_mtime
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ProviderError(f"local: can't look at machine {machine_id}: {error}") from error
        record = load(folder)
        if record is not None:
            return self._tell(record, *self._judge(record))
        fresh = self._context.runtime.now().timestamp() - born < _START.total_seconds()
        state = MachineState.PENDING if fresh else MachineState.ERROR
        fault = None if fresh else "it was never started: its folder has no record"
        return Machine(
            provider=offers.PROVIDER, id=machine_id, name=name, state=state, usd_h=self._usd_h(), fault=fault
        )

    def _judge(self, record: Record) -> tuple[MachineState, str | None]:
        if record.boot_id != procs.boot_id():
            return MachineState.ERROR, "this computer was restarted"
        if record.pid is not None:
            living = server_of(record) is not None
            return (MachineState.RUNNING, None) if living else (MachineState.ERROR, "its process died")
        if self._context.runtime.now() - record.created < _START:
            return MachineState.STARTING, None
        return MachineState.ERROR, "its process was never started, or ended before it served"

    def _tell(self, record: Record, state: MachineState, fault: str | None = None) -> Machine:
        known = record.port is not None and state is MachineState.RUNNING
        return Machine(
            provider=offers.PROVIDER,
            id=record.id,
            name=record.name,
            state=state,
            addresses=(Address(host=_HOST, port=record.port),) if known and record.port else (),
            ports=tuple(Port(inside=p, host=_HOST, outside=p) for p in record.ports),
            usd_h=usd(record.usd_h),
            created=record.created,
            host_id=offers.OFFER_ID,
            host_key=record.host_key,
            fault=fault,
        )

    def _new_record(self, offer: Offer, request: RentRequest) -> tuple[Record, bytes]:
        machine_id = new_id(request.name)
        if machine_id is None:
            raise Refused(f"local: no machine can be called {request.name!r}", kind="request")
        if not _is_public_key(request.public_key):
            raise Refused("local: the request's public key is not an OpenSSH public key", kind="request")
        visible = offer.raw.get("visible")
        limits = {"CUDA_VISIBLE_DEVICES": visible} if visible is not None else {}
        private, public = make_host_key()
        record = Record(
            id=machine_id,
            name=request.name,
            created=self._context.runtime.now(),
            end=request.end,
            life_s=request.boot_watchdog_s,
            public_key=request.public_key,
            host_key=public,
            boot_id=procs.boot_id(),
            usd_h=str(self._usd_h()),
            env={**limits, **request.env},
            ports=tuple(p.inside for p in request.ports if p.protocol == "tcp"),
        )
        return record, private

    def _usd_h(self) -> Decimal:
        settings = self._context.settings
        return usd(settings.usd_h if isinstance(settings, LocalSettings) else 0)

    def _machines(self) -> Path:
        folder = self._context.data_folder.absolute() / "machines"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def _folder(self, machine_id: str) -> Path:
        return self._machines() / machine_id


def _furnish(folder: Path, record: Record, private: bytes) -> None:
    save(folder, record)
    (folder / "home").mkdir(mode=0o700)
    (folder / "tmp").mkdir(mode=0o700)
    with os.fdopen(os.open(folder / HOST_KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(private)


def _is_public_key(text: str) -> bool:
    parts = text.split()
    if len(parts) < 2:
        return False
    try:
        blob = base64.b64decode(parts[1], validate=True)
    except (binascii.Error, ValueError):
        return False
    # The blob begins with the length and the name of its own type.
    return blob[4 : 4 + len(parts[0])] == parts[0].encode()
