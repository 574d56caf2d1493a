"""Reads from installed metadata which plugins there are; imports none of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from gipper.plugins.parts import Found, Origin, PluginProblem, normalized, problem

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PROVIDERS: Final = "gipper.providers"
PLUGINS: Final = "gipper.plugins"
GROUPS: Final = (PROVIDERS, PLUGINS)
DISABLED_VARIABLE: Final = "GIPPER_DISABLED_PLUGINS"


@attrs.frozen(kw_only=True)
class Discovered:
    """Entries that may be used, those switched off, and what is wrong with the metadata."""

    found: tuple[Found, ...] = ()
    disabled: tuple[Found, ...] = ()
    problems: tuple[PluginProblem, ...] = ()


def disabled_names(environ: Mapping[str, str]) -> frozenset[str]:
    """The names in GIPPER_DISABLED_PLUGINS: entries or distributions, separated by commas."""
    names = environ.get(DISABLED_VARIABLE, "").split(",")
    return frozenset(n.strip() for n in names if n.strip())


def discover(
    *,
    disabled: Collection[str] = (),
    groups: Sequence[str] = GROUPS,
    path: Sequence[str] | None = None,
) -> Discovered:
    """Every entry of `groups`, in an order that doesn't depend on what was installed when.

    `path` replaces sys.path. A distribution that is seen twice counts once: the first on the path,
    and within one folder the higher version.
    """
    found: list[Found] = []
    problems: list[PluginProblem] = []
    for distribution in _once(_distributions(path)):
        try:
            found.extend(_entries(distribution, groups))
        except Exception as error:  # noqa: BLE001 - one damaged metadata folder must not hide the others
            problems.append(_unreadable(distribution, error))
    ordered = sorted(set(found), key=lambda f: (f.group, f.name, normalized(f.distribution), f.value))
    off = {normalized(n.strip()) for n in disabled}
    return Discovered(
        found=tuple(f for f in ordered if not _switched_off(f, off)),
        disabled=tuple(f for f in ordered if _switched_off(f, off)),
        problems=tuple(problems),
    )


def _switched_off(found: Found, names: Collection[str]) -> bool:
    return normalized(found.name) in names or normalized(found.distribution) in names


def _distributions(path: Sequence[str] | None) -> Iterator[Distribution]:
    from importlib.metadata import distributions

    listed = distributions() if path is None else distributions(path=list(path))
    # Only those that speak of gipper are parsed: reading every METADATA would cost more than the scan.
    return (d for d in listed if "gipper." in (d.read_text("entry_points.txt") or ""))


def _once(distributions: Iterable[Distribution]) -> list[Distribution]:
    kept: dict[str, Distribution] = {}
    for one in distributions:
        name = normalized(_name(one))
        first = kept.setdefault(name, one)
        if _folder(first) == _folder(one) and _version_key(one) > _version_key(first):
            kept[name] = one
    return list(kept.values())


def _entries(distribution: Distribution, groups: Sequence[str]) -> list[Found]:
    name, version = _name(distribution), distribution.version
    return [
        Found(group=e.group, name=e.name, value=e.value.strip(), distribution=name, version=version)
        for e in distribution.entry_points
        if e.group in groups
    ]


def _unreadable(distribution: Distribution, error: Exception) -> PluginProblem:
    name = _name(distribution)
    cause = f"its entry points can't be read ({type(error).__name__}: {error})"
    return problem(Origin(entry=name, distribution=name), cause)


def _name(distribution: Distribution) -> str:
    # A damaged METADATA has no name; the folder's own is then the best there is.
    metadata = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    for line in metadata.splitlines():
        if not line.strip():
            break
        if line.lower().startswith("name:"):
            return line.partition(":")[2].strip()
    return str(getattr(distribution, "_path", "unknown")).rpartition("/")[2].partition("-")[0]


def _folder(distribution: Distribution) -> str:
    return str(distribution.locate_file(""))


def _version_key(distribution: Distribution) -> tuple[tuple[int, int | str], ...]:
    text = distribution.version or ""
    words = "".join(c if c.isalnum() else "." for c in text).split(".")
    return tuple((1, int(w)) if w.isdigit() else (0, w) for w in words)
