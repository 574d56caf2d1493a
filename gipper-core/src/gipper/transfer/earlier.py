"""An earlier checkpoint beside the inputs: what inputs put somewhere wins, and is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from gipper.remote import Entry, Manifest
from gipper.transfer.inputs import ORDER, Survey
from gipper.transfer.rules import parents

_FILES_WIN: Final = ("file", "link")


def with_earlier(inputs: Survey, earlier: Survey) -> tuple[Survey, tuple[str, ...]]:
    """Both in one survey, and the paths of `earlier` that aren't sent because of an input."""
    taken = dict(_all(inputs.manifests))
    above = {parent for path in taken for parent in parents(path)}
    bases = {base: list(manifest.entries) for base, manifest in inputs.manifests.items()}
    lost: list[str] = []
    for base, manifest in earlier.manifests.items():
        for entry in manifest.entries:
            path = full(base, entry.path)
            if _fits(entry, path, taken, above):
                bases.setdefault(base, []).append(entry)
            elif not _same(entry, taken.get(path)):
                lost.append(path)
    manifests = {base: _sorted(entries) for base, entries in bases.items()}
    both = attrs.evolve(
        inputs, manifests=manifests, bytes=sum(m.bytes for m in manifests.values()),
        files=sum(m.files for m in manifests.values()), notes=(*inputs.notes, *earlier.notes),
    )  # fmt: skip
    return both, tuple(lost)


def full(base: str, path: str) -> str:
    """Where an entry of the manifest for `base` lies: relative to the work folder, or absolute."""
    return path if base == "." else f"{base.rstrip('/')}/{path}".rstrip("/")


def _all(manifests: Mapping[str, Manifest]) -> Iterator[tuple[str, Entry]]:
    for base, manifest in manifests.items():
        for entry in manifest.entries:
            yield full(base, entry.path), entry


def _fits(entry: Entry, path: str, taken: Mapping[str, Entry], above: set[str]) -> bool:
    if any(parent in taken and taken[parent].type in _FILES_WIN for parent in parents(path)):
        return False
    # Folders that both have are made once.
    return path not in taken and (entry.type == "dir" or path not in above)


def _same(entry: Entry, other: Entry | None) -> bool:
    """True where nothing is lost: a folder of both, or one and the same file here."""
    return other is not None and (entry.type == other.type == "dir" or entry.source == other.source)


def _sorted(entries: list[Entry]) -> Manifest:
    return Manifest(entries=tuple(sorted(entries, key=lambda e: (ORDER[e.type], e.path))))
