"""Bad input: a clear message, exit 2, no traceback, nothing rented, nothing lost."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from support_cli import Done, World, others
from support_root import tmpfs

GOOD = 'name = "x"\n[gpu]\ncount = 0\nproviders = ["local"]\n[run]\ncommand = "true"\n'


def refused(user: World, done: Done, *words: str) -> None:
    """Exit 2 with a message that has `words` and a next step; nothing rented, no traceback."""
    assert done.code == 2, f"exit {done.code}: {done.all}"
    assert "Traceback" not in done.all and "fault of gipper" not in done.all
    for word in words:
        assert word in done.err, done.err
    assert "next: " in done.err, done.err
    assert user.machines() == []
    if (user.data / "ledger.sqlite").is_file():
        assert not user.receipts("pod.intent")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ["job.toml"]),
        (b'name = "x"\n\xff\xfe', ["job.toml", "UTF-8"]),
        (b"#" * 50_000_000, ["job.toml"]),
        (b'name = "x\n', ["job.toml", "line 1"]),
        (GOOD.replace("count", "cuont").encode(), ["gpu.cuont", "count"]),
        (GOOD.replace("count = 0", 'count = "0"').encode(), ["gpu.count"]),
        (GOOD.replace('"local"', '"nope"').encode(), ["nope"]),
        (b"", ["job.toml"]),
    ],
    ids=["missing", "not-utf8", "50MB", "syntax", "unknown-key", "wrong-type", "no-such-provider", "empty"],
)
def test_a_bad_job_file(user: World, content: bytes | None, words: list[str]) -> None:
    """Whatever is wrong with the job file: exit 2, and file and key are named."""
    path = user.work / "job.toml"
    if content is not None:
        path.write_bytes(content)
    refused(user, user.gipper("pod", "run", path), *words)


def test_a_job_file_that_is_a_folder(user: World) -> None:
    """A folder is not read as a job file."""
    refused(user, user.gipper("pod", "run", user.work), str(user.work.name))


def test_an_unbuilt_provider_table_value(user: World) -> None:
    """A provider named on the command line that isn't installed is refused with where to look."""
    refused(user, user.gipper("pod", "run", user.job("true"), "--provider", "nope"), "nope", "gipper plugins")


def test_a_job_file_with_a_bom_and_crlf(user: World) -> None:
    """D-051 and a byte order mark: such a file runs as any other, and inputs keep their bytes."""
    (user.work / "in.txt").write_bytes(b"one\r\ntwo\r\n")
    text = user.job("x", inputs=[{"src": "in.txt", "dst": "in.txt"}]).read_text()
    text = text.replace('run = {"command" = "x"}', "").replace('run = {command = "x"}', "")
    text += "[run]\ncommand = '''\nset -e\nmkdir out\nif true; then\n  cp in.txt out/in.txt\nfi\n'''\n"
    (user.work / "job.toml").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    done = user.gipper("pod", "run", "job.toml")
    assert done.code == 0, done.all
    assert user.out("in.txt").read_bytes() == b"one\r\ntwo\r\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("daily_cap_usd = 'much'\n", ["daily_cap_usd"]),
        ("dialy_cap_usd = 3\n", ["dialy_cap_usd", "daily_cap_usd"]),
        ("[limits]\nready_min = -1\n", ["limits.ready_min"]),
        ("[provider.local]\nusd = 3\n", ["provider.local.usd", "usd_h"]),
        ("a = \n", ["config.toml"]),
    ],
)
def test_wrong_settings(user: World, text: str, words: list[str]) -> None:
    """Settings are as strict as job files."""
    user.settings()
    user.config.write_text(text)
    refused(user, user.gipper("pod", "run", user.job("true")), *words)
    for command in (["pod", "ls"], ["pod", "reap"], ["job", "check", "job.toml"]):
        done = user.gipper(*command)
        assert done.code == 2 and done.err.count(words[0]) == 1, done.all


