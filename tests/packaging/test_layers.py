"""Which module may import which: the arrows point down, and some libraries have one place each."""

from __future__ import annotations

import ast
from fnmatch import fnmatchcase

import pytest
from source_tree import Module, imports, modules

# From the bottom up; a module imports from its own layer and those before it. A name without a dot
# pattern is that module; "x*" covers modules that were split from x, "x.*" a package's insides.
LAYERS = tuple(
    tuple(line.split())
    for line in (
        "errors runtime scaffold* money naming wire wording outcomes markers values values.*",
        "remote context hookspecs api gpus gpu_table countries country_places rtt http* watchdog bootstrap torch_index",
        "paths folders installation schema* keys settings* strict* redact* job job_* jobfile*"
        " folders ledger ledger.* plugins plugins.* jobhooks*",
        "cost* estimate_wire filters market planning* interactive history*",
        "ssh ssh.* transfer transfer.* lifecycle lifecycle.*",
        "custody custody.* billing billing.* debuglog core core_* accounts diagnosis* launch run providers takeover reaptimer* prooftext",
        "cli cli.* __main__",
    )
)
# Packages beside the layers, and all that they may import of gipper.
BESIDE = {
    # runtime: the machine is a process of its own, which makes its own RealRuntime.
    "builtin": ("api", "runtime", "builtin", "builtin.*"),
    # plugins, http, redact: the contract's checks talk to a provider through core's own handle.
    "testing": (
        *("api", "values", "values.*", "testing", "testing.*", "errors", "runtime", "markers", "money"),
        *("remote", "plugins", "plugins.*", "http", "redact"),
    ),
}
# Libraries that have their own place.
PLACES = {
    "pytest": ("testing", "testing.*"),
    "click": ("cli", "cli.*", "testing.toymarket.*"),
    "rich": ("cli.render",),
    "paramiko": ("ssh", "ssh.*", "builtin.local", "builtin.local.*"),
    "pluggy": ("markers", "plugins", "plugins.*"),
    "cattrs": ("strict*", "settings*", "jobfile*", "job*"),
    "requests": ("http*", "testing.toymarket.*"),
    "sqlite3": ("ledger", "ledger.*"),
    "iso3166": ("countries",),
}
CLOCKS_AND_THREADS = {"time", "concurrent", "asyncio", "multiprocessing", "sched", "_thread"}
OWN_CLOCK = ("runtime", "builtin.local", "builtin.local.*", "testing.sim", "testing.toymarket.*")
PLAIN_LOCKS = {"Lock", "RLock", "get_ident", "current_thread"}
# paramiko brings threads of its own; what meets them may wait for them.
BESIDE_PARAMIKO = ("ssh.*",)
# A setting of an earlier tool, which settings answer with its new name.
FORMER_SETTING = "vast_image"
MARKETS = ("runpod", "vast", "shadeform")


def _short(name: str) -> str:
    return name.removeprefix("gipper").removeprefix(".")


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(_short(name), pattern) for pattern in patterns)


def _layer(name: str) -> int | None:
    return next((i for i, patterns in enumerate(LAYERS) if _fits(name, patterns)), None)


def _beside(name: str) -> str | None:
    return next((p for p in BESIDE if _fits(name, (p, f"{p}.*"))), None)


def _all() -> list[Module]:
    return [m for m in modules().values() if m.name != "gipper"]


def test_every_module_has_a_layer() -> None:
    """A new module must be given its place in the table above."""
    lost = [m.name for m in _all() if _layer(m.name) is None and _beside(m.name) is None]
    assert not lost, f"no layer: {lost}"


def test_arrows_point_down() -> None:
    """No module imports from a layer above its own, not even inside a function."""
    wrong = []
    for module in _all():
        own = _layer(module.name)
        for name in imports(module, typing_too=True) & modules().keys() - {"gipper"}:
            other = _layer(name)
            if own is not None and (other is None or other > own) and not _allowed_beside(own, name):
                wrong.append(f"{module.name} imports {name}")
    assert not wrong, "\n".join(wrong)


def _allowed_beside(own: int, name: str) -> bool:
    """Built-in plugins are loaded by name: only the top layers may know them."""
    return _beside(name) == "builtin" and own >= len(LAYERS) - 2


@pytest.mark.parametrize("package", sorted(BESIDE))
def test_plugins_import_the_public_names_alone(package: str) -> None:
    """Built-in plugins and test helpers use what every plugin author has."""
    wrong = []
    for module in _all():
        if _beside(module.name) == package:
            used = imports(module, typing_too=True) & modules().keys() - {"gipper"}
            wrong += [f"{module.name} imports {name}" for name in used if not _fits(name, BESIDE[package])]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("library", sorted(PLACES))
def test_libraries_have_one_place(library: str) -> None:
    """A library is imported only where the table says; what only type checkers read doesn't count."""
    wrong = [
        m.name
        for m in _all()
        if library in imports(m, typing_too=False) and not _fits(m.name, PLACES[library])
    ]
    assert not wrong, f"{library} is imported by {wrong}"


def test_there_is_one_clock() -> None:
    """No module but the runtime (and local's own machine) imports a clock, a thread pool or an event loop."""
    wrong = [
        f"{m.name} imports {sorted(found)}"
        for m in _all()
        if (found := imports(m, typing_too=True) & CLOCKS_AND_THREADS) and not _fits(m.name, OWN_CLOCK)
    ]
    assert not wrong, "\n".join(wrong)


def test_threading_means_locks() -> None:
    """Outside the runtime and ssh, `threading` is used for plain locks and nothing else."""
    wrong = []
    for module in _all():
        if _fits(module.name, OWN_CLOCK + BESIDE_PARAMIKO):
            continue
        wrong += [f"{module.name}: threading.{name}" for name in _threading_uses(module) - PLAIN_LOCKS]
    assert not wrong, "\n".join(wrong)


def _threading_uses(module: Module) -> set[str]:
    uses = set()
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "threading"
        ):
            uses.add(node.attr)
        if isinstance(node, ast.ImportFrom) and node.module == "threading":
            uses.update(alias.name for alias in node.names)
    return uses


def test_nobody_reads_the_wall_clock() -> None:
    """`datetime.now` and its like are called in the runtime alone."""
    wrong = []
    for module in _all():
        if not _fits(module.name, OWN_CLOCK):
            wrong += [f"{module.name}:{n.lineno}" for n in ast.walk(module.tree) if _reads_clock(n)]
    assert not wrong, f"the wall clock is read in {wrong}"


def _reads_clock(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today")):
        return False
    return isinstance(node.value, ast.Name) and node.value.id in ("datetime", "date")


def test_no_import_cycle() -> None:
    """Modules can be put into an order in which each imports only earlier ones."""
    graph = {m.name: imports(m, typing_too=False) & modules().keys() - {"gipper"} for m in _all()}
    while ready := [name for name, needs in graph.items() if not needs & graph.keys()]:
        for name in ready:
            del graph[name]
    assert not graph, "in a cycle, or above one: " + ", ".join(sorted(graph))


@pytest.mark.parametrize("market", MARKETS)
def test_core_names_no_market(market: str) -> None:
    """Core treats every provider alike; only a plugin knows a market's name."""
    named = [m.name for m in modules().values() if market in m.text.lower().replace(FORMER_SETTING, "")]
    assert not named, f"{market} is named in {named}"
