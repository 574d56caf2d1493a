"""attach, stop, ssh, logs -f, --detach: a run that is not, or no longer, this terminal's."""

from __future__ import annotations

import signal
import subprocess

from support_cli import World, until

LONG = "mkdir out; echo begun; echo half > out/a; sleep 600"
SHORT = "mkdir out; for i in 1 2 3 4; do echo line $i; sleep 0.2; done; echo done > out/a"


def _run_id(user: World) -> str:
    user.wait_for("job.start")
    return str(user.receipts("run.start")[0].run)


def test_stop_asks_a_living_client(user: World) -> None:
    """`stop` from elsewhere: the client ends its job, collects, gives back; both say so."""
    running = user.start("pod", "run", user.job(LONG))
    run = _run_id(user)
    running.wait_for_text("begun")
    done = user.gipper("pod", "stop", run)
    assert done.code == 1 and "stopped" in done.out, done.all
    assert running.wait().code == 1
    assert user.out("a").read_text() == "half\n"
    assert user.ends() == ["stopped"]
    user.sound()


def test_stop_without_a_client(user: World) -> None:
    """The client is dead: `stop` takes over, ends the job, collects, gives back."""
    running = user.start("pod", "run", user.job(LONG))
    run = _run_id(user)
    running.wait_for_text("begun")
    running.signal(signal.SIGKILL)
    running.wait()
    done = user.gipper("pod", "stop", run)
    assert done.code == 1 and "gone: not listed" in done.out, done.all
    assert user.out("a").read_text() == "half\n"
    assert user.machines() == []
    assert user.ends() == ["stopped"]
    user.sound()


def test_attach_beside_a_living_client_only_follows(user: World) -> None:
    """One supervisor: the second one reads the log and ends as the run does."""
    running = user.start("pod", "run", user.job(SHORT))
    run = _run_id(user)
    done = user.gipper("pod", "attach", run)
    assert done.code == 0 and "following its log only" in done.err, done.all
    assert "line 4" in done.out
    assert running.wait().code == 0
    assert "adopt" not in user.kinds()
    user.sound()


def test_logs_follow_until_the_end(user: World) -> None:
    """`logs -f` shows what comes and ends with the run."""
    running = user.start("pod", "run", user.job(SHORT))
    run = _run_id(user)
    done = user.gipper("pod", "logs", "-f", run)
    assert done.code == 0
    assert done.out == "line 1\nline 2\nline 3\nline 4\n"
    running.wait()
    assert user.gipper("pod", "logs", run).out == done.out


def test_detach_and_come_back(user: World) -> None:
    """`--detach` leaves once the job runs and its whole cost is reserved; attach brings it home."""
    done = user.gipper("pod", "run", "--detach", "--unattended", user.job(SHORT))
    assert done.code == 0 and "gipper pod attach" in done.out and "must be fetched by then" in done.out, (
        done.all
    )
    run = str(user.receipts("run.start")[0].run)
    assert user.kinds()[-1] == "job.start" and len(user.machines()) == 1
    _told_that_nobody_follows(user, run)
    done = user.gipper("pod", "attach", run)
    assert done.code == 0, done.all
    assert user.gipper("pod", "logs", "-f", run).err == ""
    done = user.gipper("pod", "stop", run)
    assert done.code == 0 and "already over" in done.err, done.all
    assert user.out("a").read_text() == "done\n"
    assert user.ends() == ["succeeded"]
    user.sound()


def _told_that_nobody_follows(user: World, run: str) -> None:
    for words in (["logs"], ["logs", "-f"]):
        done = user.gipper("pod", *words, run)
        assert done.code == 0 and f"gipper pod attach {run}" in done.err, done.all
    found = user.gipper("doctor").out
    assert "nobody supervises local" in found and f"gipper pod attach {run}" in found, found
    assert "no reap timer" in found
    listed = user.gipper("pod", "ls").lines[1]
    assert " 0.000 " in listed and " UTC " in listed
    reaped = user.gipper("pod", "reap", "--dry-run").out
    assert "nobody supervises it" in reaped and "dead" not in reaped, reaped


def test_detach_needs_somebody_who_ends_the_machine(user: World) -> None:
    """Without a reap timer and without --unattended nothing is rented."""
    done = user.gipper("pod", "run", "--detach", user.job(SHORT))
    assert done.code == 2 and "reap-timer install" in done.err, done.all
    assert "pod.intent" not in user.kinds()


def test_detach_is_refused_where_the_day_has_no_room_for_the_whole_cost(user: World) -> None:
    """The most that the machine can cost must fit the day's cap, else the client stays."""
    user.settings(daily_cap_usd=0.9, provider={"local": {"usd_h": 1.0}})
    job = user.job(
        SHORT, budget={"max_usd": 0.5, "max_hours": 0.01}, placement={"compute_s": 1, "setup_s": 0}
    )
    done = user.gipper("pod", "run", "--detach", "--unattended", job)
    assert done.code == 0 and "not left" in done.err, done.all
    assert user.ends() == ["succeeded"]
    user.sound()


def test_a_shell_on_the_machine_is_recorded(user: World) -> None:
    """`pod ssh` logs in with the run's key and pinned host key, and leaves a receipt first."""
    running = user.start("pod", "run", user.job(LONG))
    run = _run_id(user)
    from support_cli import GIPPER

    shell = subprocess.run(
        [str(GIPPER), "pod", "ssh", run], env=user.env, cwd=user.work, input=b"echo hello-$((40+2)); exit\n",
        capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    assert b"hello-42" in shell.stdout, shell
    assert f"gipper/{run}/work".encode() in shell.stderr, shell
    assert len(user.receipts("shell")) == 1
    running.signal(signal.SIGINT)
    assert running.wait().code == 130


def test_an_unknown_run_is_wrong_use(user: World) -> None:
    """attach, stop, logs and ssh of a run that isn't there exit with 2."""
    for words in (["attach"], ["stop"], ["logs"], ["ssh"]):
        done = user.gipper("pod", *words, "0000000000")
        assert done.code == 2 and "no run" in done.err, done.all


def test_a_suspended_client_goes_on(user: World) -> None:
    """SIGSTOP for a while: the run goes on where it was, outputs whole."""
    running = user.start("pod", "run", user.job(SHORT))
    _run_id(user)
    running.signal(signal.SIGSTOP)
    until(lambda: "T" in _state(running.pid), "the stop", 5)
    user.gipper("pod", "ls")
    running.signal(signal.SIGCONT)
    assert running.wait().code == 0
    assert user.out("a").read_text() == "done\n"
    user.sound()


def _state(pid: int) -> str:
    from pathlib import Path

    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
