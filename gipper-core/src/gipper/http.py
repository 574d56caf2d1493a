"""The HTTP session that plugins get: requests' verbs, without its surprises.

Certificates are always checked; https only, but for loopback. Reads are repeated where that helps,
everything else is sent exactly once. A key never follows a redirect to another host, and is in no
exception, `repr` or log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

from gipper.errors import ProviderError
from gipper.http_clock import ServerClock
from gipper.http_errors import HttpLost, HttpStatus, HttpUnsent, NotJson
from gipper.http_retry import TRIES, pause_after, pause_for
from gipper.http_send import Sender
from gipper.http_text import Redact, body_text, is_html, one_line
from gipper.http_urls import origin, refusal, shown
from gipper.runtime import Runtime

if TYPE_CHECKING:
    import requests

__all__ = ["HttpLost", "HttpStatus", "HttpUnsent", "NotJson", "ProviderSession", "json_of", "make_session"]

CONNECT_S: Final = 10.0
READ_S: Final = 30.0
MAX_REDIRECTS: Final = 5
_READS: Final = frozenset({"GET", "HEAD"})
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_KEY_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key"})


def make_session(
    *,
    provider: str,
    runtime: Runtime,
    redact: Redact,
    allowed_hosts: Collection[str] | None = None,
    secret_headers: Collection[str] = (),
    timeout: tuple[float, float] = (CONNECT_S, READ_S),
) -> ProviderSession:
    """A session for one provider. `timeout` is (connect, read) seconds; `allowed_hosts` narrows where
    it may go (None: any https host); `secret_headers` are header names that hold keys."""
    return ProviderSession(
        provider=provider,
        runtime=runtime,
        redact=redact,
        allowed_hosts=allowed_hosts,
        secret_headers=frozenset(h.casefold() for h in secret_headers) | _KEY_HEADERS,
        timeout=timeout,
    )


class ProviderSession:
    """See `make_session`. Satisfies `gipper.context.HttpSession`; may be shared by threads."""

    def __init__(
        self,
        *,
        provider: str,
        runtime: Runtime,
        redact: Redact,
        allowed_hosts: Collection[str] | None,
        secret_headers: frozenset[str],
        timeout: tuple[float, float],
    ) -> None:
        self._provider = provider
        self._runtime = runtime
        self._redact = redact
        self._allowed = allowed_hosts
        self._secret_headers = secret_headers
        self._timeout = timeout
        self._sender = Sender(provider)
        self.clock = ServerClock()

    def __repr__(self) -> str:
        return f"<http session of {self._provider}>"

    @property
    def offset_s(self) -> float | None:
        """Seconds that the market's clock is ahead of ours; None before an answer told the time."""
        return self.clock.offset_s

    def mount(self, prefix: str, adapter: requests.adapters.BaseAdapter) -> None:
        """As `requests.Session.mount`: another transport for URLs that begin with `prefix`."""
        self._sender.session.mount(prefix, adapter)

    def request(
        self,
        method: str,
        url: str,
        *,
        read: bool | None = None,
        expect: Collection[int] = (),
        deadline: float | None = None,
        **kwargs: Any,
    ) -> requests.Response:
        """As `requests.Session.request`, but an answer that isn't a success is raised.

        `read`: True for a request that changes nothing though it isn't a GET (a search, a query), so that
        it may be repeated. `expect`: statuses to return rather than raise. `deadline` (monotonic) ends
        the repeating. Raises HttpStatus; HttpUnsent where nothing was sent; HttpLost where a request was
        sent and not answered; ProviderError for a URL that may not be asked.
        """
        reading = method.upper() in _READS if read is None else read
        call = self._prepared(method, url, kwargs)
        attempt = 0
        while True:
            pause = self._pause(call, reading, frozenset(expect), attempt)
            if not isinstance(pause, float):
                return pause
            if deadline is not None and self._runtime.monotonic() + pause >= deadline:
                raise ProviderError(f"{self._provider}: {call.what}: no answer in time")
            self._runtime.sleep(pause)
            attempt += 1

    def get(self, url: str, **kwargs: Any) -> requests.Response:
        """`request("GET", ...)`."""
        return self.request("GET", url, **kwargs)

    def post(self, url: str, **kwargs: Any) -> requests.Response:
        """`request("POST", ...)`."""
        return self.request("POST", url, **kwargs)

    def put(self, url: str, **kwargs: Any) -> requests.Response:
        """`request("PUT", ...)`."""
        return self.request("PUT", url, **kwargs)

    def delete(self, url: str, **kwargs: Any) -> requests.Response:
        """`request("DELETE", ...)`."""
        return self.request("DELETE", url, **kwargs)

    def json(self, method: str, url: str, **kwargs: Any) -> Any:
        """The answer's JSON. Raises as `request` does, and NotJson."""
        return self.json_of(self.request(method, url, **kwargs))

    def json_of(self, response: requests.Response) -> Any:
        """The JSON of a response of this session. Raises NotJson."""
        return json_of(response, provider=self._provider, redact=self._redact)

    def close(self) -> None:
        """Close all connections; idempotent."""
        self._sender.close()
