"""The reap timer: `gipper pod reap` every 15 minutes with nobody there.

systemd units of this user where they have a systemd, a marked line in their crontab elsewhere. One data
folder has at most one; nothing that is anybody else's is touched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import attrs

from gipper.core import Gipper
from gipper.errors import ConfigError, GipperError
from gipper.paths import Paths
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
from gipper.reaptimer_tools import (
    Runner,
    cron_runs,
    crontab,
    has_systemd,
    lingers,
    runner,
    write_crontab,
)

Kind = Literal["systemd", "cron"]
_NOTHING: Final = "neither a systemd of this user nor crontab answers here"
_TIMES: Final = ("LastTriggerUSec", "NextElapseUSecRealtime")


@attrs.frozen(kw_only=True)
class Found:
    """A timer that is installed. `stale`: it differs from what would be installed now."""

    kind: Kind
    where: str
    active: bool
    stale: bool = False
    times: tuple[str, ...] = ()


def installed(env: Mapping[str, str], run: Runner | None = None) -> bool:
    """Whether somebody reaps for the data folder of `env` while no client is there."""
    return any(found.active for found in _found(env, run or runner(env)))


def status(gipper: Gipper, run: Runner | None = None) -> tuple[Found, ...]:
    """The timers of this data folder (normally none or one). Raises ConfigError."""
    use = run or runner(gipper.env)
    found = tuple(_found(gipper.env, use))
    if not found:
        return ()
    spec = _spec(gipper)
    return tuple(attrs.evolve(f, stale=_stale(gipper.env, f, spec, use), times=_times(f, use)) for f in found)


def show(gipper: Gipper, run: Runner | None = None) -> list[tuple[str, str]]:
    """What `install` would write: (where, text) pairs. Raises ConfigError."""
    spec = _spec(gipper)
    use = run or runner(gipper.env)
    if not has_systemd(use):
        where = "crontab" if _has_cron(use) else f"{_NOTHING}: have this run every 15 minutes by other means"
        return [(where, cron_line(spec) + "\n")]
    return [(str(path), text) for path, text in _files(_folder(gipper.env), spec)]


def advice(gipper: Gipper, run: Runner | None = None) -> str:
    """What to type or do where no timer runs: the command, or the line where nothing can be installed."""
    use = run or runner(gipper.env)
    if has_systemd(use) or _has_cron(use):
        return "gipper pod reap-timer install"
    return _by_hand(_spec(gipper))


def install(gipper: Gipper, run: Runner | None = None) -> Found:
    """Install the timer, or renew it. Raises ConfigError, with the line to type where nothing is there."""
    use = run or runner(gipper.env)
    spec = _spec(gipper)
    if has_systemd(use):
        _install_units(_folder(gipper.env), spec, use)
        for path in _units(gipper.env):
            if path.stem != spec.unit:
                _drop(path, use)
        _remove_line(gipper.env, use, _table(use))
        return Found(kind="systemd", where=f"{spec.unit}.timer", active=True)
    table = crontab(use)
    if table is None:
        raise ConfigError(f"{_NOTHING}: no timer was installed", hint=_by_hand(spec))
    write_crontab(use, with_line(table, spec))
    return Found(kind="cron", where="crontab", active=cron_runs(use) is not False)


def remove(gipper: Gipper, run: Runner | None = None) -> tuple[str, ...]:
    """Take this data folder's timers away; what was taken. Raises ConfigError."""
    use = run or runner(gipper.env)
    units = _units(gipper.env)
    for path in units:
        _drop(path, use)
    if units:
        use("systemctl", "--user", "daemon-reload")
    # A crontab that can't be read matters only where it may hold the timer.
    line = _remove_line(gipper.env, use, _table(use) if units else crontab(use) or "")
    return (*(f"{path.stem}.timer" for path in units), *(("crontab line",) if line else ()))


def warnings(gipper: Gipper, kind: Kind, run: Runner | None = None) -> Iterator[tuple[str, str]]:
    """(what is wrong, its cure) of a timer of that kind: keys that it won't see, a login that it needs."""
    lost = shell_only(gipper)
    if lost:
        yield (
            f"only this shell has {', '.join(lost)}: the timer won't see it, and can end nothing there",
            f"write NAME=value lines into {dotenv(gipper)} (chmod 600)",
        )
    if kind == "systemd" and not (lingering := lingers(run or runner(gipper.env))):
        known = "is off" if lingering is False else "can't be told"
        yield f"lingering {known}: the timer stops when you log out", "loginctl enable-linger"
    if kind == "cron" and not (running := cron_runs(run or runner(gipper.env))):
        known = "no cron daemon runs here" if running is False else "whether a cron daemon runs can't be told"
        yield f"{known}: without one nobody reads the crontab", "start it, e.g. service cron start"


