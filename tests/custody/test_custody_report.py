"""The custody report on a recorded incident: rotate, review, can't vouch for."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import pytest
from custody_world import START, Incident, kinds, sha

from gipper.custody.page import page
from gipper.custody.text import lines
from gipper.ledger import head
from gipper.ledger.chain import from_receipt
from gipper.ledger.health import head_of
from gipper.values.receipts import CustodyNote, PodCreateDoubtful, PodIntent, stamp

RUN_A, RUN_B, RUN_C = "aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"


def test_d_049_rotate_names_secrets_and_flagged_files(incident: Incident) -> None:
    """A secret and a flagged dotenv, each with machine, time and hash; a file that isn't flagged is not there."""
    incident.whole_run(RUN_A, "m1")
    secret, file = incident.report().rotate
    assert (secret.kind, secret.name) == ("secret", "HF_TOKEN")
    assert (file.kind, file.name, file.why, file.sha256) == ("file", ".env", "dotenv file", sha(".env"))
    (where,) = file.where
    assert (where.provider, where.pod, where.run) == ("acme", "m1", RUN_A)
    assert where.since == START + timedelta(days=1)
    assert where.until is not None and where.until - where.since == timedelta(hours=1)


def test_review_groups_files_by_input(incident: Incident) -> None:
    """Every file with hash and mode below the input that it came from, and what came home."""
    incident.whole_run(RUN_A, "m1")
    report = incident.report()
    assert {g.input: [f.path for f in g.files] for g in report.files} == {
        "data": ["data/a.py"], "conf/.env": [".env"],
    }  # fmt: skip
    assert report.files[0].files[0].sha256 == sha("data/a.py")
    assert [f.path for came in report.back for f in came.files] == ["out/model.bin"]


def test_the_window_and_the_provider_narrow(incident: Incident) -> None:
    """Only machines of that provider that existed in the window; one that isn't proved gone reaches on."""
    incident.whole_run(RUN_A, "m1", days=1)
    incident.at(2)
    name = incident.rented(RUN_B, "m2")
    incident.worked(RUN_B, "m2")
    incident.ended(RUN_B, "m2", name, proved=False)
    incident.whole_run(RUN_C, "x1", provider="other", days=3)
    late = incident.report(provider="acme", since=START + timedelta(days=5))
    assert [m.pod for m in late.machines] == ["m2"]
    early = incident.report(provider="acme", until=START + timedelta(days=1.5))
    assert [m.pod for m in early.machines] == ["m1"]
    between = incident.report(since=START + timedelta(days=1.5), until=START + timedelta(days=1.9))
    assert not between.machines and not between.rotate
    assert [m.pod for m in incident.report(run=RUN_C).machines] == ["x1"]


def test_a_whole_ledger_leaves_no_gap(incident: Incident) -> None:
    """A run that is proved over and a trail that is whole: nothing to doubt."""
    incident.whole_run(RUN_A, "m1")
    assert not incident.report().gaps


def test_what_cannot_be_vouched_for(incident: Incident) -> None:
    """Teardown unconfirmed, a shell, a takeover from elsewhere, volumes, a rent in doubt: each is told."""
    name = incident.rented(RUN_A, "m1")
    incident.worked(RUN_A, "m1")
    incident.shell(RUN_A, "m1")
    incident.taken_over(RUN_A, "m1", "host-here")
    assert kinds(incident.report()) == ["teardown unconfirmed", "shell"]
    incident.taken_over(RUN_A, "m1", "host-elsewhere")
    incident.ended(RUN_A, "m1", name, leftovers=("volume v-9 goes on",))
    incident.write(
        PodIntent(
            provider="acme", offer="o", name=f"gipper-aaaaa-{RUN_A}-2-0h9999", attempt=2, end=START,
            usd_h=Decimal(1), reserved_usd=Decimal(1),
        ), RUN_A,
    )  # fmt: skip
    incident.write(
        PodCreateDoubtful(provider="acme", name=f"gipper-aaaaa-{RUN_A}-2-0h9999", text="no answer"), RUN_A
    )
    found = incident.report()
    assert kinds(found) == ["shell", "volume", "rent in doubt", "attached from elsewhere"]
    assert "volume v-9 goes on" in found.gaps[1].text and "ada" in found.gaps[0].text


def test_a_named_volume_and_ports_are_told(incident: Incident) -> None:
    """A job's option that names a volume counts, whatever the market calls it; another provider's doesn't."""
    options = {"acme": {"network_volume": "v-1", "image": "x"}, "other": {"volume": "v-2"}}
    name = incident.rented(RUN_A, "m1", ports=("80/tcp",), **options)
    incident.worked(RUN_A, "m1")
    incident.ended(RUN_A, "m1", name)
    report = incident.report()
    assert report.machines[0].volumes == ("network_volume v-1",)
    assert report.machines[0].ports == ("80/tcp",)
    assert kinds(report) == ["volume"]


