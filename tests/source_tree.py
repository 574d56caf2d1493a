"""The sources of gipper-core as syntax trees, for tests about the code itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "gipper-core" / "src"

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file. `name` is dotted, a package's own name stands for its `__init__`."""

    name: str
    path: Path
    text: str
    tree: ast.Module = field(repr=False, compare=False)

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    def functions(self) -> Iterator[FunctionNode]:
        """Every function and method, nested ones too."""
        return (n for n in ast.walk(self.tree) if isinstance(n, FunctionNode))


@cache
def modules() -> dict[str, Module]:
    """Every module of the distribution by name."""
    return {m.name: m for m in map(_load, sorted((SOURCE / "gipper").rglob("*.py")))}


def imports(module: Module, *, typing_too: bool) -> set[str]:
    """What `module` imports, inside functions too: names of gipper's modules, and top-level names of others.

    `typing_too` counts what is imported for type checkers alone.
    """
    found: set[str] = set()
    for node in _walk(module.tree, typing_too):
        if isinstance(node, ast.Import):
            found.update(_resolved(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            found.update(_resolved(f"{base}.{alias.name}") for alias in node.names)
    return found - {module.name}


def _load(path: Path) -> Module:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text(encoding="utf-8")
    return Module(name=name, path=path, text=text, tree=ast.parse(text))


def _walk(node: ast.AST, typing_too: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test) and not typing_too:
            for other in child.orelse:
                yield from _walk(other, typing_too)
            continue
        yield child
        yield from _walk(child, typing_too)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.name if module.is_package else module.name.rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{node.module}" if node.module else package


def _resolved(name: str) -> str:
    """The gipper module that `name` (a module, or something in one) belongs to, else the top-level name."""
    if name.partition(".")[0] != "gipper":
        return name.partition(".")[0]
    while name not in modules() and "." in name:
        name = name.rpartition(".")[0]
    return name
