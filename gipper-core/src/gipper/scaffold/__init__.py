"""A new plugin's repository from templates: `gipper plugin new`."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, Literal

from gipper import __version__
from gipper.errors import ConfigError

Kind = Literal["provider", "checks"]
_NAME: Final = re.compile(r"[a-z][a-z0-9]{1,19}")
_SUFFIX: Final = ".tmpl"


def plan(name: str, kind: Kind, year: int) -> dict[str, str]:
    """Relative path -> text of every file of the new repository. Raises ConfigError for a bad name."""
    check_name(name, kind)
    words = {
        "{{name}}": name, "{{NAME}}": name.upper(), "{{Class}}": name.capitalize(),
        "{{Title}}": name.capitalize(), "{{core}}": __version__, "{{year}}": str(year),
    }  # fmt: skip
    found = {}
    for place in ("common", kind):
        for path, text in _templates(files(__package__) / place, ""):
            found[path.replace("NAME", name)] = _filled(text, words)
    found[f"src/gipper_{name}/py.typed"] = ""
    return dict(sorted(found.items()))


def write(folder: Path, texts: dict[str, str]) -> None:
    """Write the files below `folder`. Raises ConfigError where it isn't new or empty, or can't be written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already", hint="name another folder with --folder")
    try:
        for path, text in texts.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{error.filename or folder} can't be written: {error.strerror}") from error


def check_name(name: str, kind: Kind) -> None:
    """Raises ConfigError for a name that can't be a plugin's, or is one already."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigError(
            f"{name!r} can't be a plugin's name",
            hint="2 to 20 of a-z and 0-9, a letter first: gipper plugin new acme",
        )
    group = "gipper.providers" if kind == "provider" else "gipper.plugins"
    taken = name == "core" or any(e.name == name for e in entry_points(group=group))
    if taken:
        raise ConfigError(f"a plugin called {name!r} is installed already", hint="gipper plugins")


def _filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _templates(place: Traversable, below: str) -> Iterator[tuple[str, str]]:
    for entry in place.iterdir():
        if entry.is_dir():
            yield from _templates(entry, f"{below}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield below + entry.name.removesuffix(_SUFFIX), entry.read_text(encoding="utf-8")
