"""Countries: codes, the texts of markets, and where countries lie."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gipper.api import country_code
from gipper.countries import SPOKEN, centroid, country_name, is_country, nearest_countries
from gipper.country_places import CENTROIDS
from gipper.strict_rules import region_codes


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Utah, US", "US"), ("Sweden", "SE"), (", NO", "NO"), ("", None), (None, None), ("se", "SE"),
        ("Korea, Republic of", "KR"), ("South Korea", "KR"), ("USA", "US"), ("United Kingdom", "GB"),
        ("  Oslo ,  NORWAY ", "NO"), ("Mars", None), (",", None), ("us-east-1", None), ("Türkiye", "TR"),
        ("Ivory Coast", "CI"), ("Taipei, Taiwan", "TW"), ("Quebec, CA", "CA"),
    ],
)  # fmt: skip
def test_d_012_place_texts_of_markets(text: str | None, code: str | None) -> None:
    """A place text gives its country, or None where it can't be told."""
    assert country_code(text) == code


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    """Whatever a market writes, the answer is a code of the standard or None."""
    found = country_code(text)
    assert found is None or is_country(found)
    assert all(is_country(code) for code in nearest_countries(text))


def test_codes_are_the_standards() -> None:
    """Codes count in either case; reserved and invented ones don't."""
    assert is_country("US") and is_country("us")
    assert not any(map(is_country, ("UK", "EU", "XX", "", "USA")))
    assert country_name("se") == "Sweden"


@pytest.mark.parametrize(
    ("typed", "near"),
    [("UK", ("GB",)), ("Swedn", ("SE",)), ("USA", ("US",)), ("XX", ()), ("Sweden", ("SE",))],
)
def test_the_nearest_code_is_offered(typed: str, near: tuple[str, ...]) -> None:
    """What isn't a code leads to the one that was probably meant, or to none."""
    assert tuple(nearest_countries(typed))[: max(1, len(near))] == near


def test_a_job_s_regions_are_checked() -> None:
    """A region that is no country is a mistake with its position, what was found, and the nearest code."""
    (mistake,) = region_codes(("US", "UK"))
    assert mistake.path == (1,)
    assert '"UK"' in mistake.text and 'did you mean "GB"?' in mistake.text


def test_tables_agree_with_the_standard() -> None:
    """Every spoken name means a code of the standard, every place lies on the globe."""
    assert all(is_country(code) for code in SPOKEN.values())
    assert all(map(is_country, CENTROIDS))
    assert all(-90 <= north <= 90 and -180 <= east <= 180 for north, east in CENTROIDS.values())
    assert len(CENTROIDS) > 180


def test_centroids_are_where_countries_are() -> None:
    """A country's middle, None for what isn't known."""
    north, east = centroid("se") or (0, 0)
    assert 55 < north < 69 and 11 < east < 24
    assert centroid(None) is None and centroid("ZZ") is None


def test_the_library_is_imported_late() -> None:
    """Importing the plugin names doesn't load the list of countries."""
    code = "import sys, gipper.api; raise SystemExit('iso3166' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
