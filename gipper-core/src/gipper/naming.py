"""Names of installations, runs and machines.

A machine is called ``gipper-<inst>-<run>-<attempt>-<end>``: the name alone says whose it is and when
it should be over, so that any later process can end it. The job's own name is never part of it.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

PREFIX: Final = "gipper-"
# Crockford's base 32 without letters that look like digits; sorts like the numbers that it stands for.
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_RUN_EPOCH: Final = datetime(2024, 1, 1, tzinfo=UTC)
_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICKS_PER_S: Final = 64
_RANDOM_BITS: Final = 12
_NAME: Final = re.compile(
    rf"gipper-(?P<inst>[{_ALPHABET}]{{5}})-(?P<run>[{_ALPHABET}]{{10}})-(?P<attempt>[0-9]{{1,2}})-(?P<end>[0-9a-z]{{5,6}})"
)


@attrs.frozen(kw_only=True)
class MachineName:
    """The parts of a machine's name. `end` is a whole minute, aware UTC."""

    inst: str
    run: str
    attempt: int
    end: datetime

    def __str__(self) -> str:
        minutes = int((self.end - _UNIX_EPOCH) / timedelta(minutes=1))
        return f"{PREFIX}{self.inst}-{self.run}-{self.attempt}-{_digits(minutes, _BASE36, 6)}"

    @classmethod
    def parse(cls, text: str) -> MachineName | None:
        """The parts of `text`, or None where it isn't a name that gipper gives."""
        match = _NAME.fullmatch(text)
        if match is None:
            return None
        end = _UNIX_EPOCH + timedelta(minutes=int(match["end"], 36))
        return cls(inst=match["inst"], run=match["run"], attempt=int(match["attempt"]), end=end)


def round_up_to_minute(moment: datetime) -> datetime:
    """The first whole minute at or after `moment`: a name can't say seconds."""
    floor = moment.replace(second=0, microsecond=0)
    return floor if floor == moment else floor + timedelta(minutes=1)


def new_inst() -> str:
    """A random installation id: 5 characters, 25 bits."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(5))


def new_run_id(now: datetime) -> str:
    """A run id of 10 characters that sorts by time (1/64 s) and ends in 12 random bits.

    Two of one moment may collide: who makes the run's folder exclusively has the id.
    """
    ticks = int((now - _RUN_EPOCH).total_seconds() * _TICKS_PER_S)
    return _digits((ticks << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS), _ALPHABET, 10)


def is_run_id(text: str) -> bool:
    """True where `text` has the shape of a run id."""
    return len(text) == 10 and all(c in _ALPHABET for c in text)


def _digits(number: int, alphabet: str, width: int) -> str:
    out = ""
    while number:
        number, rest = divmod(number, len(alphabet))
        out = alphabet[rest] + out
    return out.rjust(width, alphabet[0])
