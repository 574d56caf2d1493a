"""Which of a row's system images a machine gets. Pure.

An image's name says which CUDA toolkit it brings; its driver runs that version at least, perhaps newer ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import attrs

# Driver, CUDA and Docker are in images of this mark only; a bare system may have none of them.
_READY: Final = "_shade_os"
_CUDA: Final = re.compile(r"cuda(\d{1,2}\.\d{1,2})")


@attrs.frozen(kw_only=True)
class Image:
    """`cuda` is the version that its driver runs at least; None where the name doesn't tell."""

    name: str
    cuda: str | None = None


def chosen(options: Iterable[str], wanted: str | None) -> Image | None:
    """The image named `wanted`, else of those with a driver the one with the newest CUDA; None = no such."""
    names = list(options)
    if wanted is not None:
        return image(wanted) if wanted in names else None
    ready = [image(name) for name in names if name.endswith(_READY)]
    return max(ready, key=lambda one: (_version(one.cuda), one.name), default=None)


def image(name: str) -> Image:
    """What a name tells."""
    found = _CUDA.search(name) if name.endswith(_READY) else None
    return Image(name=name, cuda=found[1] if found else None)


def _version(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (text or "0").split("."))
