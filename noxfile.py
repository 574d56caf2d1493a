"""The sessions: what a contributor runs, and what `.ci/run` runs. `nox -l` lists them."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2024.10"
nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["tests"]
nox.options.error_on_missing_interpreters = True

ROOT = Path(__file__).parent
CORE = ROOT / "gipper-core"
SETTINGS = CORE / "pyproject.toml"
# Every market's distribution; core comes first wherever they are installed.
MARKETS = sorted(p.parent for p in ROOT.glob("gipper-*/pyproject.toml") if p.parent != CORE)
OWN_BOXES = ROOT / "examples" / "gipper-ssh"
# Clients that this project did not write, as published, each in an environment of its own.
OFFICIAL = {
    "OFFICIAL_VASTAI": ("vastai==1.9.1", "vastai"),
    "OFFICIAL_RUNPOD": ("runpod==1.12.0", "python"),
}
# What people already have installed: gipper must fit beside each of them.
NEIGHBOURS = ("vastai", "runpod", "skypilot", "dstack")
# Every market with a key, and its address turned to a port where nothing answers.
NOWHERE = dict.fromkeys(("VAST_URL", "RUNPOD_API_BASE_URL", "SHADEFORM_BASE_URL"), "http://127.0.0.1:9")
NO_KEYS = dict.fromkeys(("VAST_API_KEY", "RUNPOD_API_KEY", "SHADEFORM_API_KEY"), "no-key-of-anybody")
# Exit code of a search in which no market answered.
NONE_ANSWERED = 4
TEST_TOOLS = (
    "pytest>=8.3", "pytest-timeout>=2.3", "pytest-xdist>=3.6", "hypothesis>=6.112", "werkzeug>=3.1",
    "jsonschema>=4.23",
)  # fmt: skip
# Most tests wait for processes, not for the processor: more workers than cores.
SIDE_BY_SIDE = ("-n", "4", "--dist", "loadfile")
# Folders of tests that are sessions of their own; `tests` is all the rest.
OWN_SESSIONS = ("e2e", "docs", "bench", "official", "conformance")


def _install(session: nox.Session, *more: str) -> None:
    """gipper-core and the markets, editable, and the tools that tests need."""
    markets = [word for folder in MARKETS for word in ("-e", str(folder))]
    session.install("-e", f"{CORE}[testing]", *markets, *TEST_TOOLS, *more)


def _pytest(session: nox.Session, *where: str) -> None:
    session.run(
        "python", "-m", "pytest", "-q", *(session.posargs or where), env={"PYTHONDONTWRITEBYTECODE": "1"}
    )


def _fast() -> list[str]:
    return [*SIDE_BY_SIDE, "-m", "not slow", "tests", *_others()]


def _others() -> list[str]:
    """What a session of its own runs, with tools that are installed only there."""
    return [f"--ignore=tests/{name}" for name in OWN_SESSIONS]


@nox.session
def tests(session: nox.Session) -> None:
    """Unit, property and packaging tests, with the interpreter at hand."""
    _install(session)
    _pytest(session, *_fast())


@nox.session
def e2e(session: nox.Session) -> None:
    """`gipper` as a subprocess on the provider `local`: real SSH, real kills; and the slow tests."""
    _install(session)
    _pytest(session, *SIDE_BY_SIDE, "tests/e2e")
    _pytest(session, *SIDE_BY_SIDE, "-m", "slow", "tests", *_others())


@nox.session
def conformance(session: nox.Session) -> None:
    """The suite that plugin authors get, on every provider here, and on deliberately wrong ones."""
    _install(session, "-e", str(OWN_BOXES))
    _pytest(session, *SIDE_BY_SIDE, "tests/conformance")
    _pytest(session, *SIDE_BY_SIDE, str(OWN_BOXES / "tests"))


@nox.session
def official(session: nox.Session) -> None:
    """The markets' own clients, as published, and invented requests, on the emulators."""
    _install(session, "virtualenv>=20.26", "schemathesis>=4.4")
    for variable, (requirement, command) in OFFICIAL.items():
        folder = Path(session.create_tmp()).resolve() / command
        session.run("python", "-m", "virtualenv", "-q", str(folder))
        session.run(str(folder / "bin" / "pip"), "install", "-q", requirement, external=True)
        session.env[variable] = str(folder / "bin" / command)
    _pytest(session, *SIDE_BY_SIDE, "tests/official")


@nox.session
def docs(session: nox.Session) -> None:
    """Run the commands that README and docs show."""
    _install(session)
    _pytest(session, "tests/docs")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure against yardsticks of the same run; arguments select benchmarks by name."""
    _install(session)
    session.run("python", "tests/bench/run.py", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, check and format."""
    session.install("ruff>=0.14")
    session.run("ruff", "check", "--config", str(SETTINGS), "--no-cache", "--output-format", "concise", ".")
    session.run("ruff", "format", "--config", str(SETTINGS), "--no-cache", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """mypy, strict, over all sources."""
    _install(session, "mypy>=1.13", "types-requests", "types-paramiko")
    for folder in (CORE, *MARKETS, OWN_BOXES):
        session.run("mypy", "--config-file", str(SETTINGS), str(folder / "src"))


@nox.session
def minimums(session: nox.Session) -> None:
    """The fast tests with the lowest version of every dependency that the distributions allow."""
    constraints = Path(session.create_tmp()) / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in lower_bounds()), encoding="utf-8")
    _install(session, "-c", str(constraints))
    session.run("python", "-m", "pip", "list", silent=True)
    _pytest(session, *_fast())


