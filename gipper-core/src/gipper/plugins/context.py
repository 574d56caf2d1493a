"""What a provider's class is built with; see `gipper.context` for the contract."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from gipper.context import HttpSession
from gipper.errors import ConfigError, PluginError
from gipper.folders import make_private
from gipper.http_clock import MarketTime, ServerClock
from gipper.plugins.urls import base_url
from gipper.runtime import Runtime
from gipper.values.plugins import ProviderInfo

_OWN_ONLY: Final = 0o700


class Keys(Protocol):
    """Where keys come from."""

    def require(self, name: str) -> str:
        """The value of `name`. Raises KeyMissing."""


class Context:
    """One provider's `ProviderContext`. Building it reads and opens nothing.

    `data_folder` is this provider's own folder; `make_http` is called once, at the first `http()`.
    """

    def __init__(
        self,
        info: ProviderInfo,
        settings_table: object,
        runtime: Runtime,
        data_folder: Path,
        keys: Keys,
        make_http: Callable[[], HttpSession],
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._info = info
        self._settings = settings_table
        self._runtime = runtime
        self._folder = data_folder
        self._keys = keys
        self._make_http = make_http
        self._env = env or {}
        self._lock = threading.Lock()
        self._http: HttpSession | None = None

    def __repr__(self) -> str:
        return f"<context of provider {self._info.name}>"

    @property
    def settings(self) -> Any:
        return self._settings

    @property
    def runtime(self) -> Runtime:
        return self._runtime

    @property
    def data_folder(self) -> Path:
        """The folder, made on demand. Raises ConfigError where it can't be made."""
        try:
            make_private(self._folder)
            if self._folder.stat().st_mode & 0o777 != _OWN_ONLY:
                self._folder.chmod(_OWN_ONLY)
        except OSError as error:
            raise ConfigError(
                f"provider {self._info.name}: its folder {self._folder} can't be made ({error.strerror})",
                hint="make it writable, or set GIPPER_DATA to another folder",
            ) from error
        return self._folder

    def secret(self, name: str | None = None) -> str:
        """A key of this provider. Raises KeyMissing, and PluginError for a name that it didn't declare."""
        wanted = self._info.key_name if name is None else name
        if wanted is None or wanted not in self._info.key_names:
            declared = ", ".join(self._info.key_names) or "none"
            raise PluginError(
                f"provider {self._info.name} asks for the key {wanted or '(its own)'}, which its info "
                f"doesn't declare (key_names: {declared})",
                hint="report it to the plugin's author",
            )
        return self._keys.require(wanted)

    def base_url(self, name: str | None = None) -> str:
        known = {base.name: base for base in self._info.base_urls}
        base = known.get(name) if name is not None else next(iter(known.values()), None)
        if base is None:
            raise PluginError(
                f"provider {self._info.name} asks for the base URL {name or '(its first)'}, which its info "
                f"doesn't declare (base_urls: {', '.join(known) or 'none'})",
                hint="report it to the plugin's author",
            )
        return base_url(self._info.name, base, self._settings, self._env)

    def http(self) -> HttpSession:
        with self._lock:
            if self._http is None:
                self._http = self._make_http()
            return self._http

    def market_time(self) -> MarketTime:
        """The market's clock against ours, from its answers so far; needs no answer."""
        clock = getattr(self._http, "clock", None)
        return clock.reading() if isinstance(clock, ServerClock) else MarketTime()
