"""`Gipper`: one user's settings, keys, plugins and ledger, each made when it is first needed.

No module-level state: two of them in one process don't meet. Everything that costs an import (HTTP, SSH)
is imported by the step that needs it, so that reading the ledger stays quick.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs

from gipper.errors import ConfigError, GipperError, PluginError
from gipper.paths import Paths
from gipper.runtime import RealRuntime, Runtime

if TYPE_CHECKING:
    from gipper.context import HttpSession
    from gipper.installation import Installation
    from gipper.jobfile import LoadedJob
    from gipper.keys import Keys
    from gipper.ledger.store import SqliteLedger
    from gipper.lifecycle.services import Reporter, Services
    from gipper.plugins.common import CommonHooks
    from gipper.plugins.handle import Provider
    from gipper.plugins.parts import LoadedProvider, PluginSet
    from gipper.plugins.registry import Registry
    from gipper.redact import KeyScanner, Redactor
    from gipper.remote import Dialer
    from gipper.settings import LoadedSettings
    from gipper.ssh.keys import KeyPair
    from gipper.values.jobs import Job
    from gipper.values.plugins import ProviderInfo
    from gipper.values.settings import Settings

Note = Callable[[str], None]


class Gipper:
    """Everything that one process of one user works with.

    `note` hears, line by line, what the user should know but didn't ask for. `dialer` stands in for SSH
    in simulations.
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str],
        runtime: Runtime | None = None,
        registry: Registry | None = None,
        dialer: Dialer | None = None,
        note: Note = lambda _text: None,
    ) -> None:
        self.env = dict(env)
        self.paths = Paths.from_env(env)
        self.runtime: Runtime = runtime or RealRuntime()
        self.note = note
        self._registry = registry
        self._dialer = dialer
        self._handles: dict[str, Provider] = {}
        self._job_hooks: tuple[ModuleType, ...] = ()
        self._told = 0

    @classmethod
    def open(cls, env: Mapping[str, str] | None = None, *, note: Note = lambda _text: None) -> Gipper:
        """From the environment of this process."""
        return cls(env=os.environ if env is None else env, note=note)

    @cached_property
    def registry(self) -> Registry:
        """Installed plugins; nothing is imported yet."""
        from gipper.plugins.registry import Registry

        if self._registry is not None:
            return self._registry
        disabled = [d for d in self.env.get("GIPPER_DISABLED_PLUGINS", "").split(",") if d.strip()]
        return Registry.discover(prefer=_preferences(self.paths.config_file), disabled=disabled)

    @cached_property
    def loaded_settings(self) -> LoadedSettings:
        """`config.toml`, checked. Raises ConfigError."""
        from gipper import settings

        loaded = settings.load(self.paths.config_file, tables=_Tables(self, lambda i: i.settings_table))
        for text in loaded.notes:
            self.note(text)
        return loaded

    @property
    def settings(self) -> Settings:
        """The settings' values."""
        return self.loaded_settings.settings

    @cached_property
    def keys(self) -> Keys:
        """Providers' keys and job secrets by name."""
        from gipper.keys import Keys

        return Keys.from_env(self.env, self.paths, editable_checkout=_checkout())

    @cached_property
    def redactor(self) -> Redactor:
        """Knows every key of every provider that was loaded."""
        from gipper.redact import Redactor

        return Redactor()

    @cached_property
    def ledger(self) -> SqliteLedger:
        """The ledger, to be written. Raises LedgerError."""
        from gipper.ledger.store import SqliteLedger

        return SqliteLedger.open(
            self.paths.data_folder, self.runtime, on_note=self.note, run_folder=self.run_folder,
            observers=lambda receipt: self.common.receipt_written(receipt),
        )  # fmt: skip

    @cached_property
    def installation(self) -> Installation:
        """This installation's id."""
        from gipper.installation import installation_id, this_host

        found = installation_id(self.paths.data_folder, host=this_host())
        if found.renewed_from is not None:
            self.note(
                f"this data folder came from another machine (installation {found.renewed_from}): it is "
                f"installation {found.inst} from now on, and leaves the other one's machines alone"
            )
        return found

    @cached_property
    def common(self) -> CommonHooks:
        """The hooks that belong to no market."""
        from gipper.plugins.common import CommonHooks

        return CommonHooks(
            self.runtime, plugins=self.plugin_set, on_note=self.note, redact=self.redactor.text
        )

    @cached_property
    def key_pair(self) -> KeyPair:
        """gipper's own SSH key, made at first use."""
        from gipper.ssh.keys import ensure_key

        return ensure_key(self.paths.keys_folder)

    @cached_property
    def dialer(self) -> Dialer:
        """Opens connections to machines."""
        from gipper.ssh.remote import SshDialer

        return self._dialer or SshDialer(self.runtime, scanner=lambda: self._key_scanner.fresh())

    @cached_property
    def _key_scanner(self) -> KeyScanner:
        from gipper.redact import KeyScanner

        return KeyScanner(self.key_values())

    def run_folder(self, run: str) -> Path:
        """Where a run's own files lie."""
        return self.paths.data_folder / "runs" / run

    def plugin_set(self) -> PluginSet:
        """Modules with hooks that take part beside the providers: gipper's own checks, then the team's."""
        from gipper import builtin
        from gipper.plugins.loading import plugin_set

        team = self.registry.load_team_plugins()
        self._tell_problems()
        return plugin_set(
            builtin=(*builtin.modules(), *builtin.rules()), team=team, job=self._job_hooks
        )  # fmt: skip

    def with_job_hooks(self, modules: Sequence[ModuleType]) -> Gipper:
        """The same user, for one run or estimate of a job with hooks of its own: settings, keys and plugins
        are shared, the providers' handles and who hears of receipts are not."""
        if not modules:
            return self
        _shared = (self.registry, self.loaded_settings, self.keys, self.redactor)
        apart = copy(self)
        apart._handles, apart._job_hooks = {}, tuple(modules)
        for name in ("common", "ledger"):
            vars(apart).pop(name, None)
        return apart

    def services(self, reporter: Reporter) -> Services:
        """What the steps of a run are handed."""
        from gipper.lifecycle.services import Services

        return Services(
            settings=self.settings, ledger=self.ledger, runtime=self.runtime, reporter=reporter,
            redact=self.redactor.text,
        )  # fmt: skip

    def provider(self, name: str) -> Provider:
        """The handle of one provider. Raises ConfigError (not installed) or PluginError (unusable)."""
        if name not in self._handles:
            self._handles[name] = self._handle(self.registry.load_provider(name))
        return self._handles[name]

    def providers(self, names: Sequence[str] | None = None) -> list[Provider]:
        """Handles of `names`, or of all installed ones: of those, an unusable one is told and left out."""
        if names is not None:
            return [self.provider(name) for name in names]
        # A mistake in the settings is everybody's: no provider is left out because of it.
        _ = self.loaded_settings
        usable = []
        for name in self.registry.provider_names():
            try:
                usable.append(self.provider(name))
            except PluginError:
                continue
            except ConfigError as error:
                self.note(f"left out: provider {name}: {error.message}")
        self._tell_problems()
        return usable

    def load_job(self, path: Path) -> LoadedJob:
        """The job file, checked against what is installed. Raises ConfigError."""
        from gipper import jobfile
        from gipper.redact import key_finder

        loaded = jobfile.load(
            path, settings=self.settings, option_tables=_Tables(self, lambda i: i.job_table),
            key_names=self._key_names(), contains_key=key_finder(self.key_values()),
        )  # fmt: skip
        for text in loaded.notes:
            self.note(text)
        return loaded

    def checked(self, job: Job) -> LoadedJob:
        """A job made in Python: resolved, its providers' own tables checked. Raises ProblemsError."""
        from gipper.jobfile import LoadedJob, resolved
        from gipper.strict import report
        from gipper.strict_options import provider_tables

        found = provider_tables({"provider": job.provider}, _Tables(self, lambda i: i.job_table), "options")
        report(f"job {job.name}", found.mistakes)
        for text in found.notes:
            self.note(text)
        return LoadedJob(job=resolved(job, self.settings), notes=found.notes, options=found.options)

    def key_values(self) -> Mapping[str, str]:
        """The values of all installed providers' keys, each known to the redactor."""
        return self.keys.values_of(self._key_names())

    def _key_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for p in self.providers() for name in p.key_names))

    def _handle(self, loaded: LoadedProvider) -> Provider:
        from gipper.plugins.context import Context
        from gipper.plugins.handle import Provider
        from gipper.plugins.urls import on_loopback

        info = loaded.info
        for name, value in self.keys.values_of(info.key_names).items():
            self.redactor.add(value, name)
        folder = self.paths.data_folder / "providers" / info.name
        table = self._table(loaded)
        context = Context(
            info,
            table,
            self.runtime,
            folder,
            self.keys,
            lambda: self._http(info, table),
            env=self.env,
        )
        here = not info.base_urls or on_loopback(info, table, self.env)
        return Provider(
            loaded, context, self.keys, plugins=self.plugin_set, redact=self.redactor.text,
            on_this_computer=here,
        )  # fmt: skip

    def _table(self, loaded: LoadedProvider) -> object:
        tables = self.loaded_settings.provider_tables
        table = loaded.info.settings_table
        return tables.get(loaded.info.name, table() if table is not None else None)

    def _http(self, info: ProviderInfo, table: object) -> HttpSession:
        from gipper.http import make_session
        from gipper.plugins.urls import key_hosts

        return make_session(
            provider=info.name, runtime=self.runtime, redact=self.redactor.text,
            key_hosts=key_hosts(info, table), secret_headers=info.secret_headers,
        )  # fmt: skip

    def _tell_problems(self) -> None:
        problems = self.registry.problems
        for problem in problems[self._told :]:
            self.note(f"left out: {problem}")
        self._told = len(problems)


