"""The HTTP session that plugins get: requests' verbs, without its surprises.

Certificates are always checked; https only, but for loopback. Reads are repeated where that helps,
everything else is sent exactly once. A key never follows a redirect to another host, and is in no
exception, `repr` or log.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

import attrs

from gipper.errors import ProviderError
from gipper.http_call import ALLOWED, Call
from gipper.http_clock import ServerClock
from gipper.http_errors import HttpLost, HttpStatus, HttpUnsent, NotJson
from gipper.http_retry import TRIES, pause_after, pause_for
from gipper.http_text import Redact, body_text, is_html, one_line
from gipper.http_urls import is_loopback, origin, refusal, shown
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
    key_hosts: Collection[str] | None = None,
    secret_headers: Collection[str] = (),
    timeout: tuple[float, float] = (CONNECT_S, READ_S),
) -> ProviderSession:
    """A session for one provider. `timeout` is (connect, read) seconds; `allowed_hosts` narrows where
    it may go (None: any https host), `key_hosts` where a request that carries a key may go;
    `secret_headers` are header names that hold keys. Loopback always may be asked."""
    return ProviderSession(
        provider=provider,
        runtime=runtime,
        redact=redact,
        allowed_hosts=allowed_hosts,
        key_hosts=key_hosts,
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
        key_hosts: Collection[str] | None,
        secret_headers: frozenset[str],
        timeout: tuple[float, float],
    ) -> None:
        self._provider = provider
        self._runtime = runtime
        self._redact = redact
        self._allowed = allowed_hosts
        self._key_hosts = key_hosts
        self._secret_headers = secret_headers
        self._timeout = timeout
        # requests takes a while to import: commands that talk to no market never pay for it.
        from gipper.http_send import Sender

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
        for attempt in count():
            answer = self._once(call)
            if not isinstance(answer, ProviderError) and _good(answer, expect):
                return answer
            pause = self._pause(answer, attempt) if reading else None
            late = deadline is not None and self._runtime.monotonic() + (pause or 0.0) >= deadline
            if pause is None or late:
                raise self._error(call, answer, reading)
            self._runtime.sleep(pause)
        raise AssertionError("unreachable: tries are counted")

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

    def beginning(
        self, url: str, *, seconds: float, most: int = 1 << 16, headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> bytes:  # fmt: skip
        """The first bytes of a GET that may never end (a log stream): what came within `seconds`, at most
        `most`. Asked once. Raises HttpStatus, HttpUnsent, HttpLost, ProviderError."""
        given = {"headers": headers, "params": params, "timeout": (self._timeout[0], seconds)}
        call = self._prepared("GET", url, given)
        end = self._runtime.monotonic() + seconds
        status, found = self._sender.beginning(call, most, lambda: self._runtime.monotonic() >= end)
        if not 200 <= status < 300:
            text = body_text(found, self._redact)
            message = f"{self._provider}: HTTP {status} for {call.what}"
            raise HttpStatus(self._redact(message), status=status, text=text, hint=_HINTS.get(status))
        return found

    def close(self) -> None:
        """Close all connections; idempotent."""
        self._sender.close()

    def _prepared(self, method: str, url: str, kwargs: Mapping[str, Any]) -> Call:
        unknown = sorted(kwargs.keys() - ALLOWED)
        if unknown:
            raise TypeError(f"the session decides on {', '.join(unknown)} itself")
        full = self._sender.full_url(url, kwargs.get("params"))
        headers = {str(k): str(v) for k, v in (kwargs.get("headers") or {}).items()}
        self._check(full, keyed=any(self._is_secret(k, v) for k, v in headers.items()))
        body = {k: kwargs[k] for k in ("json", "data") if k in kwargs}
        limits = kwargs.get("timeout") or self._timeout
        timeout = limits if isinstance(limits, tuple) else (min(limits, self._timeout[0]), limits)
        return Call(method=method.upper(), url=full, headers=headers, body=body, timeout=timeout)

    def _check(self, url: str, *, keyed: bool = False) -> None:
        why = refusal(url, self._allowed)
        if why is None and keyed:
            why = refusal(url, self._key_hosts)
        if why is None and self._redact(url) != url:
            why = "it holds a secret, which belongs into a header"
        if why is not None:
            raise ProviderError(f"{self._provider}: {self._redact(shown(url))} was not asked: {why}")

    def _once(self, call: Call) -> requests.Response | ProviderError:
        """The answer after redirects, or why there is none."""
        for _ in range(MAX_REDIRECTS + 1):
            try:
                answer = self._timed(call)
            except (HttpUnsent, HttpLost) as error:
                return error
            target = answer.headers.get("Location")
            if answer.status_code not in _MOVED or target is None or call.method not in _READS:
                return answer
            call = self._redirected(call, urljoin(call.url, target))
        return ProviderError(f"{self._provider}: {call.what}: too many redirects")

    def _timed(self, call: Call) -> requests.Response:
        sent = self._runtime.now()
        answer = self._sender.send(call)
        self.clock.note(answer.headers, sent, self._runtime.now(), self._runtime.monotonic())
        return answer

    def _redirected(self, call: Call, url: str) -> Call:
        self._check(url)
        if is_loopback(origin(url)[1]) and not is_loopback(origin(call.url)[1]):
            raise ProviderError(f"{self._provider}: {call.what} redirects to this machine: not followed")
        headers = call.headers
        if origin(url) != origin(call.url):
            headers = {k: v for k, v in headers.items() if not self._is_secret(k, v)}
        return attrs.evolve(call, url=url, headers=headers, body={})

    def _is_secret(self, header: str, value: str) -> bool:
        return header.casefold() in self._secret_headers or self._redact(value) != value

    def _pause(self, answer: requests.Response | ProviderError, attempt: int) -> float | None:
        if isinstance(answer, ProviderError):
            passing = isinstance(answer, HttpLost) or (isinstance(answer, HttpUnsent) and not answer.lasting)
            return pause_after(attempt) if passing and attempt + 1 < TRIES else None
        text = body_text(answer.content, self._redact)
        return pause_for(answer.status_code, answer.headers, text, attempt, self._runtime.now())

    def _error(self, call: Call, answer: requests.Response | ProviderError, reading: bool) -> ProviderError:
        if isinstance(answer, HttpLost) and reading:
            return ProviderError(answer.message, hint=answer.hint)
        return answer if isinstance(answer, ProviderError) else self._status_error(call, answer)

    def _status_error(self, call: Call, answer: requests.Response) -> HttpStatus:
        status, text = answer.status_code, body_text(answer.content, self._redact)
        said = one_line(answer.headers.get("Content-Type", ""), text)
        if status in _MOVED:
            said = (
                f"a redirect to {shown(urljoin(call.url, answer.headers.get('Location', '')))}, not followed"
            )
        message = f"{self._provider}: HTTP {status} for {call.what}" + (f": {said}" if said else "")
        return HttpStatus(self._redact(message), status=status, text=text, hint=_HINTS.get(status))


_HINTS: Final = {
    401: "is the key right, and still valid?",
    403: "may the key do this, and may this network ask?",
    429: "the market limits how often it may be asked: try again later",
}


def json_of(response: requests.Response, *, provider: str, redact: Redact = str) -> Any:
    """The JSON of `response`. Raises NotJson for a web page, an empty body, and anything else."""
    kind = response.headers.get("Content-Type", "")
    text = body_text(response.content, redact)
    if not is_html(kind, text):
        try:
            return json.loads(response.content, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            pass
    said = one_line(kind, text) or "nothing"
    raise NotJson(f"{provider}: HTTP {response.status_code}, but the answer isn't JSON: {said}")


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} isn't JSON")


def _good(answer: requests.Response, expect: Collection[int]) -> bool:
    return answer.status_code in expect or 200 <= answer.status_code < 300