@pytest.mark.parametrize("given", ["files", "secrets"])
def test_a_job_whose_custody_is_missing(incident: Incident, given: str) -> None:
    """A job that had inputs or secrets and started, without the receipt that says so: told."""
    incident.at(1)
    name = incident.rented(RUN_A, "m1")
    incident.worked(RUN_A, "m1", **({"files": {}} if given == "files" else {"secrets": ()}))
    incident.ended(RUN_A, "m1", name)
    assert kinds(incident.report()) == ["receipts missing"]


def _last(incident: Incident) -> int:
    return max(r.seq for r in incident.ledger.read())


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_one_removed_receipt_is_told(incident: Incident, which: str) -> None:
    """Whichever receipt is taken out of the ledger, the report says that it isn't whole."""
    incident.whole_run(RUN_A, "m1")
    last = _last(incident)
    seq = {"first": 1, "middle": last // 2, "last": last}[which]
    incident.tamper(f"DELETE FROM receipts WHERE seq = {seq}")
    report = incident.report()
    assert "ledger not whole" in kinds(report)
    assert any(re.search(rf"\b{seq}\b", g.text) for g in report.gaps)


def test_the_last_receipt_removed_and_the_head_turned_back(incident: Incident) -> None:
    """The run's own copy still holds it: told, though the chain and its head fit each other."""
    incident.whole_run(RUN_A, "m1")
    last = _last(incident)
    before = next(r for r in incident.ledger.read() if r.seq == last - 1)
    incident.tamper(f"DELETE FROM receipts WHERE seq = {last}")
    head.write(incident.data, head_of(from_receipt(before)))
    assert incident.maker().store.verify().whole
    gaps = [g.text for g in incident.report().gaps if g.kind == "ledger not whole"]
    assert len(gaps) == 1 and f"receipt {last} (pod.terminated" in gaps[0]


def test_a_ledger_that_is_gone(incident: Incident) -> None:
    """Without its files there is a report that says so, not an empty one."""
    incident.whole_run(RUN_A, "m1")
    incident.ledger.close()
    for file in incident.data.glob("ledger*"):
        file.unlink()
    assert "ledger not whole" in kinds(incident.report())


def test_what_people_wrote_down(incident: Incident) -> None:
    """A note stands in the review at the time when it happened."""
    incident.whole_run(RUN_A, "m1")
    incident.at(9)
    happened = START + timedelta(days=1)
    note = CustodyNote(provider="acme", pod="m1", text="pasted a token", by="ada")
    incident.write(note, RUN_A, happened=stamp(happened))
    (found,) = incident.report(until=START + timedelta(days=2)).notes
    assert (found.text, found.by, found.at) == ("pasted a token", "ada", happened)
    assert found.recorded == START + timedelta(days=9)
    assert not incident.report(since=START + timedelta(days=8)).notes


HOSTILE = (
    "</td><script>alert(1)</script>",
    '"><img src=http://198.51.100.9/x>',
    "a\x1b[2Jb",
    "a\u202eb",
    "&amp;",
)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update((name, value or "") for name, value in attrs)


def test_the_page_is_one_file_and_hostile_names_do_nothing(incident: Incident) -> None:
    """No script, nothing loaded from elsewhere, control and reordering characters shown."""
    incident.at(1)
    name = incident.rented(RUN_A, "m1")
    incident.worked(RUN_A, "m1", files=dict.fromkeys(HOSTILE, "flag <b>"))
    incident.ended(RUN_A, "m1", name)
    text = page(incident.report())
    seen = _Tags()
    seen.feed(text)
    assert seen.tags <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "table", "tr", "th", "td",
        "span", "br", "code", "ul", "li",
    }  # fmt: skip
    assert not [a for a in seen.attributes if a[0] in ("src", "href", "style") or a[0].startswith("on")]
    assert "url(" not in text and "@import" not in text
    assert "\x1b" not in text and "\u202e" not in text and "\\x1b[2J" in text
    assert all(part in text for part in ('id="rotate"', 'id="review"', 'id="gaps"', sha(HOSTILE[0])))


def test_text_json_and_page_say_the_same(incident: Incident) -> None:
    """Each form holds all three parts; the text has no line with a bare control character."""
    incident.whole_run(RUN_A, "m1")
    report = incident.report()
    text = "\n".join(lines(report))
    for word in ("Rotate (2)", "Review (2 files, 0 notes)", "Can't vouch for (0)", "HF_TOKEN", sha(".env")):
        assert word in text
    assert all(word in page(report) for word in ("HF_TOKEN", sha(".env"), sha("data/a.py")))


def test_ten_thousand_files_take_no_long_time(incident: Incident, own_folders: Path) -> None:
    """A large upload is reported in seconds, cleaned of secrets in one pass."""
    from time import perf_counter

    incident.at(1)
    name = incident.rented(RUN_A, "m1")
    incident.worked(RUN_A, "m1", files={f"data/{n:05}.bin": None for n in range(10_000)})
    incident.ended(RUN_A, "m1", name)
    begun = perf_counter()
    report = incident.report()
    assert len(page(report)) > 10_000 * 64 and json.dumps(list(lines(report)))
    assert perf_counter() - begun < 10
