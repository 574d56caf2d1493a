"""The market Vast.ai as a provider of gipper."""

from __future__ import annotations

from gipper_vast.plugin import VastProvider

__all__ = ["VastProvider"]
