"""Two hundred canaries, planted wherever secrets turn up: none comes out anywhere."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from canaries import KEYS, NAMES, SECRETS, TOKENS, Canary, forms, held, of_token, of_value
from support_cli import Background, Done, World, command_lines, distribution, environments, world

# A market whose every answer tells the key back, and whose plugin lets it out in exceptions.
PLUGIN = """
import os

from gipper.api import Listing, ProviderInfo, hookimpl


class Leak(Exception):
    pass


class Acme:
    def __init__(self, context):
        self.context = context

    @staticmethod
    @hookimpl
    def gipper_provider():
        return ProviderInfo(name="acme", title="Acme", key_names=("ACME_API_KEY", "ACME_SECOND_KEY"), cpu=True)

    def _ask(self):
        key = self.context.secret("ACME_API_KEY")
        return self.context.http().request(
            "GET", os.environ["ACME_URL"] + "/v1/things", headers={"Authorization": "Bearer " + key}
        )

    @hookimpl
    def gipper_list_offers(self, query):
        self._ask()

    @hookimpl
    def gipper_rent(self, offer, request):
        raise RuntimeError("never")

    @hookimpl
    def gipper_describe(self, machine_id):
        return None

    @hookimpl
    def gipper_list_ours(self):
        second = self.context.secret("ACME_SECOND_KEY")
        try:
            raise Leak("inner", second, {"header": second.encode()})
        except Leak as error:
            raise ValueError(f"can't list with {second!r}, {self.context.secret('ACME_API_KEY')}") from error

    @hookimpl
    def gipper_terminate(self, machine_id):
        return None
