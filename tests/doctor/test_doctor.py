"""`gipper doctor`: what it finds, that each finding has its cure, and whom it doesn't ask."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest

from gipper import diagnosis_places, reaptimer
from gipper.core import Gipper
from gipper.diagnosis import Finding, examine
from gipper.ledger.store import SqliteLedger
from gipper.markers import hookimpl
from gipper.naming import MachineName
from gipper.plugins.registry import Registry
from gipper.runtime import RealRuntime, Runtime
from gipper.testing import FakeMarket, SimRuntime
from gipper.values.bills import KeyCheck
from gipper.values.offers import Listing
from gipper.values.plugins import ProviderInfo
from gipper.values.receipts import CustodyNote

SCRIPT = str(Path(sys.executable).parent / "gipper")
KEY = "acme-key-value-1234"


@attrs.define
class KeyedMarket(FakeMarket):
    """A market with a key, whose list may never answer and whose clock is at `url`."""

    url: str | None = None
    silent: bool = False

    def info(self) -> ProviderInfo:
        return attrs.evolve(super().info(), key_names=("ACME_API_KEY",))

    def provider_class(self) -> type:
        market, base = self, super().provider_class()

        class Keyed(base):  # type: ignore[misc, valid-type]
            def __init__(self, context: Any) -> None:
                super().__init__(context)
                self.context = context

            @hookimpl
            def gipper_check_key(self) -> KeyCheck:
                market.calls.append(("check_key", None))
                if market.url:
                    self.context.http().get(market.url)
                return KeyCheck(ok=True)

            @hookimpl
            def gipper_list_ours(self) -> Listing[Any]:
                if market.silent:
                    market.runtime.sleep(3600)
                return super().gipper_list_ours()  # type: ignore[no-any-return]

        return Keyed


@attrs.define
class Ward:
    """A user, one market, and what doctor says to them."""

    home: Path
    market: KeyedMarket
    env: dict[str, str]

    def findings(self) -> list[Finding]:
        registry = Registry()
        registry.add_provider(self.market.provider_class(), distribution="gipper-acme", version="1")
        return list(examine(Gipper(env=self.env, runtime=self.market.runtime, registry=registry)))

    def about(self, what: str) -> list[Finding]:
        return [f for f in self.findings() if f.what == what]

    def one(self, what: str) -> Finding:
        (found,) = self.about(what)
        return found


@pytest.fixture
def ward(own_folders: Path) -> Ward:
    return _ward(own_folders, SimRuntime())


def _ward(home: Path, runtime: Runtime) -> Ward:
    empty = home / "bin"
    empty.mkdir()
    env = {
        "PATH": str(empty), "HOME": str(home), "GIPPER_DATA": str(home / "data"),
        "GIPPER_CONFIG": str(home / "config" / "config.toml"), "GIPPER_KEYS": str(home / "keys"),
    }  # fmt: skip
    return Ward(home, KeyedMarket(runtime), env)


def _with_key(ward: Ward) -> Ward:
    ward.env["ACME_API_KEY"] = KEY
    return ward


def test_nobody_is_asked_without_a_key(ward: Ward) -> None:
    """No key, no question: the missing key is told with its cure."""
    found = ward.one("key")
    assert found.level == "warning" and "ACME_API_KEY is not set" in found.text
    assert ward.market.calls == []
    assert ward.one("timer").level == "ok"
    assert ward.about("clock") == []


def test_with_a_key_it_is_tried(ward: Ward) -> None:
    """The key is tried, the machines are listed; the key's value is nowhere in what is told."""
    found = _with_key(ward).findings()
    assert [f for f in found if f.what == "key"] == [
        Finding(level="ok", what="key", text="ACME_API_KEY is set and works")
    ]
    assert [verb for verb, _ in ward.market.calls] == ["check_key", "list_ours"]
    assert KEY not in repr(found)


def test_every_finding_has_its_cure(ward: Ward) -> None:
    """Whatever isn't well says what to do, in every state that a test here brings about."""
    _with_key(ward)
    (ward.home / "keys").mkdir()
    (ward.home / "keys").chmod(0o777)
    (ward.home / "data").mkdir(mode=0o755)
    ward.market.script("list_ours", "fail", forever=True)
    found = ward.findings()
    assert {f.level for f in found} == {"ok", "warning", "trouble"}
    assert [f for f in found if (f.cure is None) != (f.level == "ok")] == []


