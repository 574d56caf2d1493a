"""Runpod's own SDK, as published, on the emulated market's older API, beside gipper on the newer one.

The SDK knows GraphQL only; both APIs show one market. Its environment's Python runs each script.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from emulators.runpod.market import gpu
from stubs.gpu_stubs import build_driver
from support_cli import until
from support_markets import RunpodWorld, runpod_world

PYTHON = os.environ.get("OFFICIAL_RUNPOD", "")
pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="OFFICIAL_RUNPOD names no Python that has runpod"),
    pytest.mark.timeout(180),
]
CARD = "NVIDIA GeForce RTX 4090"
# What the SDK is asked for is the last line; it prints its logs and warnings before it.
_SCRIPT = """
import json, runpod
runpod.api_key = {key!r}
print(json.dumps({call}))
"""


@attrs.frozen
class Story:
    """A market, gipper's user, and the vendor's SDK with the same key."""

    world: RunpodWorld
    folder: Path

    def run(self, call: str, key: str | None = None) -> subprocess.CompletedProcess[str]:
        """One call of the SDK in a process of its own."""
        self.folder.mkdir(exist_ok=True)
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "NO_PROXY": "127.0.0.1",
               "RUNPOD_API_BASE_URL": self.world.app.base_url}  # fmt: skip
        script = _SCRIPT.format(key=key or self.world.market.key, call=call)
        return subprocess.run(
            [PYTHON, "-c", script], env=env, capture_output=True, text=True, timeout=90, check=False,
            cwd=self.folder,
        )  # fmt: skip

    def sdk(self, call: str) -> Any:
        """What the SDK's call gives."""
        done = self.run(call)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def gipper_lists(self) -> list[str]:
        """The ids of all machines that gipper's plugin lists."""
        script = (
            "from gipper import providers\nprint([m['id'] for m in providers.load('runpod').list_ours()])"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], env=self.world.user.env, capture_output=True, text=True,
            timeout=60, check=True,
        )  # fmt: skip
        found: list[str] = ast.literal_eval(done.stdout)
        return found


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    kinds = [gpu(CARD), gpu("NVIDIA A100 80GB PCIe", memory=80, price={"secure": 1.64, "community": 1.19})]
    with runpod_world(tmp_path, build_driver(tmp_path), kinds) as world:
        yield Story(world, tmp_path / "client")


def create(story: Story) -> str:
    """A pod that the SDK made; its id."""
    made = story.sdk(
        f'runpod.create_pod("by-hand", "img:1", "{CARD}", ports="22/tcp,8888/http", '
        'env={"A": "b"}, container_disk_in_gb=20, cloud_type="SECURE")'
    )
    return str(made["id"])


def test_gpus_and_the_user(story: Story) -> None:
    """Cards, one card's prices, and the account."""
    assert {g["id"] for g in story.sdk("runpod.get_gpus()")} == {CARD, "NVIDIA A100 80GB PCIe"}
    one = story.sdk(f'runpod.get_gpu("{CARD}")')
    assert (one["securePrice"], one["memoryInGb"]) == (0.61, 24)
    assert story.sdk("runpod.get_user()")["id"] == "user_2example"


def test_a_pod_from_create_to_terminate(story: Story) -> None:
    """Create, list, read, terminate: the SDK is content, and gipper sees the same."""
    number = create(story)
    pod = story.world.market.pods[number]
    assert pod.body["env"] == {"A": "b"} and pod.body["ports"] == ["22/tcp", "8888/http"]
    until(lambda: pod.running is not None, "it runs", 20)
    assert [p["id"] for p in story.sdk("runpod.get_pods()")] == [number]
    shown = story.sdk(f'runpod.get_pod("{number}")')
    assert (shown["name"], shown["desiredStatus"], shown["costPerHr"]) == ("by-hand", "RUNNING", 0.61)
    ports = {p["privatePort"]: p for p in shown["runtime"]["ports"]}
    assert ports[22]["publicPort"] == pod.lodging.ssh_port  # type: ignore[union-attr]
    assert story.gipper_lists() == [number]
    assert story.sdk(f'runpod.terminate_pod("{number}")') is None
    assert story.world.market.alive() == [] and story.gipper_lists() == []
    assert story.sdk("runpod.get_pods()") == []


def test_gipper_s_machine_seen_by_the_sdk(story: Story) -> None:
    """A machine that gipper rented is listed by the SDK under its name; when gipper is done, it is gone."""
    running = story.world.user.start(
        "pod", "run", story.world.job("mkdir out; echo x >out/x; exec tail -f /dev/null")
    )
    intent = story.world.user.wait_for("pod.intent")
    created = story.world.user.wait_for("pod.create", seconds=60)
    story.world.user.wait_for("job.start", seconds=90)
    assert [p["name"] for p in story.sdk("runpod.get_pods()")] == [intent["name"]]
    assert story.sdk(f'runpod.terminate_pod("{created["pod"]}")') is None
    done = running.wait(120)
    assert done.code == 4, done.all
    assert len(story.world.user.receipts("spend")) == 1
    story.world.gone()


def test_refusals_are_worded_as_the_sdk_expects(story: Story) -> None:
    """A wrong key, a pod that is gone and a sold-out card come out as the SDK's own errors."""
    assert "AuthenticationError" in story.run("runpod.get_user()", key="rpa_WRONGKEY00000").stderr
    assert "QueryError" in story.run('runpod.terminate_pod("nosuchpod00000")').stderr
    for kind in story.world.market.gpus:
        kind["stock"] = {c: (country, "NONE") for c, (country, _) in kind["stock"].items()}
    sold_out = story.run(f'runpod.create_pod("x", "img:1", "{CARD}")').stderr
    assert "no longer any instances available" in sold_out
