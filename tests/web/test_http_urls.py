"""Which URLs may be asked, and how long a repeated read waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gipper.errors import ConfigError
from gipper.http_retry import MAX_WAIT_S, TRIES, http_date, pause_for, retry_after
from gipper.http_text import LINE_MAX, one_line
from gipper.http_urls import check_base_url, is_loopback, refusal

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.acme.test/v1",
        "https://acme.test",
        "http://127.0.0.1:80/x",
        "http://[::1]:9",
        "http://localhost",
    ],
)
def test_these_may_be_asked(url):
    """The market's own hosts over https, and loopback over either."""
    assert refusal(url, {"acme.test"}) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://api.acme.test",
        "https://evilacme.test",
        "https://acme.test.evil.example",
        "https://user:pw@acme.test",
        "ftp://127.0.0.1",
        "https://",
        "acme.test",
        "",
        "https://[::1",
        "https://acme.test:99999",
        "http://127.0.0.1.evil.example",
    ],
)
def test_these_may_not_be_asked(url):
    """Plain http, look-alike hosts, logins in the URL and what isn't one are refused with a reason."""
    assert refusal(url, {"acme.test"})
    with pytest.raises(ConfigError, match="ACME_URL"):
        check_base_url(url, source="ACME_URL", allowed_hosts={"acme.test"})


def test_any_https_host_may_come_from_the_settings():
    """Without a list of hosts https alone decides; the last slash goes."""
    assert check_base_url("https://x.example/v1/", source="config.toml") == "https://x.example/v1"


@pytest.mark.parametrize(
    ("host", "expected"), [("127.8.9.1", True), ("::1", True), ("10.0.0.1", False), (None, False)]
)
def test_loopback_is_told_without_a_lookup(host, expected):
    """Addresses decide by themselves."""
    assert is_loopback(host) is expected


@given(st.text(), st.integers(0, TRIES), st.sampled_from([429, 502, 503, 504, 500, 200]))
def test_pauses_are_bounded_whatever_the_header_says(value, attempt, status):
    """No header makes a wait negative, endless or longer than the cap."""
    pause = pause_for(status, {"Retry-After": value}, "", attempt, NOW)
    assert pause is None or 0 <= pause <= MAX_WAIT_S


def test_a_date_in_retry_after_counts_from_now():
    """Both forms of Retry-After are understood."""
    later = format_datetime(NOW + timedelta(seconds=7), usegmt=True)
    assert retry_after(later, NOW) == 7
    assert retry_after("1.5", NOW) == 1.5
    assert retry_after("soon", NOW) is None
    assert retry_after("inf", NOW) is None


@given(st.text())
def test_dates_never_raise(value):
    """A Date is a moment or nothing."""
    moment = http_date(value)
    assert moment is None or moment.tzinfo is not None


@given(st.text(max_size=500), st.sampled_from(["text/html", "application/json", ""]))
def test_one_line_is_one_printable_line(text, kind):
    """Whatever a body holds, what is shown is short and on one line."""
    line = one_line(kind, text)
    assert len(line) <= LINE_MAX + len("a web page: ")
    assert "\n" not in line
    assert "\x1b" not in line
