"""A whole run across a router that then forwards nothing: run by test_lost_packets in a network of its own.

Arguments: a new folder, the machine's namespace, the router's, the machine's address. Prints one JSON object.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import support_sshd
from stubs.gpu_stubs import GpuStubs, build_driver
from support_sshd import Sshd, wait_until
from support_stage import staged

CHATTER = (
    "mkdir out; n=0; until [ -e {go} ]; do n=$((n+1)); echo line $n | tee -a out/log; sleep 0.05; done; "
    "echo the end | tee -a out/log"
)


def main(folder: Path, machine: str, router: str, address: str) -> dict[str, object]:
    """Break the way after the job began to write, mend it once that was noticed."""
    wrapper = folder / "sshd.sh"
    wrapper.write_text(f'#!/bin/sh\nexec ip netns exec {machine} /usr/sbin/sshd "$@"\n')
    wrapper.chmod(0o755)
    support_sshd.SSHD = str(wrapper)
    stubs = GpuStubs(folder / "gpu", build_driver(folder))
    with Sshd(folder / "host", host=address, port=22022, env=stubs.env()) as host:
        stage = staged(
            folder, host, CHATTER.format(go=folder / "go"), limits={"ready_min": 20, "collect_min": 30}
        )
        runtime = stage.launch.gipper.runtime
        task = runtime.spawn("run", stage.run)
        wait_until(lambda: b"line 3" in stage.listener.logged, seconds=30, what="the job writes")
        _forward(router, on=False)
        broken = time.monotonic()
        wait_until(lambda: any("broke" in s for s in stage.listener.steps), seconds=60, what="noticed")
        noticed = time.monotonic() - broken
        _forward(router, on=True)
        had = len(stage.listener.logged)
        wait_until(lambda: len(stage.listener.logged) > had + 20, seconds=60, what="the log goes on")
        (folder / "go").touch()
        result = task.result()
    log = next(stage.launch.gipper.paths.data_folder.glob("runs/*/log")).read_bytes()
    return {
        "noticed_s": noticed, "outcome": result.outcome.value, "reason": result.reason,
        "whole": log == (folder / "out" / "log").read_bytes() and log.endswith(b"the end\n"),
        "blames": stage.blames(), "alive": len(stage.market.alive()),
    }  # fmt: skip


def _forward(router: str, *, on: bool) -> None:
    command = f"echo {int(on)} >/proc/sys/net/ipv4/ip_forward"
    subprocess.run(["ip", "netns", "exec", router, "sh", "-c", command], check=True)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), *sys.argv[2:])))