def test_d_046_a_missing_input(user: World) -> None:
    """An input that isn't there is told before anything is rented."""
    job = user.job("true", inputs=[{"src": "not-here", "dst": "x"}])
    refused(user, user.gipper("pod", "run", job), "not-here")


def test_job_check_finds_what_a_run_would_refuse(user: World) -> None:
    """A missing input and a secret without a value are mistakes; as JSON they are a list, with exit 2 too."""
    job = user.job("true", inputs=[{"src": "not-here", "dst": "x"}], pod={"secrets": ["UNSET_TOKEN"]})
    done = user.gipper("job", "check", job)
    assert done.code == 2 and "inputs[0].src" in done.err and "UNSET_TOKEN" in done.err, done.all
    told = json.loads(user.gipper("job", "check", "--json", job).out)
    assert told["ok"] is False and len(told["problems"]) == 2
    (user.work / "not-here").write_text("x")
    done = user.gipper("job", "check", "--json", job, env={"UNSET_TOKEN": "a-value"})
    assert done.code == 0 and json.loads(done.out)["ok"] is True


def test_a_misspelt_provider_makes_no_run(user: World) -> None:
    """A provider that isn't installed is told with the nearest one, and `pod cost` lists no run of it."""
    done = user.gipper("pod", "run", "--provider", "locl", user.job("true"))
    assert done.code == 2 and "did you mean local?" in done.err and "pip install" not in done.err, done.all
    assert user.kinds() == []


def test_nobody_to_ask_is_wrong_use(user: World) -> None:
    """Where no market takes part: exit 2, what to install or to name, and no run."""
    job = user.job("true", gpu={"count": 0})
    for command in (["run"], ["run", "--dry-run"], ["estimate"]):
        done = user.gipper("pod", *command, job)
        assert done.code == 2 and '["local"]' in done.err and "set its key" in done.err, done.all
    assert user.gipper("pod", "gpus").code == 2
    assert user.kinds() == []


def test_an_output_that_is_not_there_is_named_once(user: World) -> None:
    """The line names the output once, and the place of the others is written without detours."""
    outputs = [{"src": "results", "dst": "results"}, {"src": "out", "dst": "./x/../home-out"}]
    done = user.gipper("pod", "run", user.job("mkdir out; touch out/a", outputs=outputs))
    assert "results: not there" in done.err and "results: results" not in done.err, done.all
    assert f"outputs: {user.work / 'home-out'} (1 file, 0 bytes)" in done.out, done.all


def _without_rights(user: World, *args: object) -> Done:
    """A command for which file modes count, also when root runs the tests."""
    rights = "-dac_override,-dac_read_search"
    through = ("setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}") if os.geteuid() == 0 else ()
    return user.gipper(*args, through=through)


def test_d_046_an_unreadable_input(user: World) -> None:
    """A file that may not be read is told, by its name, before anything is rented."""
    (user.work / "tree").mkdir()
    (user.work / "tree" / "closed").write_text("x")
    (user.work / "tree" / "closed").chmod(0)
    job = user.job("true", inputs=[{"src": "tree", "dst": "tree"}])
    refused(user, _without_rights(user, "pod", "run", job), "closed")


def test_an_unwritable_data_folder(user: World) -> None:
    """A data folder that can't be written to is told as such."""
    user.data.mkdir(mode=0o500)
    refused(user, _without_rights(user, "pod", "run", user.job("true")), str(user.data))


def test_d_063_outputs_to_a_place_that_can_not_be_written(user: World) -> None:
    """Outputs that can't be saved: the machine is ended all the same, exit not 0, the place is told."""
    (user.work / "home-out").mkdir(mode=0o500)
    done = _without_rights(user, "pod", "run", user.job("mkdir out; echo x > out/a"))
    assert done.code == 1, done.all
    assert "home-out" in done.err and "gone: not listed" in done.out
    user.sound()


