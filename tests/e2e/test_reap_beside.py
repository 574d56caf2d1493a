"""Several commands of one user at once: runs beside a reaper, first launches, a client that stood still."""

from __future__ import annotations

import signal

from support_cli import World, until


def _waiting(user: World, name: str) -> str:
    return f"mkdir out; echo begun; until [ -e {user.work}/go ]; do sleep 0.1; done; echo {name} > out/a"


def test_two_runs_and_a_reaper_beside_them(user: World) -> None:
    """`pod reap` again and again, from before the rents to after the end: both succeed, it touches neither."""
    user.gipper("pod", "reap")
    jobs = [
        user.job(_waiting(user, n), file=f"{n}.toml", outputs=[{"src": "out", "dst": f"out-{n}"}])
        for n in ("one", "two")
    ]  # fmt: skip
    running = [user.start("pod", "run", job) for job in jobs]
    passes, beside = 0, 0
    while any(each.process.poll() is None for each in running):
        done = user.gipper("pod", "reap")
        assert done.code == 0, done.all
        assert not [line for line in done.lines if line.startswith(("ended", "retried", "collected"))], (
            done.out
        )
        passes += 1
        beside += done.out.count("left local")
        if all("begun" in each.so_far for each in running) and beside >= 4:
            (user.work / "go").touch()
        assert passes < 100
    for each in running:
        ended = each.wait()
        assert ended.code == 0, ended.all
    assert [(user.work / f"out-{n}" / "a").read_text() for n in ("one", "two")] == ["one\n", "two\n"]
    user.sound()
    assert user.ends() == ["succeeded", "succeeded"]
    assert user.kinds().count("adopt") == 0
    assert user.gipper("pod", "reap").code == 0


def test_d_021_two_first_launches_make_one_key_pair(user: World) -> None:
    """An empty key folder and two runs at once: one pair, and both machines let it in."""
    jobs = [user.job("mkdir out", file=f"{n}.toml", outputs=[]) for n in ("one", "two")]
    running = [user.start("pod", "run", job) for job in jobs]
    for each in running:
        ended = each.wait()
        assert ended.code == 0, ended.all
    keys = user.home / "keys"
    made = {f.name for f in keys.iterdir()} - {"id_ed25519.lock"}
    assert made == {"id_ed25519", "id_ed25519.pub"}
    assert (keys / "id_ed25519").stat().st_mode & 0o777 == 0o600
    user.sound()


def test_a_client_that_was_suspended_goes_on(user: World) -> None:
    """SIGSTOP while the job runs, SIGCONT after it has ended: log and outputs whole, the run succeeds."""
    ended = user.work / "ended"
    job = user.job(f"mkdir out; echo begun; sleep 1; echo the end; echo kept > out/a; touch {ended}")
    client = user.start("pod", "run", job)
    client.wait_for_text("begun")
    client.signal(signal.SIGSTOP)
    try:
        until(ended.exists, "the job's end")
    finally:
        client.signal(signal.SIGCONT)
    done = client.wait()
    assert done.code == 0, done.all
    assert user.out("a").read_text() == "kept\n"
    run = user.receipts("run.start")[0].run
    assert (user.data / "runs" / run / "log").read_bytes() == b"begun\nthe end\n"
    user.sound()
