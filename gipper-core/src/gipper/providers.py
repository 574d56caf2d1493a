"""`load(name)`: the handle of one provider, built from this user's settings and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gipper.plugins.handle import Provider


def load(name: str) -> Provider:
    """The provider called `name`, with everything taken from the environment.

    Raises ConfigError where none of that name is installed, PluginError where it can't be used.
    """
    from gipper.core import Gipper

    return Gipper.open().provider(name)
