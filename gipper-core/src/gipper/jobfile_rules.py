"""What may stand in a job file beyond the types: one rule per key, and the keys that come later."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from gipper import jobfile_places as places
from gipper import strict_rules as rules
from gipper.strict import Checks
from gipper.strict_mistakes import Mistake, quoted, wrong
from gipper.values.jobs import (
    Budget,
    Checkpoint,
    GpuWants,
    Input,
    Job,
    Output,
    Placement,
    Pod,
    Probe,
    RunTable,
    Units,
)

_CAPABILITY: Final = re.compile(r"[0-9]{1,2}\.[0-9]")
_PORT: Final = re.compile(r"(?P<port>[1-9][0-9]{0,4})/(?:tcp|udp)")


@attrs.frozen(kw_only=True)
class Unbuilt:
    """A key, or one of its values, whose feature doesn't exist yet."""

    cls: type
    field: str
    asks: Callable[[Any], bool] = bool


# Take a line out once the feature is built.
UNBUILT: Final = (
    Unbuilt(cls=RunTable, field="stall_minutes", asks=lambda v: v is not None),
    Unbuilt(cls=RunTable, field="on_stall", asks=lambda v: v == "stop"),
)


def job_checks(key_names: Collection[str], unbuilt: Sequence[Unbuilt] = UNBUILT) -> Checks:
    """All rules for single keys. `key_names` are the providers' keys, which no machine may get."""
    checks = {**_machine_checks(key_names), **_work_checks(), **_placement_checks()}
    for entry in unbuilt:
        key = (entry.cls, entry.field)
        checks[key] = rules.every(checks.get(key, lambda _v: ()), _not_yet(entry))
    return checks


def whole_job(job: Job) -> list[Mistake]:
    """Rules that need several keys at once."""
    return [*places.checkpoint_inside(job), *_only_without_prefer(job), *_env_and_secret(job)]


def normalised(job: Job) -> Job:
    """Country codes in capitals; `latency` and `interactive` set each other."""
    gpu = attrs.evolve(job.gpu, regions=rules.upper(job.gpu.regions))
    placement = job.placement
    if placement.objective == "latency" or placement.profile == "interactive":
        placement = attrs.evolve(placement, objective="latency", profile="interactive")
    return attrs.evolve(job, gpu=gpu, placement=placement)


def _machine_checks(key_names: Collection[str]) -> dict[tuple[type, str], rules.Rule]:
    gpu: dict[str, rules.Rule] = {
        "min_mem_gb": rules.number(0, rules.MAX_SIZE),
        "count": rules.number(0, 4096),
        "prefer": rules.every(rules.each(rules.label), rules.once),
        "min_compute_capability": rules.matches(_CAPABILITY, 'a compute capability such as "8.0"'),
        "max_usd_per_h": rules.positive(rules.MAX_USD),
        "regions": rules.region_codes,
        "providers": rules.every(rules.provider_names, _not_empty),
        "cuda_versions": rules.cuda_versions,
    }
    pod: dict[str, rules.Rule] = {
        "image": rules.word,
        "disk_gb": rules.positive(rules.MAX_SIZE),
        "ports": rules.every(rules.each(_port), rules.once),
        "env": rules.every(_variables(key_names), _env_values),
        "secrets": rules.every(rules.each(_variable(key_names)), rules.once),
    }
    return {**rules.fields(GpuWants, gpu), **rules.fields(Pod, pod)}


def _work_checks() -> dict[tuple[type, str], rules.Rule]:
    return {
        **rules.fields(Job, {"name": rules.label, "workload": rules.label, "inputs": places.same_landing}),
        **rules.fields(
            Input,
            {"src": places.local_path, "dst": places.input_place, "exclude": rules.each(places.pattern)},
        ),
        **rules.fields(Output, {"src": places.output_place, "dst": places.local_path}),
        **rules.fields(
            RunTable,
            {
                "command": rules.script,
                "setup": rules.script,
                "stall_minutes": rules.positive(rules.YEAR_H * 60),
            },
        ),
        **rules.fields(Checkpoint, {"src": places.output_place, "every_s": rules.positive(rules.YEAR_S)}),
        **rules.fields(
            Budget, {"max_usd": rules.positive(rules.MAX_USD), "max_hours": rules.positive(rules.YEAR_H)}
        ),
        **rules.fields(Units, {"count": rules.positive(1e18)}),
    }


def _placement_checks() -> dict[tuple[type, str], rules.Rule]:
    seconds, size = rules.number(0, rules.YEAR_S), rules.number(0, rules.MAX_SIZE)
    rate = rules.positive(rules.MAX_SIZE)
    placement: dict[str, rules.Rule] = {
        **dict.fromkeys(("setup_s", "compute_s"), seconds),
        **dict.fromkeys(("upload_gb", "download_gb", "setup_download_gb"), size),
        **dict.fromkeys(("client_upload_mbps", "client_download_mbps", "fallback_mbps"), rate),
        "compute_s_by_gpu": _by_gpu(seconds),
        "transfer_efficiency": rules.positive(1),
        "latency_target": rules.label,
        "client_location": _location,
    }
    probe = dict.fromkeys(("min_up_mbps", "min_down_mbps"), size)
    return {**rules.fields(Placement, placement), **rules.fields(Probe, probe)}


def _not_yet(entry: Unbuilt) -> rules.Rule:
    text = "this version of gipper can't do that yet; leave it out"

    def rule(value: Any) -> Iterator[Mistake]:
        if entry.asks(value):
            yield Mistake(text=f"found {quoted(value)}; {text}" if isinstance(value, str) else text)

    return rule


def _not_empty(names: Sequence[str] | None) -> Iterator[Mistake]:
    if names is not None and not names:
        yield Mistake(text="is empty: no market would be asked; leave it out to ask all")


def _port(text: str) -> Iterator[Mistake]:
    match = _PORT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        yield wrong(text, '"8000/tcp" or "5004/udp", 1 to 65535')


def _variable(key_names: Collection[str]) -> rules.Rule:
    def rule(name: str) -> Iterator[Mistake]:
        if not rules.VARIABLE.fullmatch(name):
            yield wrong(name, "the name of a variable (letters, digits, _)")
        elif name in key_names:
            yield Mistake(text=f"{name} is a provider's key: it never goes to a rented machine")

    return rule


def _variables(key_names: Collection[str]) -> rules.Rule:
    rule = _variable(key_names)
    return lambda env: [m.under(name) for name in env for m in rule(name)]


def _env_values(env: Mapping[str, str]) -> Iterator[Mistake]:
    for name, value in env.items():
        if "\0" in value:
            yield Mistake(path=(name,), text="holds a NUL character; allowed: text without it")


def _by_gpu(rule: rules.Rule) -> rules.Rule:
    return lambda table: [m.under(gpu) for gpu, seconds in table.items() for m in rule(seconds)]


def _location(place: tuple[float, float] | None) -> Iterator[Mistake]:
    if place is not None and not (abs(place[0]) <= 90 and abs(place[1]) <= 180):
        yield Mistake(text=f"found [{place[0]:g}, {place[1]:g}]; allowed: [latitude, longitude] in degrees")


def _only_without_prefer(job: Job) -> Iterator[Mistake]:
    if job.gpu.only and not job.gpu.prefer:
        yield Mistake(path=("gpu", "only"), text="true, but gpu.prefer names no GPU: no offer could fit")


def _env_and_secret(job: Job) -> Iterator[Mistake]:
    for position, name in enumerate(job.pod.secrets):
        if name in job.pod.env:
            yield Mistake(
                path=("pod", "secrets", position), text=f"{name} is in pod.env too; keep one of them"
            )
