"""The market Runpod as a provider of gipper."""

from __future__ import annotations

from gipper_runpod.plugin import RunpodProvider

__all__ = ["RunpodProvider"]
