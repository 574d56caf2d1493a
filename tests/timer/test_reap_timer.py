"""`gipper pod reap-timer`: installs what it says, sees what is there, removes only its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from timer_world import User

from gipper import reaptimer
from gipper.errors import ConfigError
from gipper.reaptimer_tools import runner

SCRIPT = str(Path(sys.executable).parent / "gipper")
OTHERS = b"# mine\n@daily caf\xe9 100%\n"


def _cli(user: User, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, "pod", "reap-timer", *words], env=user.env(**env), capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def _unit_names(user: User) -> list[str]:
    return sorted(p.name for p in user.units.glob("*"))


def test_systemd_units_are_installed_and_removed(user: User) -> None:
    """Files, reload, enable; then it is seen as installed; removed, nothing is left of it."""
    user.has("systemctl", "loginctl")
    user.flag("linger", "yes")
    gipper = user.gipper()
    assert not reaptimer.installed(gipper.env)
    found = reaptimer.install(gipper)
    unit = f"gipper-reap-{gipper.installation.inst}"
    assert (found.kind, found.where) == ("systemd", f"{unit}.timer")
    assert _unit_names(user) == [f"{unit}.service", f"{unit}.timer"]
    text = (user.units / f"{unit}.service").read_text()
    assert f'"{sys.executable}" "-P" "-m" "gipper" "pod" "reap"' in text
    for name in ("GIPPER_DATA", "GIPPER_CONFIG", "GIPPER_KEYS"):
        assert f'Environment="{name}={gipper.env[name]}"' in text
    assert "GIPPER_ENV" not in text
    assert reaptimer.installed(gipper.env)
    assert list(reaptimer.warnings(gipper, "systemd")) == []
    assert reaptimer.remove(gipper) == (f"{unit}.timer",)
    assert _unit_names(user) == [] and not reaptimer.installed(gipper.env)
    assert reaptimer.remove(gipper) == ()


def test_show_is_what_install_writes(user: User) -> None:
    """`show` writes nothing; afterwards each file holds what it printed."""
    user.has("systemctl")
    gipper = user.gipper()
    shown = reaptimer.show(gipper)
    assert not user.units.exists()
    reaptimer.install(gipper)
    assert {where: Path(where).read_text() for where, _ in shown} == dict(shown)
    assert len(shown) == 2


@pytest.mark.parametrize("table", [None, b"", OTHERS, OTHERS.rstrip(b"\n")])
def test_cron_where_there_is_no_systemd(user: User, table: bytes | None) -> None:
    """A marked line is added to the crontab and taken away; every other byte stays."""
    user.has("systemctl", "crontab", "pgrep")
    user.flag("no-bus")
    if table is not None:
        (user.state / "table").write_bytes(table)
    gipper = user.gipper()
    for _ in range(2):
        assert reaptimer.install(gipper).kind == "cron"
    assert user.table.startswith(table or b"")
    assert user.table.count(b"# gipper-reap ") == 1
    assert reaptimer.show(gipper)[0][1].encode() in user.table
    assert reaptimer.installed(gipper.env)
    assert not user.units.exists()
    assert reaptimer.remove(gipper) == ("crontab line",)
    assert user.table.rstrip(b"\n") == (table or b"").rstrip(b"\n")
    assert not reaptimer.installed(gipper.env)


def test_a_crontab_that_cannot_be_read_is_not_overwritten(user: User) -> None:
    """`crontab -l` fails for another reason than an empty table: nothing is written."""
    user.has("crontab")
    user.flag("denied")
    with pytest.raises(ConfigError, match="not allowed"):
        reaptimer.install(user.gipper())
    assert user.calls == ["crontab -l"]


def test_no_systemd_and_no_cron(user: User) -> None:
    """The line to have run by whatever else there is stands in the hint; exit 2 at the command."""
    with pytest.raises(ConfigError) as caught:
        reaptimer.install(user.gipper())
    assert reaptimer.show(user.gipper())[0][1].strip() in (caught.value.hint or "")
    done = _cli(user, "install")
    assert done.returncode == 2 and "-m gipper pod reap" in done.stderr
    assert "neither a systemd" in _cli(user, "show").stdout
    done = _cli(user, "status")
    assert done.returncode == 2 and "-m gipper pod reap" in done.stderr
    assert "reap-timer install" not in done.stderr


def test_without_a_cron_daemon_a_line_counts_for_nothing(user: User) -> None:
    """A crontab that nobody reads is told, and `--detach` may not rely on it."""
    user.has("crontab", "pgrep")
    user.flag("no-cron")
    gipper = user.gipper()
    assert not reaptimer.install(gipper).active
    assert not reaptimer.installed(gipper.env)
    ((what, _cure),) = reaptimer.warnings(gipper, "cron")
    assert "no cron daemon runs" in what


def test_a_timer_that_was_stopped_counts_for_nothing(user: User) -> None:
    """Units that lie there but don't run are not a timer; status says so and exits 2."""
    user.has("systemctl")
    gipper = user.gipper()
    found = reaptimer.install(gipper)
    (user.state / f"active-{found.where}").unlink()
    assert not reaptimer.installed(gipper.env)
    (seen,) = reaptimer.status(gipper)
    assert not seen.active and not seen.stale
    done = _cli(user, "status")
    assert done.returncode == 2 and "NOT active" in done.stdout and "reap-timer install" in done.stderr


