"""The JSON schema of job files says what the classes and the checker say."""

from __future__ import annotations

import json
import re
import tomllib
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest

from gipper import jobfile
from gipper.schema import job_schema
from gipper.schema_texts import CONSTRAINTS, TEXTS
from gipper.values.settings import Settings

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))


class Size(Enum):
    BIG = "big"


@attrs.frozen(kw_only=True)
class AcmeJob:
    volume: str
    bid: Decimal = Decimal("0.5")
    size: Size = Size.BIG
    mode: Literal["a", "b"] | None = None
    tags: tuple[str, ...] = ()


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """The part of JSON schema that the job schema uses."""
    if "anyOf" in schema and not any(fits(value, s) for s in schema["anyOf"]):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if "type" in schema and not is_kind(value, schema["type"]):
        return False
    if isinstance(value, str):
        return re.search(schema.get("pattern", ""), value) is not None and len(value) >= schema.get(
            "minLength", 0
        )
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (
            value >= schema.get("minimum", value)
            and value <= schema.get("maximum", value)
            and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
        )
    if isinstance(value, list):
        return len(value) >= schema.get("minItems", 0) and all(
            fits(v, schema.get("items", {})) for v in value
        )
    if isinstance(value, dict):
        return fits_table(value, schema)
    return True


def fits_table(value: dict[str, Any], schema: dict[str, Any]) -> bool:
    rest = schema.get("additionalProperties", True)
    names = schema.get("propertyNames", {})
    for key, inner in value.items():
        own = schema.get("properties", {}).get(key, rest)
        if own is False or not fits(key, names) or (own is not True and not fits(inner, own)):
            return False
    return all(key in value for key in schema.get("required", ()))


def is_kind(value: Any, kind: str) -> bool:
    kinds = {"string": str, "boolean": bool, "array": list, "object": dict}
    if kind in kinds:
        return isinstance(value, kinds[kind])
    return isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool)


def every_key(schema: dict[str, Any], path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found = set()
    for key, inner in schema.get("properties", {}).items():
        found |= (
            {(*path, key)} | every_key(inner, (*path, key)) | every_key(inner.get("items", {}), (*path, key))
        )
    return found


def test_every_key_has_a_text_and_every_text_a_key() -> None:
    """Descriptions and bounds are neither missing nor left over."""
    keys = every_key(job_schema({}))
    assert keys == set(TEXTS)
    assert set(CONSTRAINTS) <= keys


def test_it_is_json_with_a_dialect_and_closed_tables() -> None:
    """The schema can be written as JSON, names its dialect, requires name and run, allows no strangers."""
    schema = json.loads(json.dumps(job_schema({})))
    assert schema["$schema"].endswith("2020-12/schema")
    assert set(schema["required"]) == {"name", "run"}
    assert schema["additionalProperties"] is False
    assert "folder" not in schema["properties"]
    assert schema["properties"]["gpu"]["properties"]["count"]["default"] == 1
    assert "default" not in schema["properties"]["name"]


def test_plugins_tables_are_in_it() -> None:
    """An installed provider's own options are described by its class; one without options is closed."""
    tables = job_schema({"acme": AcmeJob, "plain": None})["properties"]["provider"]
    acme = tables["properties"]["acme"]
    assert acme["required"] == ["volume"]
    assert acme["properties"]["bid"] == {"type": "number", "default": 0.5}
    assert acme["properties"]["size"] == {"enum": ["big"], "default": "big"}
    assert acme["properties"]["mode"] == {"enum": ["a", "b"]}
    assert not fits({"plain": {"x": 1}}, tables)
    assert fits({"stranger": {"x": 1}}, tables)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.name)
def test_examples_fit_schema_and_checker(file: Path) -> None:
    """Every example job file is right by the checker and by the schema."""
    assert fits(tomllib.loads(file.read_text(encoding="utf-8")), job_schema({}))
    assert jobfile.load(file, settings=Settings(), option_tables={}).job.name


def test_there_is_an_example() -> None:
    """The examples are found, hello.toml among them."""
    assert "hello.toml" in {f.name for f in EXAMPLES}


@pytest.mark.parametrize(
    "change",
    [
        {"name": 3},
        {"name": ""},
        {"gpuu": {}},
        {"gpu": {"count": 1.5}},
        {"gpu": {"regions": ["USA"]}},
        {"pod": {"ports": ["80"]}},
        {"inputs": [{"dst": "x"}]},
        {"budget": {"max_usd": 0}},
        {"placement": {"transfer_efficiency": 2}},
        {"placement": {"client_location": "here"}},
    ],
)
def test_what_the_checker_refuses_the_schema_refuses(change: dict[str, Any], tmp_path: Path) -> None:
    """Editors underline what the checker would refuse."""
    job = {"name": "x", "run": {"command": "true"}}
    assert fits(job, job_schema({}))
    assert not fits({**job, **change}, job_schema({}))
