"""The market's clock: learnt from its answers, doubted where it can't be true."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from gipper.http_clock import KEEP, MarketTime, ServerClock

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def heard(*answers: tuple[float, float]) -> MarketTime:
    """What a clock says after answers of (our seconds, market's seconds ahead)."""
    clock = ServerClock()
    for at, ahead in answers:
        ours = NOW + timedelta(seconds=at)
        told = format_datetime(ours + timedelta(seconds=ahead), usegmt=True)
        clock.note({"Date": told}, ours, ours, at)
    return clock.reading()


def test_a_market_that_says_no_time_has_ours():
    """Without any answer our own time counts, and surely."""
    assert heard() == MarketTime(ahead=timedelta(0), sure=True)


@pytest.mark.parametrize("ahead", [-590, -30, 0, 45, 590])
def test_up_to_ten_minutes_one_answer_is_believed(ahead):
    """A small offset is taken as it is told."""
    reading = heard((0, ahead))
    assert reading.sure
    assert abs(reading.ahead.total_seconds() - ahead) <= 1


@pytest.mark.parametrize(
    ("answers", "sure"),
    [
        ([(0, 7200)], False),
        ([(0, 7200), (4.9, 7200)], False),
        ([(0, 7200), (5, 7200)], True),
        ([(0, 7200), (9, 7300)], False),
        ([(0, 7200), (9, -7200)], False),
        ([(0, 7200), (3, 7200), (6, 7230)], True),
        ([(0, -90000), (20, -90010)], True),
    ],
)
def test_beyond_ten_minutes_two_answers_must_agree(answers, sure):
    """A large offset counts only if an answer at least 5 s earlier said the same within a minute."""
    assert heard(*answers).sure is sure


def test_a_burst_of_answers_doesn_t_push_out_the_early_one():
    """Many answers within a second leave the one that is 5 s older remembered."""
    burst = [(6 + n / 100, 7200.0) for n in range(KEEP - 1)]
    assert heard((0, 7200), *burst).sure