def shell_only(gipper: Gipper) -> list[str]:
    """Names of providers' keys that are set in this environment and in no dotenv that a timer reads."""
    names = {name for provider in gipper.providers() for name in provider.key_names}
    given = sorted(name for name in names if gipper.env.get(name))
    home = {"HOME": gipper.env["HOME"]} if "HOME" in gipper.env else {}
    try:
        keys = Gipper(env={**_variables(gipper.paths), **home}).keys
        return [name for name in given if keys.get(name) is None]
    except GipperError:
        # A dotenv that is refused gives the timer nothing.
        return given


def dotenv(gipper: Gipper) -> Path:
    """The dotenv that a timer reads."""
    return gipper.paths.dotenv or gipper.paths.dotenv_beside_config


def _by_hand(spec: TimerSpec) -> str:
    return f"have this run every 15 minutes, by whatever does that here: {cron_line(spec)}"


def _has_cron(run: Runner) -> bool:
    try:
        return crontab(run) is not None
    except ConfigError:
        # It is there, and `install` tells what it complains of.
        return True


def _spec(gipper: Gipper) -> TimerSpec:
    return TimerSpec(
        inst=gipper.installation.inst, python=sys.executable or "", variables=_variables(gipper.paths)
    )


def _variables(paths: Paths) -> dict[str, str]:
    found = {
        "GIPPER_DATA": str(paths.data_folder), "GIPPER_CONFIG": str(paths.config_file),
        "GIPPER_KEYS": str(paths.keys_folder),
    }  # fmt: skip
    return found | ({"GIPPER_ENV": str(paths.dotenv)} if paths.dotenv else {})


def _folder(env: Mapping[str, str]) -> Path:
    config = env.get("XDG_CONFIG_HOME", "")
    home = Path(env["HOME"]) if env.get("HOME") else Path.home()
    base = Path(config) if config.startswith("/") else home / ".config"
    return base / "systemd" / "user"


def _data(env: Mapping[str, str]) -> str:
    return str(Paths.from_env(env).data_folder)


def _files(folder: Path, spec: TimerSpec) -> tuple[tuple[Path, str], ...]:
    return (
        (folder / f"{spec.unit}.service", service(spec)),
        (folder / f"{spec.unit}.timer", timer(spec)),
    )


def _units(env: Mapping[str, str]) -> list[Path]:
    """The .service files that reap for this data folder."""
    data = _data(env)
    return [p for p in sorted(_folder(env).glob("gipper-reap*.service")) if serves(_text(p), data)]


def _found(env: Mapping[str, str], run: Runner) -> Iterator[Found]:
    for path in _units(env):
        name = f"{path.stem}.timer"
        yield Found(kind="systemd", where=name, active=run("systemctl", "--user", "is-active", name).ok)
    if line_for(_table(run), _data(env)) is not None:
        yield Found(kind="cron", where="crontab", active=cron_runs(run) is not False)


def _table(run: Runner) -> str:
    try:
        return crontab(run) or ""
    except ConfigError:
        return ""


def _stale(env: Mapping[str, str], found: Found, spec: TimerSpec, run: Runner) -> bool:
    if found.kind == "cron":
        return line_for(_table(run), spec.variables["GIPPER_DATA"]) != cron_line(spec)
    files = _files(_folder(env), spec)
    return found.where != files[1][0].name or any(_text(path) != text for path, text in files)


def _times(found: Found, run: Runner) -> tuple[str, ...]:
    if found.kind == "cron":
        return ()
    asked = [f"--property={name}" for name in _TIMES]
    return tuple(run("systemctl", "--user", "show", *asked, found.where).out.split("\n")[:2])


def _install_units(folder: Path, spec: TimerSpec, run: Runner) -> None:
    files = _files(folder, spec)
    other = _text(files[0][0])
    if other and not serves(other, spec.variables["GIPPER_DATA"]):
        raise ConfigError(
            f"{files[0][0]} reaps for another data folder with this one's id (was it copied?)",
            hint=f"remove that timer first, or draw a new id: remove {spec.variables['GIPPER_DATA']}"
            "/installation.json while none of its machines runs",
        )
    for path, text in files:
        _write(path, text)
    for words in (("daemon-reload",), ("enable", "--now", f"{spec.unit}.timer")):
        ran = run("systemctl", "--user", *words)
        if not ran.ok:
            raise ConfigError(
                f"systemctl --user {' '.join(words)} failed: {ran.told}",
                hint=f"look at `systemctl --user status {spec.unit}.timer`, then install again",
            )


def _drop(service_file: Path, run: Runner) -> None:
    name = f"{service_file.stem}.timer"
    run("systemctl", "--user", "disable", "--now", name)
    folder = service_file.parent
    # The last one only where systemd didn't answer, so that the next login doesn't look for it.
    for file in (service_file, folder / name, folder / "timers.target.wants" / name):
        _unlink(file)


def _remove_line(env: Mapping[str, str], run: Runner, table: str) -> bool:
    data = _data(env)
    if without_line(table, data) == table:
        return False
    write_crontab(run, without_line(table, data))
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror}", hint="mend its folder") from error


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} can't be removed: {error.strerror}", hint=f"rm {path}") from error
