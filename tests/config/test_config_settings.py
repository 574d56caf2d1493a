"""config.toml: defaults without a file, strict with one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import attrs
import pytest

from gipper import settings
from gipper.errors import ConfigError, ProblemsError
from gipper.values.settings import Settings


@attrs.frozen(kw_only=True)
class AcmeSettings:
    image: str | None = None
    base_url: str = "https://acme.invalid"


TABLES: dict[str, type | None] = {"acme": AcmeSettings, "plain": None}


def load(folder: Path, text: str) -> settings.LoadedSettings:
    file = folder / "config.toml"
    file.write_text(text, encoding="utf-8")
    return settings.load(file, tables=TABLES)


def problems(folder: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(ProblemsError) as caught:
        load(folder, text)
    return caught.value.problems


def test_no_file_means_defaults(tmp_path: Path) -> None:
    """A missing settings file is no mistake."""
    loaded = settings.load(tmp_path / "none.toml", tables=TABLES)
    assert loaded.settings == Settings()
    assert loaded.provider_tables == {}
    assert loaded.notes == ()


def test_values_are_read(tmp_path: Path) -> None:
    """Every kind of value arrives as its class has it, regions in capitals."""
    loaded = load(
        tmp_path,
        'daily_cap_usd = 7.5\nregions = ["us", "US", "ca"]\nproviders = ["acme"]\n[limits]\nchecks = 5\n'
        '[custody]\nrefuse_sensitive = true\n[plugins.prefer]\nacme = "gipper-acme"\n'
        '[provider.acme]\nimage = "a:b"\n',
    )
    assert loaded.settings.daily_cap_usd == Decimal("7.5")
    assert loaded.settings.regions == ("US", "CA")
    assert loaded.settings.limits.checks == 5.0
    assert loaded.settings.custody.refuse_sensitive
    assert loaded.settings.plugins.prefer == {"acme": "gipper-acme"}
    assert loaded.provider_tables["acme"] == AcmeSettings(image="a:b")


@pytest.mark.parametrize("key", ["image", "vast_image"])
def test_an_image_at_the_top_is_sent_to_its_provider(tmp_path: Path, key: str) -> None:
    """The answer names the table in which an image stands."""
    (line,) = problems(tmp_path, f'{key} = "x"')
    assert line.startswith(f"{key}: ")
    assert "[provider.x] image" in line


def test_a_providers_table_at_the_top_is_sent_below_provider(tmp_path: Path) -> None:
    """`[acme]` is answered with `[provider.acme]`."""
    assert problems(tmp_path, "[acme]\nimage = 'x'") == ("acme: unknown key; did you mean [provider.acme]?",)


def test_unknown_keys_and_provider_mistakes_are_in_one_report(tmp_path: Path) -> None:
    """Mistakes of gipper's own keys and of plugins' tables are told together."""
    lines = problems(
        tmp_path,
        "daily_cap = 3\n[safety]\nrequire_watchdogs = true\n"
        "[provider.acme]\nimagee = 'x'\n[provider.plain]\na = 1\n",
    )
    assert lines == (
        "daily_cap: unknown key; did you mean daily_cap_usd?",
        "safety.require_watchdogs: unknown key; did you mean require_watchdog?",
        "provider.acme.imagee: unknown key; did you mean image?",
        "provider.plain.a: unknown key; plain takes no settings",
    )


def test_a_provider_that_is_not_installed_is_a_note(tmp_path: Path) -> None:
    """Settings of a plugin that isn't there are kept and told, not refused."""
    loaded = load(tmp_path, "[provider.acmee]\nx = 1\n")
    assert len(loaded.notes) == 1
    assert "provider.acmee" in loaded.notes[0]
    assert "did you mean acme" in loaded.notes[0]


@pytest.mark.parametrize(
    "line",
    [
        "daily_cap_usd = -1",
        "daily_cap_usd = nan",
        "default_job_cap_usd = 0",
        "default_max_hours = 0",
        "default_max_hours = 1e300",
        'providers = ["Acme"]',
        'providers = ["acme", "acme"]',
        'regions = ["USA"]',
        'cuda_versions = ["12"]',
        'cloud = "secure"',
        "container_disk_gb = 0",
        "history_days = 0",
        "hour_value_usd = true",
        "limits = { kill_grace = -1 }",
        'plugins = { prefer = { acme = "" } }',
    ],
)
def test_values_out_of_range_are_refused(tmp_path: Path, line: str) -> None:
    """A value that makes no sense is told with its key."""
    (told,) = problems(tmp_path, line)
    assert told.startswith(line.partition(" ")[0])


class Lazy(Mapping[str, type | None]):
    """Loads a plugin when its class is asked for; remembers which ones were."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getitem__(self, name: str) -> type | None:
        if name not in TABLES:
            raise KeyError(name)
        self.asked.append(name)
        return TABLES[name]

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __len__(self) -> int:
        return len(TABLES)


def test_only_plugins_that_the_file_names_are_loaded(tmp_path: Path) -> None:
    """Reading settings asks for the class of no provider that has no table there."""
    tables = Lazy()
    (tmp_path / "config.toml").write_text("regions = []\n[provider.acme]\nimage = 'x'\n", encoding="utf-8")
    loaded = settings.load(tmp_path / "config.toml", tables=tables)
    assert loaded.provider_tables == {"acme": AcmeSettings(image="x")}
    assert set(tables.asked) == {"acme"}


def test_a_folder_or_a_broken_link_is_no_missing_file(tmp_path: Path) -> None:
    """Something that is there but can't be read is an error, not the defaults."""
    (tmp_path / "link.toml").symlink_to(tmp_path / "gone.toml")
    for path in (tmp_path, tmp_path / "link.toml"):
        with pytest.raises(ConfigError):
            settings.load(path, tables=TABLES)


def test_d_089_byte_order_mark_in_settings(tmp_path: Path) -> None:
    """A settings file that begins with a byte order mark is read."""
    assert load(tmp_path, "\ufeffhistory_days = 30\n").settings.history_days == 30.0
