"""Provider `local`: a "machine" is a process of its own on this computer with a folder and an SSH server."""

from __future__ import annotations

from gipper.builtin.local.provider import LocalProvider

__all__ = ["LocalProvider"]