@attrs.frozen
class _Tables(Mapping[str, Any]):
    """Provider name -> the class of one of its tables; a provider is loaded when its name is asked for."""

    gipper: Gipper
    pick: Callable[[Any], Any]

    def __getitem__(self, name: str) -> Any:
        if name not in self.gipper.registry.provider_names():
            raise KeyError(name)
        try:
            return self.pick(self.gipper.registry.load_provider(name).info)
        except GipperError as error:
            raise KeyError(name) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self.gipper.registry.provider_names())

    def __len__(self) -> int:
        return len(self.gipper.registry.provider_names())


def _preferences(config: Path) -> Mapping[str, str]:
    # Only to choose between plugins before any of them can say what settings are allowed: whatever is
    # wrong with the file is told by the strict reading that follows.
    try:
        prefer = tomllib.loads(config.read_text(encoding="utf-8-sig"))["plugins"]["prefer"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {str(k): str(v) for k, v in prefer.items()} if isinstance(prefer, dict) else {}


def _checkout() -> Path | None:
    """The folder of the checkout that this package runs from, None for an ordinary install."""
    root = Path(__file__).resolve().parents[3]
    return root if (root / "gipper-core" / "pyproject.toml").is_file() else None


def require_sound_ledger(ledger: SqliteLedger) -> None:
    """Raises ConfigError where the ledger is damaged: nothing may be rented then."""
    if ledger.damaged is not None:
        raise ConfigError(
            f"the ledger is damaged, so nothing is rented: {ledger.damaged}",
            hint="look at `gipper ledger verify`; accept the gap with `gipper ledger verify --accept`",
        )