@pytest.mark.parametrize(("linger", "told"), [("yes", None), ("no", "is off"), (None, "can't be told")])
def test_lingering_is_checked(user: User, linger: str | None, told: str | None) -> None:
    """Without lingering the timer stops at logout: said, with the command that mends it."""
    user.has("systemctl", "loginctl")
    if linger:
        user.flag("linger", linger)
    found = list(reaptimer.warnings(user.gipper(), "systemd"))
    assert (found == []) == (told is None)
    if told:
        assert told in found[0][0] and found[0][1] == "loginctl enable-linger"


def test_a_key_that_only_the_shell_has_is_told(user: User) -> None:
    """The name is told, its value is nowhere: not in a unit, not in a tool's environment or arguments."""
    secret = "sk-only-in-this-shell"
    user.has("systemctl", "loginctl")
    user.flag("linger", "yes")
    gipper = user.gipper(user.env(ACME_API_KEY=secret))
    reaptimer.install(gipper)
    ((what, cure),) = reaptimer.warnings(gipper, "systemd")
    assert "ACME_API_KEY" in what and secret not in what
    assert str(user.home / "config" / ".env") in cure
    texts = [p.read_text() for p in (*user.units.iterdir(), *user.state.iterdir())]
    assert texts and not any(secret in text for text in texts)
    assert "PATH=" in (user.state / "env-systemctl").read_text()


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_key_in_the_dotenv_is_seen_by_the_timer(user: User, exclusive: bool) -> None:
    """The dotenv beside the settings, or GIPPER_ENV's alone: no warning where the timer reads the key."""
    beside = user.home / "config" / ".env"
    beside.parent.mkdir()
    beside.write_text("ACME_API_KEY=abcdefgh\n")
    beside.chmod(0o600)
    env = user.env(ACME_API_KEY="abcdefgh")
    if exclusive:
        env["GIPPER_ENV"] = str(user.home / "other.env")
    assert reaptimer.shell_only(user.gipper(env)) == (["ACME_API_KEY"] if exclusive else [])
    assert reaptimer.shell_only(user.gipper(user.env())) == []


def test_gipper_env_goes_with_the_timer(user: User) -> None:
    """GIPPER_ENV is made absolute, as the timer starts somewhere else."""
    user.has("systemctl")
    (_, text), _timer = reaptimer.show(user.gipper(user.env(GIPPER_ENV="keys.env")))
    assert f'Environment="GIPPER_ENV={Path("keys.env").absolute()}"' in text


def test_two_data_folders_have_two_timers(user: User) -> None:
    """Neither overwrites nor removes the other's."""
    user.has("systemctl")
    one, two = user.gipper(), user.gipper(user.env(GIPPER_DATA=str(user.home / "data two")))
    reaptimer.install(one)
    reaptimer.install(two)
    assert len(_unit_names(user)) == 4
    reaptimer.remove(one)
    assert not reaptimer.installed(one.env) and reaptimer.installed(two.env)


def test_a_copied_data_folder_does_not_take_the_timer_over(user: User) -> None:
    """A copy on this host has the same id: installing for it is refused, the first timer stays."""
    user.has("systemctl")
    one = user.gipper()
    reaptimer.install(one)
    copy = user.home / "copy"
    copy.mkdir()
    (copy / "installation.json").write_bytes((user.home / "data" / "installation.json").read_bytes())
    with pytest.raises(ConfigError, match="another data folder"):
        reaptimer.install(user.gipper(user.env(GIPPER_DATA=str(copy))))
    assert reaptimer.installed(one.env)