@nox.session
def build(session: nox.Session) -> None:
    """Build all wheels; install each market's alone with core, then all together, and use them there."""
    session.install("build>=1.2", "virtualenv>=20.26")
    folder = Path(session.create_tmp())
    shutil.rmtree(folder / "dist", ignore_errors=True)
    wheels = {source.name: _wheel(session, source, folder / "dist") for source in (CORE, *MARKETS, OWN_BOXES)}
    core = wheels.pop(CORE.name)
    _use_wheels(session, [core], folder / "bare", set())
    for name, wheel in wheels.items():
        _use_wheels(session, [core, wheel], folder / "bare", {_provider(name)})
    _use_wheels(session, [core, *wheels.values()], folder / "bare", {_provider(n) for n in wheels})
    _without_one(session, folder / "bare", {_provider(n) for n in wheels})


@nox.session
def beside(session: nox.Session) -> None:
    """Core and one market beside each of the tools that people already use: nothing conflicts."""
    session.install("build>=1.2", "virtualenv>=20.26")
    folder = Path(session.create_tmp())
    shutil.rmtree(folder / "dist", ignore_errors=True)
    core = _wheel(session, CORE, folder / "dist")
    market = _wheel(session, ROOT / "gipper-vast", folder / "dist")
    for neighbour in NEIGHBOURS:
        _use_wheels(session, [core, market], folder / "bare", {"vast"}, neighbour)
        session.run(str(folder / "bare" / "bin" / "pip"), "check", external=True)


def _wheel(session: nox.Session, source: Path, dist: Path) -> Path:
    into = dist / source.name
    session.run("python", "-m", "build", "--outdir", str(into), str(source))
    (wheel,) = into.glob("*.whl")
    return wheel


def _provider(distribution: str) -> str:
    return distribution.removeprefix("gipper-")


def _use_wheels(
    session: nox.Session, wheels: list[Path], bare: Path, providers: set[str], *more: str
) -> None:
    session.run("python", "-m", "virtualenv", "--clear", "-q", str(bare))
    session.run(str(bare / "bin" / "pip"), "install", "-q", *more, *map(str, wheels), external=True)
    version = _gipper(session, bare, "--version")
    if _project(CORE)["version"] not in version:
        session.error(f"the installed command says {version!r}")
    _only(session, bare, providers)


def _without_one(session: nox.Session, bare: Path, providers: set[str]) -> None:
    """Uninstalling a market leaves the rest working."""
    gone = min(providers)
    session.run(str(bare / "bin" / "pip"), "uninstall", "-q", "-y", f"gipper-{gone}", external=True)
    _only(session, bare, providers - {gone})


def _only(session: nox.Session, bare: Path, providers: set[str]) -> None:
    told = json.loads(_gipper(session, bare, "plugins", "--json"))["plugins"]
    found = {row["name"] for row in told if row["kind"] == "provider" and row["state"] == "ok"}
    if found != providers | {"local"}:
        session.error(f"providers {sorted(found)} instead of {sorted(providers)} and local")
    # Own boxes answer without a network, and then not every market failed.
    if providers and _provider(OWN_BOXES.name) not in providers:
        _asks(session, bare, providers)


def _asks(session: nox.Session, bare: Path, markets: set[str]) -> None:
    """`gipper pod gpus` asks the installed markets, and no other."""
    told = _gipper(session, bare, "pod", "gpus", code=NONE_ANSWERED)
    asked = re.search(r"no market could be asked \(([^)]*)\)", told)
    if asked is None or set(asked[1].split(", ")) != markets:
        session.error(f"`gipper pod gpus` should have asked {sorted(markets)}, and says:\n{told}")


def _gipper(session: nox.Session, bare: Path, *words: str, code: int = 0) -> str:
    env = {"HOME": str(bare), "GIPPER_DATA": str(bare / "data"), **NOWHERE, **NO_KEYS}
    command = str(bare / "bin" / "gipper")
    told = session.run(command, *words, external=True, silent=True, env=env, success_codes=[code])
    return str(told)


def lower_bounds() -> list[str]:
    """`name==lowest` for every dependency of all distributions, also the optional ones.

    A dependency without a plain lower bound is a fault; where two distributions differ, the higher holds.
    """
    wanted = [line for folder in (CORE, *MARKETS) for line in _dependencies(_project(folder))]
    wanted = [line for line in wanted if not line.startswith("gipper-core")]
    pins = [re.fullmatch(r"([A-Za-z0-9._-]+)>=([0-9][0-9.]*)", line) for line in wanted]
    missing = [line for line, pin in zip(wanted, pins, strict=True) if pin is None]
    if missing:
        raise ValueError(f"no plain lower bound: {missing}")
    lowest: dict[str, str] = {}
    for pin in filter(None, pins):
        lowest[pin[1]] = max(lowest.get(pin[1], "0"), pin[2], key=_version)
    return [f"{name}=={version}" for name, version in lowest.items()]


def _version(text: str) -> list[int]:
    return [int(part) for part in text.split(".")]


def _dependencies(project: dict) -> list[str]:
    optional = project.get("optional-dependencies", {}).values()
    return [*project["dependencies"], *(line for lines in optional for line in lines)]


def _project(folder: Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
