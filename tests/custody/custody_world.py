"""A ledger as runs leave it, receipt by receipt, in simulated time; reports made from it."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from gipper.custody.asking import Asked
from gipper.custody.making import Maker
from gipper.custody.report import Report, Scope
from gipper.keys import Keys
from gipper.ledger.store import SqliteLedger
from gipper.redact import Redactor
from gipper.testing import SimRuntime
from gipper.values.receipts import (
    Adopt,
    CustodyUpload,
    JobStart,
    Owner,
    Payload,
    PodCreate,
    PodIntent,
    PodReady,
    PodTerminate,
    PodTerminated,
    PodTerminationPending,
    RunStart,
    SecretsHanded,
    Shell,
    Sync,
)

START = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
HERE = Owner(host_id="host-here", boot_id="b", pid_ns="p", pid=1, start_ticks=1)
INPUTS = ({"src": "data", "dst": "data"}, {"src": "conf/.env", "dst": None})


def sha(text: str) -> str:
    """The hash of a file that holds `text`."""
    return hashlib.sha256(text.encode()).hexdigest()


class Incident:
    """Runs written down as core writes them. `data` is the data folder."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.runtime = SimRuntime(START)
        self.ledger = self._opened()
        self.count = 0

    def _opened(self) -> SqliteLedger:
        return SqliteLedger.open(
            self.data,
            self.runtime,
            on_note=lambda _text: None,
            run_folder=lambda run: self.data / "runs" / run,
        )

    def write(self, payload: Payload, run: str, **refs: str) -> None:
        """One receipt of a run."""
        (self.data / "runs" / run).mkdir(parents=True, exist_ok=True)
        self.ledger.append(payload, run=run, refs={"name": f"job-{run}", **refs})

    def at(self, days: float) -> datetime:
        """Go on to so many days after the start, and say when that is."""
        moment = START + timedelta(days=days)
        self.runtime.sleep(max(0.0, (moment - self.runtime.now()).total_seconds()))
        return moment

    def rented(
        self, run: str, pod: str, provider: str = "acme", *, inputs: tuple[Any, ...] = INPUTS,
        secrets: tuple[str, ...] = ("HF_TOKEN",), ports: tuple[str, ...] = (), **job: Any,
    ) -> str:  # fmt: skip
        """A run up to the machine that answers; the machine's name. `job` are its options by provider."""
        self.count += 1
        name = f"gipper-aaaaa-{run}-1-0h{self.count:04}"
        pod_table = {"secrets": list(secrets), "ports": list(ports)}
        told = {"name": f"job-{run}", "inputs": list(inputs), "pod": pod_table, "provider": job}
        self.write(RunStart(job=told, owner=HERE, client="test", plugins={}), run)
        self.write(
            PodIntent(
                provider=provider, offer="o", name=name, attempt=1, end=self.runtime.now() + timedelta(hours=1),
                usd_h=Decimal("0.4"), reserved_usd=Decimal(1),
            ), run,
        )  # fmt: skip
        self.write(PodCreate(provider=provider, pod=pod, name=name, usd_h=Decimal("0.4")), run)
        ready = PodReady(
            provider=provider, pod=pod, seconds=3.0, address="198.51.100.7", port=2222, host_key="SHA256:abc"
        )
        self.write(ready, run)
        return name

    def worked(
        self, run: str, pod: str, provider: str = "acme", *, files: Mapping[str, str | None] | None = None,
        secrets: tuple[str, ...] = ("HF_TOKEN",),
    ) -> None:  # fmt: skip
        """Files (path to flag) go up, secrets are handed over, the job starts, one file comes home."""
        given = {"data/a.py": None, ".env": "dotenv file"} if files is None else files
        rows = tuple((path, len(path), sha(path), 0o600, flag) for path, flag in given.items())
        if rows:
            self.write(CustodyUpload(provider=provider, pod=pod, files=rows, bytes=9), run)
        if secrets:
            self.write(SecretsHanded(provider=provider, pod=pod, names=secrets), run)
        self.write(JobStart(provider=provider, pod=pod, folder="/home/gipper", limit_s=60.0), run)
        self.write(
            Sync(
                provider=provider, pod=pod, what="out", bytes=3, seconds=0.1, whole=True,
                files=(("out/model.bin", 3, sha("model")),),
            ), run,
        )  # fmt: skip

    def ended(
        self, run: str, pod: str, name: str, provider: str = "acme", *, proved: bool = True,
        leftovers: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """The machine is asked to end; proved gone, or not in time."""
        now = self.runtime.now()
        self.write(
            PodTerminate(provider=provider, pod=pod, name=name, why="over", answer="accepted", answered=now),
            run,
        )
        self.runtime.sleep(1)
        if not proved:
            self.write(PodTerminationPending(provider=provider, pod=pod, name=name, last="still listed"), run)
            return
        listings = (now + timedelta(seconds=1), now + timedelta(seconds=2))
        self.runtime.sleep(2)
        self.write(
            PodTerminated(
                provider=provider, pod=pod, name=name, described=now, listings=listings, leftovers=leftovers
            ), run,
        )  # fmt: skip

    def whole_run(self, run: str, pod: str, provider: str = "acme", days: float = 1, **given: Any) -> None:
        """A machine from its rent to its proof, for an hour on one day."""
        self.at(days)
        name = self.rented(run, pod, provider, **given)
        self.worked(run, pod, provider)
        self.at(days + 1 / 24)
        self.ended(run, pod, name, provider)

    def shell(self, run: str, pod: str) -> None:
        """Somebody logs in."""
        self.write(Shell(provider="acme", pod=pod, by="ada"), run)

    def taken_over(self, run: str, pod: str, host: str) -> None:
        """Another process takes the run over."""
        owner = Owner(host_id=host, boot_id="b", pid_ns="p", pid=2, start_ticks=2)
        self.write(Adopt(provider="acme", pod=pod, owner=owner, why="attached"), run)

    def maker(self, redactor: Redactor | None = None, env: Mapping[str, str] | None = None) -> Maker:
        """What makes reports, over a ledger opened anew as another process would."""
        self.ledger.close()
        self.ledger = self._opened()
        return Maker(
            store=self.ledger, data=self.data, redactor=redactor or Redactor(), keys=Keys(env or {}, ()),
            runtime=self.runtime,
        )  # fmt: skip

    def report(self, asked: Asked | None = None, **scope: Any) -> Report:
        """The report as a later process makes it."""
        maker = self.maker()
        return maker.report(maker.footing(), Scope(**scope), asked)

    def tamper(self, *statements: str) -> None:
        """SQL behind the ledger's back, its triggers taken off and put back."""
        self.ledger.close()
        conn = sqlite3.connect(self.data / "ledger.sqlite", isolation_level=None)
        triggers = conn.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for trigger, _ in triggers:
            conn.execute(f"DROP TRIGGER {trigger}")
        for statement in statements:
            conn.execute(statement)
        for _, sql in triggers:
            conn.execute(sql)
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        conn.close()


def kinds(report: Report) -> list[str]:
    """The kinds of the report's gaps."""
    return [gap.kind for gap in report.gaps]
