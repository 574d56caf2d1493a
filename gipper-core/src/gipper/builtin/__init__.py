"""gipper's own plugins. They use what every plugin author has, `gipper.api`, and nothing else."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

# In the order in which they are made: what costs least and tells most comes first.
CHECKS: Final = ("gpu", "cuda", "kernel", "capacity", "probe")
# What looks at a job's inputs before anything is rented.
RULES: Final = ("sensitive",)


def modules() -> tuple[ModuleType, ...]:
    """The modules of the built-in preflight checks, in order."""
    return tuple(import_module(f"{__name__}.checks.{name}") for name in CHECKS)


def rules() -> tuple[ModuleType, ...]:
    """The modules of the built-in rules for inputs."""
    return tuple(import_module(f"{__name__}.{name}") for name in RULES)