def _machine(ward: Ward, inst: str) -> str:
    end = ward.market.runtime.now() + timedelta(hours=1)
    name = str(MachineName(inst=inst, run="0000000000", attempt=1, end=end))
    return ward.market.create(name, Decimal("1")).id


def test_machines_that_are_not_in_this_ledger(ward: Ward) -> None:
    """Another installation's and misnamed ones: warnings; a forgotten one: trouble; strangers': nothing."""
    _with_key(ward)
    other = _machine(ward, "zzzzz")
    own = Gipper(env=ward.env).installation.inst
    forgotten = _machine(ward, own)
    odd = ward.market.create("gipper-odd", Decimal("1")).id
    ward.market.create("training", Decimal("1"))
    told = {f.text.split()[1]: f for f in ward.about("machines") if f.level != "ok"}
    assert set(told) == {other, forgotten, odd}
    assert told[other].level == "warning" and "another installation's (zzzzz)" in told[other].text
    assert told[forgotten].level == "trouble" and told[forgotten].cure == "gipper pod reap"
    assert len(ward.market.alive()) == 4


def test_a_market_that_never_answers_is_given_up(ward: Ward) -> None:
    """After 20 s the listing is told as not answered, and doctor goes on."""
    _with_key(ward).market.silent = True
    found = ward.findings()
    (told,) = [f for f in found if f.what == "machines of acme"]
    assert "not answered within 20 s" in told.text
    assert any(f.what == "timer" for f in found)


@contextmanager
def _clock(offset: float) -> Iterator[str]:
    runtime = RealRuntime()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def date_time_string(self, timestamp: float | None = None) -> str:
            return formatdate(runtime.now().timestamp() + offset, usegmt=True)

        def log_message(self, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("offset", "level", "told"),
    [(0, "ok", "within"), (300, "warning", "behind"), (-300, "warning", "ahead of")],
)
def test_the_clock_is_read_from_the_market_s_answers(
    own_folders: Path, offset: float, level: str, told: str
) -> None:
    """More than a minute off is a warning, either way."""
    ward = _with_key(_ward(own_folders, RealRuntime()))
    with _clock(offset) as ward.market.url:
        found = ward.one("clock")
    assert found.level == level and told in found.text


def test_a_dotenv_that_others_can_read(ward: Ward) -> None:
    """Trouble, once, with the chmod that mends it; the rest is still looked at."""
    ward.env["GIPPER_ENV"] = str(ward.home / "my keys.env")
    Path(ward.env["GIPPER_ENV"]).write_text(f"ACME_API_KEY={KEY}\n")
    Path(ward.env["GIPPER_ENV"]).chmod(0o644)
    found = ward.one("dotenv")
    assert found.level == "trouble" and found.cure == f"chmod 600 '{ward.home}/my keys.env'"
    assert ward.market.calls == []
    assert ward.about("ssh")
    Path(ward.env["GIPPER_ENV"]).chmod(0o600)
    assert ward.one("dotenv").level == "ok"
    assert ward.one("key").level == "ok"


def test_gipper_env_that_is_missing(ward: Ward) -> None:
    """It is exclusive even when it isn't there: said."""
    ward.env["GIPPER_ENV"] = str(ward.home / "gone.env")
    found = ward.one("dotenv")
    assert found.level == "warning" and "doesn't exist" in found.text


def test_the_keys_folder(ward: Ward) -> None:
    """A folder in which others can write, and a key that others can read, are trouble."""
    folder = ward.home / "keys"
    folder.mkdir(mode=0o700)
    (folder / "id_ed25519").write_text("key")
    (folder / "id_ed25519").chmod(0o644)
    assert ward.one("ssh key").level == "trouble"
    assert ward.about("keys folder") == []
    folder.chmod(0o777)
    assert ward.one("keys folder").cure == f"chmod 700 {folder}"


