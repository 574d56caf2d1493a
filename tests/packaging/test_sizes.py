"""Modules and functions stay small."""

from __future__ import annotations

import ast
import statistics

from source_tree import FunctionNode, modules

FILE_LINES = 450
FUNCTION_LINES = 60
MEDIAN_LINES = 7
P95_LINES = 30


def _lengths() -> dict[str, int]:
    """Lines of each function, decorators and docstring left out."""
    lengths = {}
    for module in modules().values():
        for node in module.functions():
            doc = node.body[0].end_lineno - node.body[0].lineno + 1 if _has_docstring(node) else 0
            lengths[f"{module.name}:{node.lineno} {node.name}"] = node.end_lineno - node.lineno + 1 - doc
    return lengths


def _has_docstring(node: FunctionNode) -> bool:
    return ast.get_docstring(node, clean=False) is not None


def test_no_file_is_long() -> None:
    """No file is over 450 lines."""
    long = {m.name: len(m.text.splitlines()) for m in modules().values()}
    assert not {name: n for name, n in long.items() if n > FILE_LINES}


def test_no_function_is_long() -> None:
    """No function is over 60 lines."""
    assert not {name: n for name, n in _lengths().items() if n > FUNCTION_LINES}


def test_most_functions_are_short() -> None:
    """The median is at most 7 lines and the 95th percentile at most 30."""
    lengths = list(_lengths().values())
    assert statistics.median(lengths) <= MEDIAN_LINES
    assert statistics.quantiles(lengths, n=20)[-1] <= P95_LINES
