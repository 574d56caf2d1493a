"""Fake distributions on disk, fake providers in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gipper.errors import KeyMissing
from gipper.markers import hookimpl
from gipper.plugins.handle import Provider
from gipper.plugins.loading import load_module, plugin_set
from gipper.plugins.parts import Origin
from gipper.plugins.registry import Registry
from gipper.runtime import RealRuntime
from gipper.values.jobs import Job, RunTable
from gipper.values.machines import Machine, RentRequest
from gipper.values.offers import Listing, Offer, OfferQuery
from gipper.values.plugins import ProviderInfo

VERBS = {
    "gipper_provider": """
    @staticmethod
    @hookimpl
    def gipper_provider():
        return ProviderInfo(name={name!r}, title="Acme", api={api})
""",
    "gipper_list_offers": """
    @hookimpl
    def gipper_list_offers(self, query):
        return Listing(items=())
""",
    "gipper_rent": """
    @hookimpl
    def gipper_rent(self, offer, request):
        return Machine(provider={name!r}, id="1", name=request.name)
""",
    "gipper_describe": """
    @hookimpl
    def gipper_describe(self, machine_id):
        return None
""",
    "gipper_list_ours": """
    @hookimpl
    def gipper_list_ours(self):
        return Listing(items=())
""",
    "gipper_terminate": """
    @hookimpl
    def gipper_terminate(self, machine_id):
        return None
""",
}


def provider_source(
    name: str = "acme", *, api: int = 1, replace: Mapping[str, str] | None = None, extra: str = ""
) -> str:
    """A provider's module; `replace` swaps single verbs, an empty text leaves one out."""
    verbs = {**VERBS, **(replace or {})}
    body = "".join(text.replace("{name!r}", repr(name)).replace("{api}", str(api)) for text in verbs.values())
    return (
        "from gipper.api import Listing, Machine, ProviderInfo, hookimpl\n\n\n"
        "class P:\n    def __init__(self, context):\n        self.context = context\n" + body + extra
    )


@pytest.fixture(name="provider_source")
def _provider_source() -> Callable[..., str]:
    return provider_source


Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a distribution on sys.path; returns its folder. Its modules are forgotten at the end."""
    before = set(sys.modules)

    def put(
        distribution: str,
        version: str = "1.0",
        *,
        providers: Mapping[str, str] | None = None,
        plugins: Mapping[str, str] | None = None,
        modules: Mapping[str, str] | None = None,
        folder: str = "site",
        entry_points: str | None = None,
    ) -> Path:
        site = tmp_path / folder
        info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        groups = {"gipper.providers": providers or {}, "gipper.plugins": plugins or {}}
        text = "".join(
            f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in entries.items())
            for group, entries in groups.items()
        )
        (info / "entry_points.txt").write_text(text if entry_points is None else entry_points)
        for name, source in (modules or {}).items():
            (site / f"{name}.py").write_text(source)
        if str(site) not in sys.path:
            monkeypatch.syspath_prepend(str(site))
        return site

    yield put
    for name in set(sys.modules) - before:
        if name.startswith("fake_"):
            del sys.modules[name]


def module(name: str, **hooks: object) -> ModuleType:
    """A module of hooks in memory."""
    made = ModuleType(name)
    for hook, function in hooks.items():
        setattr(made, hook, function)
    return made


@pytest.fixture(name="module")
def _module() -> Callable[..., ModuleType]:
    return module


class FakeKeys:
    def __init__(self, **values: str) -> None:
        self._values = values

    def require(self, name: str) -> str:
        if not self._values.get(name):
            raise KeyMissing(f"{name} is not set")
        return self._values[name]


@pytest.fixture
def keys() -> type[FakeKeys]:
    return FakeKeys


class FakeContext:
    """A context that hands out nothing."""

    settings = None
    runtime = RealRuntime()


def provider_class(name: str = "acme", info: Mapping[str, Any] | None = None, **verbs: Any) -> type:
    """A provider's class whose verbs are `verbs` by short name (`rent=lambda self, offer, request: ...`)."""

    class Fake:
        def __init__(self, context: object) -> None:
            self.context = context

        @staticmethod
        @hookimpl
        def gipper_provider() -> ProviderInfo:
            return ProviderInfo(name=name, title=name.title(), **(info or {}))

        @hookimpl
        def gipper_list_offers(self, query: OfferQuery) -> Listing[Offer]:
            return Listing(items=())

        @hookimpl
        def gipper_rent(self, offer: Offer, request: RentRequest) -> Machine:
            return Machine(provider=name, id="m1", name=request.name)

        @hookimpl
        def gipper_describe(self, machine_id: str) -> Machine | None:
            return None

        @hookimpl
        def gipper_list_ours(self) -> Listing[Machine]:
            return Listing(items=())

        @hookimpl
        def gipper_terminate(self, machine_id: str) -> None:
            return None

    for verb, function in verbs.items():
        setattr(Fake, f"gipper_{verb}", hookimpl(function))
    return Fake


@pytest.fixture(name="provider_class")
def _provider_class() -> Callable[..., type]:
    return provider_class


def make_provider(
    cls: type | None = None,
    *,
    builtin: Sequence[ModuleType] = (),
    team: Sequence[ModuleType] = (),
    job: Sequence[ModuleType] = (),
    keys: FakeKeys | None = None,
    redact: Callable[[str], str] = str,
    **verbs: Any,
) -> Provider:
    """A handle of a fake provider with these modules around it."""
    loaded = Registry().add_provider(
        cls or provider_class(**verbs), distribution="gipper-acme", version="1.2"
    )
    teams = [
        load_module(m, Origin(entry=m.__name__, distribution=f"gipper-{m.__name__}", version="3.0"), "team")
        for m in team
    ]
    return Provider(
        loaded,
        FakeContext(),  # type: ignore[arg-type]
        keys or FakeKeys(),
        plugins=lambda: plugin_set(builtin=builtin, team=teams, job=job),
        redact=redact,
    )


@pytest.fixture(name="make_provider")
def _make_provider() -> Callable[..., Provider]:
    return make_provider


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(name="t", run=RunTable(command="true"), folder=tmp_path)


@pytest.fixture
def offer() -> Offer:
    return Offer(provider="acme", id="o1", usd_h=Decimal("1.5"))


@pytest.fixture
def request_() -> RentRequest:
    end = datetime(2026, 1, 1, tzinfo=UTC)
    return RentRequest(
        name="gipper-abcde-0123456789-1-0abcde", public_key="k", end=end, boot_watchdog_s=60, timer_at=end
    )