def test_a_timer_of_an_earlier_id_is_replaced(user: User) -> None:
    """A home that was cloned has a new id: its old timer gives way to the new one."""
    user.has("systemctl")
    first = reaptimer.install(user.gipper())
    (user.home / "data" / "installation.json").unlink()
    again = user.gipper()
    assert reaptimer.installed(again.env)
    assert reaptimer.status(again)[0].stale
    second = reaptimer.install(again)
    assert second.where != first.where
    assert _unit_names(user) == sorted([second.where, second.where.replace(".timer", ".service")])


def test_systemd_takes_over_from_cron(user: User) -> None:
    """Where systemd answers now, the crontab line goes; others stay."""
    user.has("systemctl", "crontab", "pgrep")
    user.flag("no-bus")
    (user.state / "table").write_bytes(OTHERS)
    gipper = user.gipper()
    reaptimer.install(gipper)
    (user.state / "no-bus").unlink()
    reaptimer.install(gipper)
    assert user.table == OTHERS
    assert [f.kind for f in reaptimer.status(gipper)] == ["systemd"]


def test_an_edited_unit_is_stale(user: User) -> None:
    """Another interpreter than today's (an upgrade, a move) is told by `status`."""
    user.has("systemctl")
    gipper = user.gipper()
    reaptimer.install(gipper)
    (unit,) = user.units.glob("*.service")
    unit.write_text(unit.read_text().replace(sys.executable, "/old/python"))
    (found,) = reaptimer.status(gipper)
    assert found.active and found.stale
    assert "LastTriggerUSec=Mon 2026-01-05 10:00:00 UTC" in found.times


def test_systemd_that_refuses_is_told(user: User) -> None:
    """What it said, and where to look; no traceback."""
    user.has("systemctl")
    user.flag("refuses")
    with pytest.raises(ConfigError, match="access denied"):
        reaptimer.install(user.gipper())
    assert not reaptimer.installed(user.env())


def test_a_tool_that_hangs_is_given_up(user: User) -> None:
    """A tool has a time limit; its child is ended."""
    tool = user.bin / "systemctl"
    tool.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    tool.chmod(0o755)
    ran = runner(user.env(), timeout_s=0.2)("systemctl", "--user", "show")
    assert ran.code is None and "did not answer" in ran.told


def test_foreign_units_are_not_touched(user: User) -> None:
    """A unit of a similar name that reaps for nobody here stays."""
    user.has("systemctl")
    user.units.mkdir(parents=True)
    foreign = user.units / "gipper-reap-other.service"
    foreign.write_text("[Service]\nExecStart=/bin/true\n")
    gipper = user.gipper()
    reaptimer.install(gipper)
    reaptimer.remove(gipper)
    assert _unit_names(user) == [foreign.name]


def test_asking_makes_nothing(user: User) -> None:
    """Whether a timer is installed is found out without making a folder or an id."""
    user.has("systemctl", "crontab")
    before = sorted(os.listdir(user.home))
    assert not reaptimer.installed(user.env())
    assert reaptimer.status(user.gipper()) == ()
    assert sorted(os.listdir(user.home)) == before


def test_the_commands(user: User) -> None:
    """show, status, install, status, remove at the command line; each ends with 0 but status without one."""
    user.has("systemctl", "loginctl")
    assert "# " in _cli(user, "show").stdout
    assert _cli(user, "status").returncode == 2
    done = _cli(user, "install", RUNPODLIKE_API_KEY="x")
    assert done.returncode == 0 and "installed: systemd gipper-reap-" in done.stdout
    assert "loginctl enable-linger" in done.stderr
    assert "active" in _cli(user, "status").stdout
    (row,) = json.loads(_cli(user, "status", "--json").stdout)
    assert (row["kind"], row["active"], row["stale"]) == ("systemd", True, False)
    assert row["warnings"][0]["cure"] == "loginctl enable-linger"
    assert _cli(user, "remove").stdout.startswith("removed: gipper-reap-")
    assert _cli(user, "remove").returncode == 0
    assert _cli(user).returncode == 0
