"""Units and cron line: every path arrives at the reaper as it is, and nothing else does."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gipper.errors import ConfigError
from gipper.reaptimer_texts import (
    TimerSpec,
    cron_line,
    line_for,
    serves,
    service,
    timer,
    with_line,
    without_line,
)

# Letters, and what shells, cron or systemd might take for something of theirs.
PATHS = st.text(alphabet="ab/ %$\"'\\@#*?~;&|=:é`!{}()<>-\u4e2d", min_size=1, max_size=30).map(
    lambda t: f"/{t}"
)


def spec(data: str = "/d", python: str = "/usr/bin/python3", **more: str) -> TimerSpec:
    return TimerSpec(inst="abcde", python=python, variables={"GIPPER_DATA": data, **more})


def systemd_words(unit: str, key: str) -> list[list[str]]:
    """The values of `key`, split and unquoted as systemd.syntax(7) says, specifiers undone."""
    lines = [line.partition("=")[2] for line in unit.splitlines() if line.startswith(f"{key}=")]
    return [[word.replace("%%", "%") for word in shlex.split(line)] for line in lines]


@settings(max_examples=200, deadline=None)
@given(data=PATHS, python=PATHS)
def test_a_unit_says_exactly_these_paths(data: str, python: str) -> None:
    """What systemd makes of the unit is the command and the environment that were meant."""
    unit = service(spec(data, python))
    assert systemd_words(unit, "Environment") == [[f"GIPPER_DATA={data}"]]
    (words,) = systemd_words(unit, "ExecStart")
    meant = [w.replace("$$", "$") for w in words]
    if meant[0] == "/bin/sh":
        assert meant[:3] == ["/bin/sh", "-c", 'exec "$0" "$@"']
        meant = meant[3:]
    assert meant == [python, "-P", "-m", "gipper", "pod", "reap"]
    assert serves(unit, data) and not serves(unit, data + "x")
    bare = unit.replace("%%", "")
    assert "%" not in bare


@settings(max_examples=60, deadline=None)
@given(path=PATHS)
def test_a_cron_line_says_exactly_these_paths(path: str) -> None:
    """What cron's shell makes of the line is what was meant, and cron itself finds no `%` to end it at."""
    line = cron_line(spec(path, sys.executable))
    assert "%" not in line and "\n" not in line
    command = line.removeprefix("*/15 * * * * ").replace(
        "-P -m gipper pod reap >/dev/null",
        "-c 'import os, json; print(json.dumps(os.environ[\"GIPPER_DATA\"]))'",
    )
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert json.loads(done.stdout) == path


def test_an_interpreter_with_an_odd_name_is_started(tmp_path: Path) -> None:
    """The shell in between starts the program by its very name, with the words as they are."""
    program = tmp_path / 'a "b" $c\\d'
    program.write_text('#!/bin/sh\nprintf "%s," "$@"\n')
    program.chmod(0o755)
    (words,) = systemd_words(service(spec(python=str(program))), "ExecStart")
    done = subprocess.run([w.replace("$$", "$") for w in words], capture_output=True, text=True, check=True)
    assert done.stdout == "-P,-m,gipper,pod,reap,"


@settings(max_examples=200, deadline=None)
@given(table=st.text(max_size=200), data=PATHS)
def test_other_cron_lines_stay_to_the_byte(table: str, data: str) -> None:
    """Whatever stands in a crontab stands in it afterwards; adding twice is adding once."""
    one = spec(data)
    added = with_line(table, one)
    assert with_line(added, one) == added
    assert line_for(added, data) == cron_line(one)
    assert added.startswith(table)
    assert without_line(added, data) in (table, f"{table}\n")


def test_two_data_folders_have_two_lines() -> None:
    """One's line is neither replaced nor removed with the other's."""
    table = with_line(with_line("", spec("/one")), spec("/one/two"))
    assert len(table.splitlines()) == 2
    assert without_line(table, "/one") == cron_line(spec("/one/two")) + "\n"


def test_a_line_that_is_commented_out_reaps_nothing() -> None:
    """It isn't found, and is replaced at the next install."""
    table = f"# {cron_line(spec())}\n"
    assert line_for(table, "/d") is None
    assert len(with_line(table, spec()).splitlines()) == 1


def test_the_timer_runs_every_quarter_and_catches_up() -> None:
    """Every 15 minutes, after boot, and missed passes are made up for."""
    lines = timer(spec()).splitlines()
    assert {"OnCalendar=*:0/15", "Persistent=true", "Unit=gipper-reap-abcde.service"} <= set(lines)
    assert any(line.startswith("OnBootSec=") for line in lines)
    assert "WantedBy=timers.target" in lines


@pytest.mark.parametrize("path", ["relative", "", "/a\nExecStart=/bin/false", "/a\x1b", "/a\udcff"])
def test_a_path_that_no_unit_can_hold_is_refused(path: str) -> None:
    """Relative, with control characters or not text: nothing is written."""
    for wrong in ({"data": path}, {"python": path}):
        with pytest.raises(ConfigError):
            spec(**wrong)
