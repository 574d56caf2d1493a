"""The market Shadeform as a provider of gipper."""

from __future__ import annotations

from gipper_shadeform.plugin import ShadeformProvider

__all__ = ["ShadeformProvider"]
