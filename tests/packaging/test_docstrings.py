"""What is public says what it does."""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest
from source_tree import Module, modules

import gipper.api


def _public(module: Module) -> list[ast.ClassDef | ast.FunctionDef]:
    named = [n for n in module.tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))]
    return [n for n in named if not n.name.startswith("_")]


def _is_payload(node: ast.AST) -> bool:
    """A receipt's class is its fields; the kinds have their manual in one table."""
    return isinstance(node, ast.ClassDef) and any(getattr(b, "id", "") == "Payload" for b in node.bases)


@pytest.mark.parametrize("name", sorted(modules()))
def test_modules_and_public_names_have_docstrings(name: str) -> None:
    """A module, and each public function and class in it, has a docstring."""
    module = modules()[name]
    assert ast.get_docstring(module.tree), f"{name} has no docstring"
    bare = [n.name for n in _public(module) if not ast.get_docstring(n) and not _is_payload(n)]
    assert not bare, f"without docstring in {name}: {bare}"


def test_the_plugin_api_is_explained() -> None:
    """Every class and function that plugins may import has a docstring of its own."""
    objects = {n: getattr(gipper.api, n) for n in gipper.api.__all__}
    explained = {
        n: inspect.getdoc(o) for n, o in objects.items() if inspect.isclass(o) or inspect.isfunction(o)
    }
    assert not [n for n, doc in explained.items() if not doc]


def test_every_hook_has_a_manual() -> None:
    """Each hook specification says since which API version it exists."""
    specs = importlib.import_module("gipper.hookspecs")
    hooks = {n: o for n, o in vars(specs).items() if n.startswith("gipper_")}
    assert hooks
    assert not [n for n, o in hooks.items() if "Since " not in (o.__doc__ or "")]