def test_a_data_folder_in_memory(ward: Ward) -> None:
    """On a tmpfs a restart loses which machines run."""
    ward.env["GIPPER_DATA"] = "/dev/shm/gipper-doctor-test"
    ledger_made = Path(ward.env["GIPPER_DATA"])
    found = list(diagnosis_places.data_folder(Gipper(env=ward.env)))
    assert any(f.level == "warning" and "in memory" in f.text for f in found)
    assert not ledger_made.exists()


def test_run_folders_that_grew(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number and size; over the limit, which one is the largest."""
    monkeypatch.setattr(diagnosis_places, "_MUCH", 1000)
    for run, size in (("0000000000", 10), ("1111111111", 100)):
        folder = ward.home / "data" / "runs" / run
        folder.mkdir(parents=True)
        (folder / "log").write_bytes(b"x" * size)
    assert ward.one("runs").level == "ok"
    (ward.home / "data" / "runs" / "1111111111" / "log").write_bytes(b"x" * 2000)
    found = ward.one("runs")
    assert (
        found.level == "warning" and "largest is 1111111111" in found.text and "2 run folders" in found.text
    )


def test_a_folder_that_can_t_be_looked_at(ward: Ward) -> None:
    """A file where the data folder should be is a finding, not a traceback."""
    (ward.home / "data").write_text("")
    assert ward.about("data folder")[0].level == "trouble"


def test_the_timer(ward: Ward) -> None:
    """None though a key is set: a warning; installed: ok, with what it lacks; stopped: trouble."""
    _with_key(ward)
    missing = ward.one("timer")
    assert missing.level == "warning" and "have this run every 15 minutes" in (missing.cure or "")
    tool = Path(ward.env["PATH"]) / "systemctl"
    tool.write_text("#!/bin/sh\nexit 0\n")
    tool.chmod(0o755)
    assert ward.one("timer").cure == "gipper pod reap-timer install"
    reaptimer.install(Gipper(env=ward.env, registry=Registry()))
    found = ward.about("timer")
    assert [f.level for f in found] == ["ok", "warning", "warning"]
    assert "ACME_API_KEY" in found[1].text and found[2].cure == "loginctl enable-linger"
    tool.write_text('#!/bin/sh\n[ "$2" != is-active ]\n')
    assert ward.about("timer")[0].level == "trouble"


def test_settings_with_mistakes_are_told_once(ward: Ward) -> None:
    """Each check that needs the settings says that it was not made; the mistakes stand there once."""
    file = Path(ward.env["GIPPER_CONFIG"])
    file.parent.mkdir()
    file.write_text("dialy = 3\n")
    found = ward.findings()
    assert sum("dialy" in f.text for f in found) == 1
    assert {f.what for f in found if "not looked at" in f.text} >= {"plugins", "keys", "machines"}


def test_an_accepted_gap_is_no_trouble(ward: Ward) -> None:
    """What the user accepted is told and doesn't fail doctor for good."""
    store = SqliteLedger.open(ward.home / "data", ward.market.runtime)
    for _ in range(3):
        store.append(CustodyNote(provider="acme", text="t", by="me"), run=None)
    store.close()
    with sqlite3.connect(ward.home / "data" / "ledger.sqlite") as conn:
        for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            conn.execute(f"DROP TRIGGER {name}")
        conn.execute("DELETE FROM receipts WHERE seq = 2")
    assert ward.one("ledger").level == "trouble"
    accepted = SqliteLedger.open(ward.home / "data", ward.market.runtime)
    accepted.accept()
    accepted.close()
    found = ward.one("ledger")
    assert found.level == "warning" and "accepted" in found.text


def test_the_command(own_folders: Path) -> None:
    """Text with cures, or JSON; exit 2 only where there is trouble."""
    env = {**os.environ, "PATH": str(own_folders / "nothing")}

    def doctor(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPT, "doctor", *words], env=env, capture_output=True, text=True, timeout=60, check=False
        )

    done = doctor("--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {"settings", "data folder", "ledger", "ssh key", "timer"} <= {r["what"] for r in rows}
    (own_folders / "keys" / "id_ed25519").parent.mkdir(exist_ok=True)
    (own_folders / "keys" / "id_ed25519").write_text("x")
    (own_folders / "keys" / "id_ed25519").chmod(0o644)
    done = doctor()
    assert done.returncode == 2 and "cure: chmod 600" in done.stdout
