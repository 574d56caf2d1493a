"""`gipper pod proof`: it says what the receipts prove, and plainly what they don't."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import attrs
import pytest
from support_fake import handle, services

from gipper.lifecycle.proof import Proof, Rental, end_machine
from gipper.lifecycle.services import Services
from gipper.lifecycle.spending import record_spend
from gipper.naming import MachineName
from gipper.prooftext import RunProof, lines, proof_of
from gipper.testing import FakeMarket, SimRuntime
from gipper.values.receipts import (
    Owner,
    PodCreate,
    PodCreateDoubtful,
    PodCreateFailed,
    PodIntent,
    PodReappeared,
    PodRecheck,
    PodTerminate,
    PodTerminated,
    RunEnd,
    RunStart,
    SpendBilled,
)

RUN = "0000000000"
REFS = {"name": "job"}
SCRIPT = str(Path(sys.executable).parent / "gipper")


@attrs.define
class Stage:
    """A run on the fake market, step by step, its ledger where the command looks for it."""

    home: Path
    market: FakeMarket
    services: Services
    name: str

    def write(self, *payloads: object) -> None:
        for payload in payloads:
            self.services.ledger.append(payload, run=RUN, refs=REFS)  # type: ignore[arg-type]

    def begin(self) -> None:
        owner = Owner(host_id="h", boot_id="b", pid_ns="n", pid=1, start_ticks=1)
        now = self.market.runtime.now()
        self.write(
            RunStart(job={"name": "job"}, owner=owner, client="test", plugins={}),
            PodIntent(
                provider="acme", offer="o1", name=self.name, attempt=1, end=now + timedelta(hours=1),
                usd_h=Decimal("0.40"), reserved_usd=Decimal("0.50"), appear_s=5.0,
            ),
        )  # fmt: skip

    def rented(self) -> Rental:
        self.begin()
        provider = handle(self.market, self.home / "p")
        machine = self.market.create(self.name, Decimal("0.40"))
        self.write(PodCreate(provider="acme", pod=machine.id, name=self.name, usd_h=Decimal("0.40")))
        return Rental(
            provider=provider, run=RUN, name=self.name, pod=machine.id, usd_h=Decimal("0.40"),
            since=self.market.runtime.now(), job="job", listed=True,
        )  # fmt: skip

    def over(self, rental: Rental) -> Proof | None:
        self.market.runtime.sleep(90)
        proof = end_machine(self.services, rental, "the run is over")
        if proof is not None:
            record_spend(self.services, rental, proof.asked, "computed")
        self.write(RunEnd(outcome="succeeded", reason="exit code 0"))
        return proof

    def proof(self) -> RunProof:
        return proof_of(RUN, self.services.ledger.read(run=RUN))

    def command(self, *args: str) -> subprocess.CompletedProcess[str]:
        words = [SCRIPT, "pod", "proof", *(args or (RUN,))]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def stage(own_folders: Path) -> Stage:
    runtime = SimRuntime()
    svc = services(own_folders / "data", runtime)
    name = str(MachineName(inst="00000", run=RUN, attempt=1, end=runtime.now()))
    return Stage(own_folders, FakeMarket(runtime), svc, name)


def test_a_straight_run_is_proved(stage: Stage) -> None:
    """Exit 0: what was asked, answered, described and listed, each with its time, and what it cost."""
    rental = stage.rented()
    proof = stage.over(rental)
    assert proof is not None
    done = stage.command()
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert told[0] == f"run {RUN} (job): succeeded"
    assert told[1] == f"machine {rental.pod} (acme, {stage.name}): proved gone"
    assert "2026-01-01 00:00:00.000 UTC at $0.4000/h" in told[2]
    assert "the run is over: accepted at 2026-01-01 00:01:30.000 UTC, recorded 2026-01-01 00:01:30" in told[3]
    assert "described" in told[4] and "00:01:30.000 UTC: gone" in told[4]
    assert "00:01:30.000 UTC and 2026-01-01 00:01:31.000 UTC" in told[5]
    assert "not yet once more" in told[6]
    assert "$0.010000 for 90 s (computed)" in told[7]
    assert told[-1].startswith("proved: 1 machine rented, all gone; $0.010000")
    assert done.stderr == ""


def test_json_holds_the_same(stage: Stage) -> None:
    """`--json`: dollars are numbers, times UTC text, the verdict a boolean."""
    rental = stage.rented()
    stage.over(rental)
    found = json.loads(stage.command(RUN, "--json").stdout)
    assert (found["run"], found["proved"], found["doubts"], found["gaps"]) == (RUN, True, [], [])
    (machine,) = found["machines"]
    assert (machine["pod"], machine["proved"], machine["spend_usd"]) == (rental.pod, True, 0.01)
    assert set(machine["asked"][0]) == {"recorded", "why", "answer", "answered"}
    assert machine["gone"][0]["listings"] == ["2026-01-01T00:01:30Z", "2026-01-01T00:01:31Z"]


def test_a_pending_teardown_is_no_proof(stage: Stage) -> None:
    """Exit 5, the machine named, what was seen last, and what to type."""
    rental = stage.rented()
    stage.market.script("terminate", "ignored", forever=True)
    assert stage.over(rental) is None
    done = stage.command()
    assert done.returncode == 5
    assert f"machine {rental.pod} (acme, {stage.name}): NOT proved gone" in done.stdout
    assert "still listed as running" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("NOT proved")
    assert "next: gipper pod reap" in done.stderr


def test_a_machine_that_nobody_ended_is_no_proof(stage: Stage) -> None:
    """A run that goes on, or whose client died: exit 5 and the way back to it."""
    stage.rented()
    done = stage.command()
    assert done.returncode == 5
    assert "nobody ended it yet" in done.stdout
    assert f"gipper pod attach {RUN}" in done.stderr


def test_a_twin_has_its_own_proof(stage: Stage) -> None:
    """Two machines of one name: each with its own lines, the second found by its name."""
    rental = stage.rented()
    twin = stage.market.create(stage.name, Decimal("0.40"))
    stage.over(rental)
    done = stage.command()
    assert done.returncode == 0
    assert f"machine {twin.id} (acme, {stage.name}): proved gone" in done.stdout
    assert "(found by its name)" in done.stdout
    assert "2 machines rented, all gone" in done.stdout


def _tamper(folder: Path, statement: str) -> None:
    conn = sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)
    triggers = conn.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        conn.execute(f"DROP TRIGGER {name}")
    conn.execute(statement)
    for _, sql in triggers:
        conn.execute(sql)
    conn.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM receipts WHERE kind = 'pod.create'",
        "UPDATE receipts SET payload = replace(payload, 'accepted', 'Accepted')",
    ],
)
def test_a_damaged_ledger_vouches_for_nothing(stage: Stage, statement: str) -> None:
    """A receipt is missing or altered: exit 5, the gap named, although the rest would look fine."""
    stage.over(stage.rented())
    _tamper(stage.home / "data", statement)
    done = stage.command()
    assert done.returncode == 5
    assert "the ledger is not whole: ledger.sqlite: receipt" in done.stdout
    assert "next: gipper ledger verify" in done.stderr
    assert json.loads(stage.command(RUN, "--json").stdout)["gaps"]


def test_damage_that_was_closed_before_the_run_is_no_gap(stage: Stage) -> None:
    """An accepted gap in an older file can't hide a receipt of a run that began in the next one."""
    note = PodRecheck(provider="acme", pod="x", listed=stage.market.runtime.now())
    for _ in range(3):
        stage.services.ledger.append(note, run="1111111111")
    _tamper(stage.home / "data", "DELETE FROM receipts WHERE seq = 2")
    accepted = subprocess.run([SCRIPT, "ledger", "verify", "--accept"], capture_output=True, text=True)
    assert "accepted" in accepted.stdout, accepted
    stage = attrs.evolve(stage, services=services(stage.home / "data", stage.market.runtime))
    stage.over(stage.rented())
    done = stage.command()
    assert done.returncode == 0, done.stdout + done.stderr
    assert stage.command("1111111111").returncode == 5


