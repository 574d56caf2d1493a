"""How often a run waits for its machine between the login and the job's start."""

from __future__ import annotations

from pathlib import Path

from support_sshd import Relay, Sshd
from support_stage import staged

from gipper.outcomes import Outcome
from gipper.remote import Dialer, Remote, Target
from gipper.runtime import Event
from gipper.values.jobs import Input

MOST = 20


class Counting:
    """A dialer that has the relay count from the end of each login."""

    def __init__(self, inner: Dialer, relay: Relay) -> None:
        self.inner = inner
        self.relay = relay

    def dial(self, target: Target, *, timeout_s: float, stop: Event | None = None) -> Remote:
        remote = self.inner.dial(target, timeout_s=timeout_s, stop=stop)
        self.relay.reset_counts()
        return remote


def test_round_trips_from_login_to_job_start(tmp_path: Path, host: Sshd, relay: Relay) -> None:
    """At most 20 on all connections together, built-in checks on and two input files sent.

    A round trip is a burst from the client after a burst from the server.
    """
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    inputs = tuple(Input(src=str(tmp_path / name), dst=name) for name in ("a.txt", "b.txt"))
    stage = staged(
        tmp_path, host, "mkdir out; cat a.txt b.txt > out/x", market={"boot": lambda _m: (relay.address,)},
        through=lambda dialer: Counting(dialer, relay), inputs=inputs,
    )  # fmt: skip
    counted: list[int] = []
    told = stage.listener.step

    def step(text: str) -> None:
        told(text)
        if text == "the job runs":
            counted.append(relay.round_trips)

    stage.listener.step = step  # type: ignore[method-assign]
    result = stage.run()
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert (tmp_path / "out" / "x").read_text() == "a.txtb.txt"
    assert [r["verdict"] for r in stage.receipts("preflight")] == ["passed"] * 5
    assert len(counted) == 1
    assert 3 < counted[0] <= MOST
