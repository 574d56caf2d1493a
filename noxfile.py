"""The sessions: what a contributor runs, and what `.ci/run` runs. `nox -l` lists them."""

from __future__ import annotations

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
TEST_TOOLS = ("pytest>=8.3", "pytest-timeout>=2.3", "pytest-xdist>=3.6", "hypothesis>=6.112")
# Most tests wait for processes, not for the processor: more workers than cores.
SIDE_BY_SIDE = ("-n", "4", "--dist", "loadfile")
# Folders of tests that are sessions of their own; `tests` is all the rest.
OWN_SESSIONS = ("e2e", "docs", "bench")


def _install(session: nox.Session, *more: str) -> None:
    """gipper-core, editable, and the tools that tests need."""
    session.install("-e", f"{CORE}[testing]", *TEST_TOOLS, *more)


def _pytest(session: nox.Session, *where: str) -> None:
    session.run(
        "python", "-m", "pytest", "-q", *(session.posargs or where), env={"PYTHONDONTWRITEBYTECODE": "1"}
    )


def _fast() -> list[str]:
    return [*SIDE_BY_SIDE, "-m", "not slow", "tests", *(f"--ignore=tests/{name}" for name in OWN_SESSIONS)]


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
    _pytest(session, *SIDE_BY_SIDE, "-m", "slow", "tests", "--ignore=tests/e2e", "--ignore=tests/docs")


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
    session.run("mypy", "--config-file", str(SETTINGS), str(CORE / "src"))


@nox.session
def minimums(session: nox.Session) -> None:
    """The fast tests with the lowest version of every dependency that gipper-core allows."""
    constraints = Path(session.create_tmp()) / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in lower_bounds()), encoding="utf-8")
    _install(session, "-c", str(constraints))
    session.run("python", "-m", "pip", "list", silent=True)
    _pytest(session, *_fast())


@nox.session
def build(session: nox.Session) -> None:
    """Build the wheel, install it into a bare environment, and use it there."""
    session.install("build>=1.2", "virtualenv>=20.26")
    folder = Path(session.create_tmp())
    shutil.rmtree(folder / "dist", ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(folder / "dist"), str(CORE))
    _use_wheels(session, sorted((folder / "dist").glob("*.whl")), folder / "bare")


def _use_wheels(session: nox.Session, wheels: list[Path], bare: Path) -> None:
    session.run("python", "-m", "virtualenv", "--clear", "-q", str(bare))
    session.run(str(bare / "bin" / "pip"), "install", "-q", *map(str, wheels), external=True)
    gipper = str(bare / "bin" / "gipper")
    env = {"HOME": str(bare), "GIPPER_DATA": str(bare / "data")}
    version = session.run(gipper, "--version", external=True, silent=True, env=env)
    if version is not None and _project()["version"] not in version:
        session.error(f"the installed command says {version!r}")
    session.run(gipper, "plugins", external=True, env=env)


def lower_bounds() -> list[str]:
    """`name==lowest` for every dependency, also the optional ones; a dependency without one is a fault."""
    project = _project()
    optional = project.get("optional-dependencies", {}).values()
    wanted = [*project["dependencies"], *(line for lines in optional for line in lines)]
    pins = [re.fullmatch(r"([A-Za-z0-9._-]+)>=([0-9][0-9.]*)", line) for line in wanted]
    missing = [line for line, pin in zip(wanted, pins, strict=True) if pin is None]
    if missing:
        raise ValueError(f"no plain lower bound: {missing}")
    return [f"{pin[1]}=={pin[2]}" for pin in pins if pin is not None]


def _project() -> dict:
    return tomllib.loads(SETTINGS.read_text(encoding="utf-8"))["project"]