"""


# The job itself and the list of what came home: a later process works by them, so they are as they were.
WORKING = ("job.json", "fetched.json")


class Market:
    """Remembers every request line and answers with the key, in all forms, and a status of its own."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        market = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                market.lines.append(f"{self.requestline} {self.headers.get('Referer', '')}")
                told = " ".join(form for key in KEYS.values() for form in forms(key).values())
                body = f'{{"msg": "{told} is no good"}}'.encode()
                self.send_response(401, f"no {KEYS['ACME_API_KEY']}")
                self.send_header("X-Request-Id", KEYS["ACME_API_KEY"])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        """Its base."""
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        """End it."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def market() -> Iterator[Market]:
    """The market that tells keys back."""
    made = Market()
    yield made
    made.close()


@pytest.fixture
def user(own_folders: Path, market: Market) -> Iterator[World]:
    """A user of that market: one key in the environment, the other in the dotenv beside config.toml."""
    with world(own_folders) as made:
        distribution(
            made.home / "site", "gipper-acme", {"acme_plugin": PLUGIN},
            {"gipper.providers": {"acme": "acme_plugin:Acme"}},
        )  # fmt: skip
        made.settings(daily_cap_usd=5.0)
        dotenv = made.config.parent / ".env"
        lines = {"ACME_SECOND_KEY": KEYS["ACME_SECOND_KEY"], **dict(list(SECRETS.items())[:5])}
        dotenv.write_text(
            "".join(f'{k}="{v}"\n' if '"' not in v else f"{k}='{v}'\n" for k, v in lines.items())
        )
        dotenv.chmod(0o600)
        made.env.update(
            PYTHONPATH=str(made.home / "site"), ACME_API_KEY=KEYS["ACME_API_KEY"], ACME_URL=market.url,
            **dict(list(SECRETS.items())[5:]),
        )  # fmt: skip
        yield made


def planted(user: World, *, names: bool) -> tuple[list[Canary], list[dict[str, str]]]:
    """All canaries, and the input that holds what the job prints, dotenvs and, with `names`, odd names."""
    told = [c for name, value in SECRETS.items() for c in of_value(f"printed {name}", value)]
    told += [c for name, value in KEYS.items() for c in of_value(f"answered {name}", value)]
    folder = user.work / "data"
    folder.mkdir()
    (folder / "all").write_text("\n".join(f for v in SECRETS.values() for f in forms(v).values()) + "\n")
    for n, value in enumerate(SECRETS.values()):
        (folder / f"half-{n}-1").write_text(f"split {n}: {value[:9]}")
        (folder / f"half-{n}-2").write_text(f"{value[9:]}\n")
    told += _dotenvs(folder)
    told += _odd_names(folder) if names else []
    return told, [{"src": "data", "dst": "data"}]


def _dotenvs(folder: Path) -> list[Canary]:
    told = []
    for n, token in enumerate(TOKENS):
        (folder / f"sub{n}").mkdir()
        (folder / f"sub{n}" / ".env").write_text(f"export API_KEY_{n}='{token}'\n")
        told.append(of_token(f"dotenv {n}", token))
    return told


def _odd_names(folder: Path) -> list[Canary]:
    """Files called like a token, one of which is told of because it looks sensitive, and like secrets."""
    told = [of_token(f"file name {n}", token) for n, token in enumerate(NAMES)]
    for n, token in enumerate(NAMES):
        (folder / f"run-{token}.{'env' if n == 0 else 'txt'}").write_text("SOME=thing\n")
    for name in ("JOB_SECRET_7", "JOB_SECRET_9"):
        (folder / f"is-{SECRETS[name].replace('/', '_')}.txt").write_text(f"{name}\n")
    return told


# Receipts are written without a redaction of their own: paths stand in them as they are.
NOT_YET = pytest.mark.xfail(reason="paths in receipts and notes are not redacted yet", strict=True)
COMMAND = (
    "cat data/all; for n in $(seq 0 25); do cat data/half-$n-1; sleep 0.05; cat data/half-$n-2; done; "
    'mkdir out; cp data/*.txt out; env | grep JOB_SECRET; echo "begun"; while [ ! -f ../go ]; do sleep 0.05; done'
)


def _process_list(user: World, running: Background) -> bytes:
    """Arguments of all processes, and the environments of those that gipper started."""
    others = [pid for pid, words in user.processes().items() if pid != running.pid and "server" in words]
    assert others
    return b"\n".join([*command_lines(), *environments(others)])


def _kept(user: World) -> dict[str, bytes]:
    """What is kept here for good: the ledger and all that lies in run folders."""
    conn = sqlite3.connect(user.data / "ledger.sqlite")
    rows = "\n".join(map(repr, conn.execute("SELECT * FROM receipts"))) + "\n".join(
        str(row[0]) for row in conn.execute("SELECT payload FROM receipts")
    )
    conn.close()
    files = {
        str(p.relative_to(user.data)): p.read_bytes()
        for p in user.data.rglob("*")
        if p.is_file() and "machines" not in p.parts and p.name not in WORKING
    }
    return {"receipts": rows.encode("utf-8", "replace"), **files}


def _started(user: World, inputs: list[dict[str, str]]) -> Background:
    job = user.job(
        COMMAND, inputs=inputs, pod={"secrets": list(SECRETS)},
        gpu={"count": 0, "providers": ["local", "acme"]},
    )  # fmt: skip
    running = user.start("pod", "run", "--debug", job)
    running.wait_for_text("begun")
    return running


def _asked(user: World, run: str) -> dict[str, Done]:
    """Every command that shows something of it, with --debug."""
    note = f"pasted {SECRETS['JOB_SECRET_3']} and {TOKENS[0]} and {KEYS['ACME_SECOND_KEY']}"
    commands = {
        "record": ("custody", "record", run, note),
        "report": ("custody", "report", "--check-providers"),
        "report json": ("custody", "report", "--json"),
        "page": ("custody", "report", "--html", str(user.home / "page.html")),
        "ledger": ("ledger",),
        "logs": ("pod", "logs", run),
        "ls": ("pod", "ls"),
        "gpus": ("pod", "gpus"),
        "account": ("pod", "account"),
        "proof": ("pod", "proof", run),
        "doctor": ("doctor",),
        "reap": ("pod", "reap"),
    }
    return {name: user.gipper("--debug", *words) for name, words in commands.items()}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("names", [False, pytest.param(True, marks=NOT_YET)], ids=["", "in file names"])
def test_d_081_two_hundred_canaries(user: World, market: Market, names: bool) -> None:
    """No receipt, log, debug log, page, terminal, process list or URL holds one; the job had its secrets."""
    told, inputs = planted(user, names=names)
    assert len({m for c in told for m in c.marks}) >= 200
    running = _started(user, inputs)
    leaks = {"process list": held(_process_list(user, running), told)}
    run = user.receipts("run.start")[0].run
    (user.machines()[0] / "home" / "gipper" / run / "go").touch()
    done = running.wait()
    assert done.code == 0, done.err[-3000:]
    leaks["terminal of the run"] = held(done.all, told)
    shown = _asked(user, run)
    leaks.update({name: held(one.all, told) for name, one in shown.items()})
    leaks["page"] = held((user.home / "page.html").read_bytes(), told)
    leaks.update({name: held(data, told) for name, data in _kept(user).items()})
    leaks["urls"] = held("\n".join(market.lines), told)
    assert market.lines and "<redacted>" in shown["logs"].out and "<redacted>" in shown["report"].out
    assert shown["ls"].code == 4 and "acme error" in shown["ls"].err
    assert {place: found for place, found in leaks.items() if found} == {}
