"""A job as plain JSON values and back: for the run's receipt, and for the copy in the run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

import attrs

from gipper import jobfile_places as places
from gipper.errors import ConfigError
from gipper.redact import REDACTED, Redactor, token_shapes
from gipper.strict import structure
from gipper.values.jobs import Job

SCHEMA: Final = 1
# Times are the one thing that TOML has and JSON lacks; they can stand in a provider's own table only.
_TIME: Final = "$time"
_TIMES: Final[Mapping[str, type[datetime] | type[date] | type[time]]] = {
    "datetime": datetime,
    "date": date,
    "time": time,
}
_DOLLARS: Final = (("gpu", "max_usd_per_h"), ("budget", "max_usd"))


def absolute(job: Job) -> Job:
    """`job` with absolute local paths: it works from anywhere."""
    inputs = tuple(attrs.evolve(i, src=places.absolute(i.src, job.folder)) for i in job.inputs)
    outputs = tuple(
        o if o.dst is None else attrs.evolve(o, dst=places.absolute(o.dst, job.folder)) for o in job.outputs
    )
    return attrs.evolve(job, inputs=inputs, outputs=outputs)


def to_mapping(job: Job) -> dict[str, Any]:
    """`absolute(job)` as JSON values; dollars are text. Secrets are names in it, as in the job."""
    plain = attrs.asdict(absolute(job), recurse=True, value_serializer=lambda _i, _f, v: _plain(v))
    return {"schema": SCHEMA, **plain}


def from_mapping(data: Mapping[str, Any]) -> Job:
    """The inverse: `from_mapping(to_mapping(job)) == absolute(job)`. Raises ConfigError for a newer
    schema, ProblemsError for what no `to_mapping` wrote."""
    schema = data.get("schema")
    if schema != SCHEMA:
        raise ConfigError(
            f"the stored job has schema {schema!r}, this gipper reads {SCHEMA}", hint="use a newer gipper"
        )
    rest = {k: _restored(v) for k, v in data.items() if k not in ("schema", "folder")}
    for table, key in _DOLLARS:
        rest[table] = _with_dollars(rest.get(table, {}), key)
    return structure(Job, rest, where="the stored job", given={"folder": Path(str(data.get("folder", "/")))})


def for_receipt(job: Job, redactor: Redactor) -> dict[str, Any]:
    """`to_mapping` for eyes: known values and token shapes are replaced everywhere, and `pod.env` keeps
    its names only. Not to be read back."""
    mapping = to_mapping(job)
    mapping["pod"]["env"] = dict.fromkeys(mapping["pod"]["env"], REDACTED)
    shown = redactor.value(_shapes(mapping))
    return dict(shown)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (datetime, date, time)):
        return {_TIME: [type(value).__name__, value.isoformat()]}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    return value


def _restored(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _time(value) or {k: _restored(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_restored(v) for v in value]
    return value


def _time(value: Mapping[str, Any]) -> datetime | date | time | None:
    match value:
        case {"$time": [str(kind), str(text)]} if len(value) == 1 and kind in _TIMES:
            try:
                return _TIMES[kind].fromisoformat(text)
            except ValueError:
                return None
    return None


def _with_dollars(table: Any, key: str) -> Any:
    if not isinstance(table, Mapping) or not isinstance(table.get(key), str):
        return table
    try:
        return {**table, key: Decimal(table[key])}
    except InvalidOperation:
        return table


def _shapes(value: Any) -> Any:
    if isinstance(value, str):
        return token_shapes(value)
    if isinstance(value, dict):
        return {k: _shapes(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_shapes(v) for v in value]
    return value
