"""The two pluggy markers; everything that marks or specifies a hook uses these."""

from __future__ import annotations

from typing import Final

import pluggy

PROJECT: Final = "gipper"
hookspec: Final = pluggy.HookspecMarker(PROJECT)
hookimpl: Final = pluggy.HookimplMarker(PROJECT)