@pytest.fixture
def tiny(user: World) -> Iterator[Path]:
    """A file system of 1 MiB."""
    with tmpfs(user.work / "tiny", "1m") as place:
        yield place


def test_a_full_data_folder(user: World, tiny: Path) -> None:
    """No room for receipts: nothing is rented."""
    (tiny / "filler").write_bytes(b"x" * (1 << 20))
    done = user.gipper("pod", "run", user.job("true"), env={"GIPPER_DATA": str(tiny / "data")})
    refused(user, done, "tiny")
    assert not list(tiny.glob("data/providers/local/machines/*"))


def test_d_063_outputs_to_a_full_place(user: World, tiny: Path) -> None:
    """Outputs larger than the room here: what was saved is told, the machine is ended, exit 1."""
    job = user.job(
        "mkdir out; echo x > out/a; head -c 4000000 /dev/zero > z",
        outputs=[{"src": "out", "dst": str(tiny / "got")}, {"src": "z", "dst": str(tiny / "z")}],
    )
    done = user.gipper("pod", "run", job)
    assert done.code == 1, done.all
    assert "No space left" in done.err and "gone: not listed" in done.out
    assert (tiny / "got" / "a").read_text() == "x\n"
    assert sorted(p.name for p in tiny.rglob("*")) == ["a", "got"]
    assert f"outputs: {tiny / 'got'} (1 file, 2 bytes)" in done.out and f"{tiny / 'z'}" in done.err
    user.sound()


def test_a_data_folder_that_is_a_file(user: World) -> None:
    """A file where the data folder should be is told as such."""
    user.data.write_text("")
    refused(user, user.gipper("pod", "run", user.job("true")), str(user.data))


def test_a_damaged_ledger(user: World) -> None:
    """Renting is refused, by verify's words, until the gap is accepted; what is readable stays."""
    assert user.gipper("pod", "run", user.job("mkdir out; touch out/a")).code == 0
    file = user.data / "ledger.sqlite"
    book = sqlite3.connect(file)
    book.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    book.close()
    data = bytearray(file.read_bytes())
    data[:64] = b"\0" * 64
    file.write_bytes(data)
    done = user.gipper("pod", "run", user.job("mkdir out; touch out/a"))
    assert done.code == 2 and "ledger verify" in done.err and "Traceback" not in done.err, done.all
    verified = user.gipper("ledger", "verify")
    assert verified.code == 2 and "ledger.sqlite" in verified.all, verified.all
    assert user.gipper("pod", "reap").code == 0
    assert len(user.gipper("ledger").lines) >= 12
    assert user.gipper("ledger", "verify", "--accept").code == 0
    done = user.gipper("pod", "run", user.job("mkdir out; touch out/a"))
    assert done.code == 0, done.all


def test_no_provider_is_installed(user: World) -> None:
    """With no provider at all nothing can be rented, and that is what is told."""
    done = user.gipper(
        "pod", "run", user.job("true"), env={"GIPPER_DISABLED_PLUGINS": ",".join(["local", *others()])}
    )
    refused(user, done, "local")
    job = user.job("true", gpu={"count": 0})
    done = user.gipper("pod", "run", job, env={"GIPPER_DISABLED_PLUGINS": ",".join(["local", *others()])})
    assert done.code in (2, 3) and "next: " in done.err and "pod.intent" not in user.kinds(), done.all


def test_a_dry_run_rents_nothing(user: World) -> None:
    """`--dry-run` shows the offer and exits with 0; 3 where nothing fits."""
    done = user.gipper("pod", "run", "--dry-run", user.job("true"))
    assert done.code == 0 and "local" in done.out
    job = user.job("true", gpu={"count": 512, "providers": ["local"]})
    assert user.gipper("pod", "run", "--dry-run", job).code == 3
    assert user.gipper("pod", "run", job).code == 3
    assert user.machines() == [] and "pod.intent" not in user.kinds()
