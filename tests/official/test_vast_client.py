"""Vast's own command-line client, as published, on the emulated market: an emulator that pleases only gipper is wrong.

The client exits with 0 whatever happened: what it printed and what the market then holds are looked at.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
from emulators.vast.offers import row
from stubs.gpu_stubs import build_driver
from support_cli import until
from support_markets import VastWorld, vast_world

CLIENT = os.environ.get("OFFICIAL_VASTAI", "")
pytestmark = [
    pytest.mark.skipif(not CLIENT, reason="OFFICIAL_VASTAI names no vastai program"),
    pytest.mark.timeout(180),
]
DAY = timedelta(days=1)


@attrs.frozen
class Story:
    """A market, gipper's user, and the vendor's client with the same key."""

    world: VastWorld
    folder: Path

    def vast(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the client, with nothing kept from one call to the next."""
        state = self.folder / str(len(self.world.app.requests))
        env = {
            "PATH": os.environ["PATH"], "HOME": str(state), "XDG_CONFIG_HOME": str(state / "c"),
            "XDG_CACHE_HOME": str(state / "k"), "XDG_STATE_HOME": str(state / "s"), "LANG": "C.UTF-8",
            "VAST_URL": self.world.app.base_url, "VAST_API_KEY": self.world.market.key,
            "VASTAI_NO_UPDATE_CHECK": "1", "NO_PROXY": "127.0.0.1",
        }  # fmt: skip
        state.mkdir(parents=True, exist_ok=True)
        return subprocess.run(
            [CLIENT, *words], env=env, capture_output=True, text=True, timeout=60, check=False, cwd=state
        )

    def raw(self, *words: str) -> Any:
        """The client's JSON."""
        done = self.vast(*words, "--raw")
        assert done.stdout.strip(), f"{words}: {done.stderr}"
        return json.loads(done.stdout)

    def gipper_lists(self) -> list[str]:
        """The ids of all machines that gipper's plugin lists."""
        script = "from gipper import providers\nprint([m['id'] for m in providers.load('vast').list_ours()])"
        done = subprocess.run(
            [str(Path(os.sys.executable)), "-c", script], env=self.world.user.env, capture_output=True, text=True,
            timeout=60, check=True,
        )  # fmt: skip
        found: list[str] = ast.literal_eval(done.stdout)
        return found


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    rows = [row(5000101), row(5000202, dph_base=0.4, machine_id=202, gpu_name="A100 SXM4", gpu_ram=81920)]
    # The client's own retries come faster than the service allows; its first reads cost two calls.
    with vast_world(tmp_path, build_driver(tmp_path), rows) as world:
        world.app.limits.on = False
        yield Story(world, tmp_path / "client")


def created(story: Story, label: str = "by-hand") -> str:
    """A machine that the client made; its id."""
    done = story.vast(
        "create", "instance", "5000101", "--image", "a/b:c", "--disk", "20", "--ssh", "--direct", "--label", label,
        "--env", "-e TZ=UTC -p 5004:5004/udp", "--cancel-unavail",
    )  # fmt: skip
    assert "Started." in done.stdout, done.stderr
    (contract,) = story.world.market.contracts.values()
    return str(contract.id)


def test_searches(story: Story) -> None:
    """Its search finds what fits, with its own conversions: GB, names with an underscore, text for numbers."""
    found = story.raw(
        "search", "offers", "gpu_name=RTX_4090 num_gpus=1 gpu_ram>=20 reliability>0.98", "--storage", "40"
    )
    assert [o["id"] for o in found] == [5000101]
    assert found[0]["dph_total"] == pytest.approx(0.30 + 0.15 * 40 / 720, abs=1e-4)
    assert story.raw("search", "offers", "gpu_ram>=60 geolocation in [CA,US]")[0]["gpu_name"] == "A100 SXM4"
    assert story.raw("search", "offers", "gpu_ram>=200") == []


def test_a_machine_from_create_to_destroy(story: Story) -> None:
    """Create, list, show, address, key, label, destroy: the client is content, and gipper sees the same."""
    number = created(story)
    contract = story.world.market.contracts[int(number)]
    assert contract.body["env"] == {"TZ": "UTC", "-p 5004:5004/udp": "1"}
    until(lambda: contract.running is not None, "it runs", 20)
    assert [m["id"] for m in story.raw("show", "instances")] == [int(number)]
    assert story.gipper_lists() == [number]
    shown = story.raw("show", "instance", number)
    assert (shown["label"], shown["actual_status"]) == ("by-hand", "running")
    assert f":{contract.lodging.ssh_port}" in story.vast("ssh-url", number).stdout
    key = story.folder / "key.pub"
    key.write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINotARealKeyNotARealKeyNotARealKeyNotAReal me\n")
    assert "attached successfully" in story.vast("attach", "ssh", number, str(key)).stdout
    assert contract.keys[-1] == key.read_text().strip()
    assert "set to z" in story.vast("label", "instance", number, "z").stdout
    assert f"destroying instance {number}" in story.vast("destroy", "instance", number, "-y").stdout
    assert story.world.market.alive() == [] and story.gipper_lists() == []
    assert story.vast("show", "instance", number).returncode == 1


def test_user_and_invoices(story: Story) -> None:
    """The account and the charges are read; the charges name the machine."""
    number = created(story)
    contract = story.world.market.contracts[int(number)]
    contract.created -= DAY
    contract.running = contract.created
    assert story.raw("show", "user")["credit"] == pytest.approx(
        float(story.world.market.credit_left()), abs=0.01
    )
    days = [f"{datetime.now(UTC) + n * DAY:%Y-%m-%d}" for n in (-2, 1)]
    words = ("show", "invoices-v1", "--charges", "-s", days[0], "-e", days[1], "-ct", "instance")
    assert f"instance-{number}" in json.dumps(story.raw(*words))
    assert number in story.vast("show", "invoices", "-s", days[0], "-e", days[1], "--raw").stdout


def test_gipper_s_machine_seen_by_the_client(story: Story) -> None:
    """A machine that gipper rented is listed by the client under its name; when gipper is done, it is gone."""
    running = story.world.user.start("pod", "run", story.world.job("mkdir out; echo x >out/x; sleep 3"))
    intent = story.world.user.wait_for("pod.intent")
    story.world.user.wait_for("pod.ready", seconds=60)
    assert [m["label"] for m in story.raw("show", "instances")] == [intent["name"]]
    assert running.wait(60).code == 0
    assert story.raw("show", "instances") == []
    story.world.gone()


def test_the_client_ends_gipper_s_machine(story: Story) -> None:
    """Destroyed from outside while the job runs: gipper says so, leaves nothing, and books one spend."""
    running = story.world.user.start("pod", "run", story.world.job("mkdir out; sleep 120"))
    created_ = story.world.user.wait_for("pod.create")
    story.world.user.wait_for("job.start", seconds=60)
    story.vast("destroy", "instance", created_["pod"], "-y")
    done = running.wait(120)
    assert done.code == 4, done.all
    assert len(story.world.user.receipts("spend")) == 1
    story.world.gone()


def test_refusals_are_worded_as_the_client_expects(story: Story) -> None:
    """A wrong key and an offer that is gone come out as the client words them."""
    story.world.market.listings.taken.add(5000101)
    done = story.vast("create", "instance", "5000101", "--image", "a/b", "--disk", "20", "--cancel-unavail")
    assert "no_such_ask" in done.stdout + done.stderr
    gone = story.vast("destroy", "instance", "999", "-y")
    assert "404" in gone.stderr + gone.stdout