def test_an_unknown_run_is_wrong_use(stage: Stage) -> None:
    """Exit 2, whatever the shape of the name; a hint what to type."""
    stage.begin()
    for run in ("1111111111", "nonsense", "../../etc"):
        done = stage.command(run)
        assert done.returncode == 2
        assert "no receipt of a run" in done.stderr and "gipper pod cost" in done.stderr


def test_no_ledger_at_all_is_wrong_use(own_folders: Path) -> None:
    """Nothing was ever run here: exit 2, and nothing is made."""
    words = [SCRIPT, "pod", "proof", RUN]
    assert subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 2
    assert not (own_folders / "data").exists()


def test_a_rent_that_failed_is_no_machine(stage: Stage) -> None:
    """Nothing was created: there is nothing to prove."""
    stage.begin()
    stage.write(PodCreateFailed(provider="acme", name=stage.name, error="OfferGone"))
    assert stage.proof().doubts == ()
    assert lines(stage.proof())[-1] == "proved: no machine was rented"


@pytest.mark.parametrize("doubtful", [True, False])
def test_a_rent_in_doubt_is_told(stage: Stage, doubtful: bool) -> None:
    """Never answered, or in doubt: a machine of this name may exist, and that is no proof."""
    stage.begin()
    if doubtful:
        stage.write(PodCreateDoubtful(provider="acme", name=stage.name, text="the answer was lost"))
    (doubt,) = stage.proof().doubts
    assert stage.name in doubt and "may exist" in doubt


