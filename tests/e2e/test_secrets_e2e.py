"""Secrets: they reach the job and nothing else; provider keys reach no machine at all."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from support_cli import World, command_lines, distribution, environments

SECRET = "s3cr3t-Value/with+signs"
KEY = "acme-0123456789abcdef-key"
ACME = """
from gipper.api import Listing, ProviderInfo, hookimpl


class Acme:
    def __init__(self, context):
        self.context = context

    @staticmethod
    @hookimpl
    def gipper_provider():
        return ProviderInfo(name="acme", title="Acme", key_names=("ACME_API_KEY",))

    @hookimpl
    def gipper_list_offers(self, query):
        return Listing(items=())

    @hookimpl
    def gipper_rent(self, offer, request):
        raise RuntimeError("never")

    @hookimpl
    def gipper_describe(self, machine_id):
        return None

    @hookimpl
    def gipper_list_ours(self):
        return Listing(items=())

    @hookimpl
    def gipper_terminate(self, machine_id):
        return None
"""


def test_a_secret_reaches_the_job_and_nothing_else(user: World) -> None:
    """It is in the job's environment; in no argument list, no other environment, no receipt, no log."""
    command = (
        'echo begun; printf %s "$TOKEN_FOR_JOB" | sha256sum; echo "it is $TOKEN_FOR_JOB."; '
        "mkdir out; while [ ! -f ../go ]; do sleep 0.1; done"
    )
    running = user.start(
        "pod", "run", user.job(command, pod={"secrets": ["TOKEN_FOR_JOB"]}), env={"TOKEN_FOR_JOB": SECRET}
    )
    running.wait_for_text("begun")
    mark = SECRET.encode()
    assert not [line for line in command_lines() if mark in line]
    others = [pid for pid, words in user.processes().items() if pid != running.pid and "server" in words]
    assert others and not any(mark in text for text in environments(others))
    machine = user.machines()[0]
    assert {p.name for p in _holding(machine, mark)} <= {"log"}
    run = user.receipts("run.start")[0].run
    (machine / "home" / "gipper" / run / "go").touch()
    done = running.wait()
    assert done.code == 0, done.all
    assert hashlib.sha256(mark).hexdigest() in done.out
    assert "it is <redacted>." in done.out
    assert SECRET not in done.all
    assert _holding(user.home, mark) == []
    assert [tuple(r["names"]) for r in user.receipts("secrets.handed")] == [("TOKEN_FOR_JOB",)]


def _holding(folder: Path, mark: bytes) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and mark in p.read_bytes()]


@pytest.mark.parametrize(
    ("value", "word"), [("short", "TOKEN_FOR_JOB"), ("", "TOKEN_FOR_JOB"), (None, "TOKEN_FOR_JOB")]
)
def test_a_secret_that_is_too_short_or_missing(user: World, value: str | None, word: str) -> None:
    """Under 8 characters (its redaction would black out logs), empty, not set: refused, exit 2."""
    env = {} if value is None else {"TOKEN_FOR_JOB": value}
    done = user.gipper("pod", "run", user.job("true", pod={"secrets": ["TOKEN_FOR_JOB"]}), env=env)
    assert done.code == 2, done.all
    assert word in done.err and "Traceback" not in done.err
    assert "pod.intent" not in user.kinds()


@pytest.fixture
def acme(user: World) -> World:
    """A user with another market installed, and its key in the environment."""
    site = user.home / "site"
    distribution(
        site, "gipper-acme", {"acme_plugin": ACME}, {"gipper.providers": {"acme": "acme_plugin:Acme"}}
    )
    user.env.update(PYTHONPATH=str(site), ACME_API_KEY=KEY)
    return user


@pytest.mark.parametrize("wrap", ["plain", "base64", "late"])
def test_d_048_a_provider_key_in_an_input(acme: World, wrap: str) -> None:
    """A provider key inside an input, plain, base64 or far in: refused before renting, the file named."""
    inner = {
        "plain": f"key = {KEY}\n".encode(),
        "base64": base64.b64encode(f"x{KEY}".encode()),
        "late": b"\0" * ((1 << 20) - 5) + KEY.encode(),
    }[wrap]
    (acme.work / "notes.bin").write_bytes(inner)
    done = acme.gipper("pod", "run", acme.job("true", inputs=[{"src": "notes.bin", "dst": "n"}]))
    assert done.code == 2 and "notes.bin" in done.err, done.all
    assert KEY not in done.all
    assert "pod.intent" not in acme.kinds()


@pytest.mark.parametrize(
    "tables",
    [
        {"run": {"command": f"curl -H {KEY} x"}},
        {"pod": {"env": {"A": KEY}}},
        {"pod": {"secrets": ["ACME_API_KEY"]}},
    ],
    ids=["command", "env", "secret"],
)
def test_d_048_a_provider_key_in_the_job_file(acme: World, tables: dict[str, object]) -> None:
    """A key's value in the command or env, or its name among the secrets: refused, never shown."""
    done = acme.gipper("pod", "run", acme.job("true", **tables))
    assert done.code == 2, done.all
    assert KEY not in done.all and "Traceback" not in done.err
    assert "pod.intent" not in acme.kinds()


def test_d_048_a_provider_key_reaches_no_machine(acme: World) -> None:
    """With a key in the client's environment, the machine's processes and files are free of it."""
    job = acme.job(
        "mkdir out; env > out/env; cat /proc/[0-9]*/environ > /dev/null 2>&1; echo begun; sleep 600"
    )
    running = acme.start("pod", "run", job)
    running.wait_for_text("begun")
    others = [pid for pid in acme.processes() if pid != running.pid]
    assert others
    texts = [t for pid, t in zip(others, environments(others), strict=True) if pid != running.pid]
    assert not any(KEY.encode() in text for text in texts)
    assert not any(KEY.encode() in line for line in command_lines())
    running.signal(2)
    assert running.wait().code == 130
    assert KEY not in acme.out("env").read_text()
    assert _holding(acme.home, KEY.encode()) == []
