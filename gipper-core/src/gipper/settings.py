"""`config.toml`: strict like the job file, and every key may be left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from gipper import strict_rules as rules
from gipper.strict import Checks, collect, report
from gipper.strict_mistakes import Mistake, wrong
from gipper.strict_options import provider_tables
from gipper.strict_toml import read_toml
from gipper.values.settings import Limits, PluginChoices, Settings

_FORMER: Final = ("image", "vast_image")


@attrs.frozen(kw_only=True)
class LoadedSettings:
    """Checked settings. `provider_tables` are the `[provider.NAME]` tables of the file as the classes that
    their plugins declare; no entry where the file has no table."""

    settings: Settings = attrs.field(factory=Settings)
    notes: tuple[str, ...] = ()
    provider_tables: Mapping[str, object] = attrs.field(factory=dict)


def load(path: Path, *, tables: Mapping[str, type | None]) -> LoadedSettings:
    """The settings in the file `path`; the defaults where there is none.

    `tables` maps every installed provider to the class of its `[provider.NAME]` table (None: it takes no
    settings). Raises ConfigError where the file can't be read, ProblemsError with all mistakes in it.
    """
    data = _read(path)
    former = [*_image_at_top(data), *_provider_at_top(data, tables)]
    left = {k: v for k, v in data.items() if (k,) not in {m.path for m in former}}
    found = collect(Settings, left, checks=_checks())
    options = provider_tables(data, tables, "settings")
    report(str(path), [*former, *found.mistakes, *options.mistakes], hint=f"mend {path}")
    settings: Settings = found.value
    settings = attrs.evolve(settings, regions=rules.upper(settings.regions) or ())
    return LoadedSettings(settings=settings, notes=options.notes, provider_tables=options.options)


def _read(path: Path) -> dict[str, Any]:
    # A broken link is no missing file: its owner meant something by it.
    return read_toml(path, "settings file") if path.exists() or path.is_symlink() else {}


def _image_at_top(data: Mapping[str, Any]) -> Iterator[Mistake]:
    for key in _FORMER:
        if key in data:
            yield Mistake(path=(key,), text="each provider has its own; write it as [provider.x] image")


def _provider_at_top(data: Mapping[str, Any], tables: Mapping[str, type | None]) -> Iterator[Mistake]:
    for key in data:
        if key in tables:
            yield Mistake(path=(key,), text=f"unknown key; did you mean [provider.{key}]?")


def _checks() -> Checks:
    money, seconds = rules.number(0, rules.MAX_USD), rules.number(0, rules.YEAR_S)
    own = {
        **dict.fromkeys(("daily_cap_usd", "hour_value_usd", "failure_cost_usd"), money),
        "default_job_cap_usd": rules.positive(rules.MAX_USD),
        "default_max_hours": rules.positive(rules.YEAR_H),
        "container_disk_gb": rules.positive(rules.MAX_SIZE),
        "checkpoint_every_s": rules.positive(rules.YEAR_S),
        "history_days": rules.positive(36_500),
        "providers": rules.provider_names,
        "regions": rules.region_codes,
        "cuda_versions": rules.cuda_versions,
    }
    limits = {field.name: seconds for field in attrs.fields(Limits)}
    return {
        **rules.fields(Settings, own),
        **rules.fields(Limits, limits),
        **rules.fields(PluginChoices, {"prefer": _preferences}),
    }


def _preferences(prefer: Mapping[str, str]) -> Iterator[Mistake]:
    for name, distribution in prefer.items():
        if not distribution.strip():
            yield wrong(distribution, "the name of a distribution", name)
