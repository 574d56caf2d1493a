"""A link or a server that died without a word is noticed, whatever we are doing at the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support_sshd import Relay, Sshd, wait_until

from gipper.errors import ConnectionLost
from gipper.runtime import RealRuntime, Task
from gipper.ssh.liveness import Watchdog
from gipper.ssh.remote import SshRemote
from gipper.ssh.settings import Patience

Dial = Callable[..., SshRemote]
Break = Callable[[], None]
# With the watchdog of the tests (0.2 s, 0.6 s) a second is due; the rest is for a busy machine, on which
# the first look alone may be late.
NOTICED_S = 60.0
BLOCK = bytes(1 << 20)


@pytest.fixture
def relay(sshd: Sshd) -> Iterator[Relay]:
    with Relay(sshd.port) as relay:
        yield relay


@pytest.fixture
def link(sshd: Sshd, relay: Relay, dial: Dial, quick: Patience) -> SshRemote:
    """A connection through the relay, with a quick watchdog."""
    return dial(sshd.target(addresses=[relay.address]), patience=quick)


@pytest.fixture(params=["dropped", "stalled", "stopped"])
def fault(request: pytest.FixtureRequest, sshd: Sshd, relay: Relay) -> Break:
    """Swallow everything; read nothing any more; stop the server's processes."""
    return {"dropped": relay.drop, "stalled": relay.stall, "stopped": sshd.freeze}[request.param]


def lost(runtime: RealRuntime, task: Task[object]) -> None:
    assert runtime.wait_any([task.done], runtime.monotonic() + NOTICED_S) is task.done
    with pytest.raises(ConnectionLost):
        task.result()


def test_idle(link: SshRemote, fault: Break, runtime: RealRuntime) -> None:
    """While a command is silent: the wait for it ends in ConnectionLost."""
    task = runtime.spawn("run", lambda: link.run("exec sleep 1000", timeout_s=1000))
    wait_until(lambda: link._control.channels == 1, what="command began")
    fault()
    lost(runtime, task)


def test_asking(link: SshRemote, fault: Break, runtime: RealRuntime) -> None:
    """While the control shell owes an answer."""
    link.ask("true")
    fault()
    lost(runtime, runtime.spawn("ask", lambda: link.ask("true", timeout_s=1000)))


def test_writing(link: SshRemote, fault: Break, runtime: RealRuntime) -> None:
    """While a writer is stuck in full buffers."""
    channel = link.open_channel("cat >/dev/null")
    written = [0]

    def write() -> None:
        while True:
            channel.write(BLOCK)
            written[0] += 1

    task = runtime.spawn("write", write)
    wait_until(lambda: written[0] > 2, what="writing")
    fault()
    lost(runtime, task)


def test_reading(link: SshRemote, fault: Break, runtime: RealRuntime) -> None:
    """While a reader waits in the middle of a stream."""
    channel = link.open_channel("cat /dev/zero")
    channel.read(1000)
    fault()

    def read() -> None:
        while channel.read(1 << 20):
            pass

    lost(runtime, runtime.spawn("read", read))


def test_nobody_waits(link: SshRemote, fault: Break) -> None:
    """With nothing under way the connection is closed all the same, and says why."""
    fault()
    wait_until(lambda: not link._control.alive, seconds=NOTICED_S, what="fault noticed")
    with pytest.raises(ConnectionLost, match="no sign of life"):
        link.ask("true")


def test_reset(link: SshRemote, relay: Relay, runtime: RealRuntime) -> None:
    """A reset is noticed at once, by the kernel."""
    task = runtime.spawn("run", lambda: link.run("exec sleep 1000", timeout_s=1000))
    wait_until(lambda: link._control.channels == 1, what="command began")
    relay.reset()
    lost(runtime, task)


def test_quiet_but_alive(link: SshRemote, relay: Relay) -> None:
    """A command that is silent for many probes is left alone."""
    assert link.run("sleep 3; echo done", timeout_s=60).text == "done"
    assert relay.connections == 1


def test_d_054_new_connection_after_a_fault(
    sshd: Sshd, relay: Relay, dial: Dial, quick: Patience, link: SshRemote
) -> None:
    """After a fault healed, a new dial works and what was left on the machine is still there."""
    link.run("echo 0 > ~/rc")
    relay.drop()
    wait_until(lambda: not link._control.alive, seconds=NOTICED_S, what="fault noticed")
    relay.heal()
    again = dial(sshd.target(addresses=[relay.address]), patience=quick)
    assert again.run("cat ~/rc").text == "0"


def test_close_on_a_dead_link(link: SshRemote, fault: Break, runtime: RealRuntime) -> None:
    """close() returns although the other side takes nothing any more."""
    channel = link.open_channel("sleep 1000")
    fault()
    task = runtime.spawn("close", lambda: (channel.close(), link.close()))
    assert runtime.wait_any([task.done], runtime.monotonic() + NOTICED_S) is task.done
    task.result()


def watch(runtime: RealRuntime, received: Callable[[], int], dead: list[str]) -> Watchdog:
    """A watchdog whose question is never answered."""
    never = runtime.event()

    def ask() -> bool:
        runtime.wait_any([never], runtime.monotonic() + NOTICED_S)
        return True

    return Watchdog(runtime, ask=ask, received=received, dead=dead.append, every_s=0.01, wait_s=0.3)


def test_slow_line_is_not_dead(runtime: RealRuntime) -> None:
    """While bytes come in, an answer that is late (queued behind them) condemns nobody."""
    dead: list[str] = []
    begin = runtime.monotonic()
    watchdog = watch(runtime, lambda: int((runtime.monotonic() - begin) * 100), dead)
    watchdog.start()
    runtime.wait_any([runtime.event()], runtime.monotonic() + 1.5)
    assert dead == []
    watchdog.stop()


def test_no_answer_and_no_bytes_is_dead(runtime: RealRuntime) -> None:
    """Without a byte and an answer the verdict falls once."""
    dead: list[str] = []
    watch(runtime, lambda: 5, dead).start()
    wait_until(lambda: bool(dead), what="verdict")
    assert dead == ["no sign of life for 0.3 s"]