def _proved(stage: Stage, *more: object) -> RunProof:
    stage.over(stage.rented())
    stage.write(*more)
    return stage.proof()


def test_back_is_a_doubt_until_proved_again(stage: Stage) -> None:
    """A reappearance undoes the proof; a later proof mends it; both stay visible."""
    now = stage.market.runtime.now() + timedelta(hours=1)
    proof = _proved(stage, PodReappeared(provider="acme", pod="acme-1", listed=now))
    assert "listed again" in proof.doubts[0]
    again = tuple(now + timedelta(seconds=s) for s in (5, 7))
    stage.write(
        PodTerminate(provider="acme", pod="acme-1", name=stage.name, why="it is back", answer="accepted",
                     answered=now + timedelta(seconds=4)),
        PodTerminated(provider="acme", pod="acme-1", name=stage.name, described=again[0], listings=again),
    )  # fmt: skip
    assert stage.proof().doubts == ()
    text = "\n".join(lines(stage.proof()))
    assert "listed again" in text and "not yet once more" in text and "in no receipt" in text


def test_a_recheck_and_a_bill_are_shown(stage: Stage) -> None:
    """Looked for once more, and what the market charged."""
    later = stage.market.runtime.now() + timedelta(hours=1)
    bill = SpendBilled(provider="acme", pod="acme-1", usd=Decimal("0.02"), detail={}, basis="itemised")
    proof = _proved(stage, PodRecheck(provider="acme", pod="acme-1", listed=later), bill)
    text = "\n".join(lines(proof))
    assert "01:00:00.000 UTC: not listed" in text and "billed $0.020000" in text
    assert "not yet once more" not in text


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [(-10, 20, "after the listings that lacked it"), (10, None, "1 listing where two are needed")],
)
def test_weak_evidence_is_no_proof(stage: Stage, first: int, second: int | None, told: str) -> None:
    """`pod.terminated` alone isn't believed: two listings, begun after the market's answer, or no proof."""
    stage.rented()
    now = stage.market.runtime.now()
    times = tuple(now + timedelta(seconds=s) for s in (first, second) if s is not None)
    asked = PodTerminate(
        provider="acme", pod="acme-1", name=stage.name, why="over", answer="accepted", answered=now
    )
    stage.write(
        asked,
        PodTerminated(provider="acme", pod="acme-1", name=stage.name, described=now, listings=times),
    )
    assert told in stage.proof().doubts[0]


def test_hostile_text_stays_text(stage: Stage) -> None:
    """A market's answer with control characters can't drive the terminal."""
    rental = stage.rented()
    asked = PodTerminate(
        provider="acme",
        pod=rental.pod,
        name=stage.name,
        why="over",
        answer="no\x1b[2J\nrun x: proved",
        answered=None,
    )
    stage.write(asked)
    assert "\x1b" not in stage.command().stdout
    assert not any(line.startswith("run x") for line in stage.command().stdout.splitlines())
