"""One request, sent once: requests with its surprises switched off, and its exceptions made harmless."""

from __future__ import annotations

from collections.abc import Callable
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final
from urllib.parse import urlsplit

import requests
import urllib3.exceptions

from gipper import __version__
from gipper.errors import ProviderError
from gipper.http_call import Call
from gipper.http_errors import HttpLost, HttpUnsent
from gipper.http_urls import ca_bundle, proxies_for, shown

_BEFORE_SENDING: Final = (
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    urllib3.exceptions.ProxyError,
)


class Sender:
    """Sends calls for one provider over connections that it keeps."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self.session = requests.Session()
        # The environment's netrc must never add a login; proxies and CA bundle are read below instead.
        self.session.trust_env = False
        self.session.headers["User-Agent"] = f"gipper/{__version__}"
        self.session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    def close(self) -> None:
        """Close all connections; idempotent."""
        self.session.close()

    def full_url(self, url: str, params: Any) -> str:
        """`url` with its query. Raises ProviderError where that is no URL."""
        try:
            return str(requests.Request("GET", url, params=params).prepare().url)
        except (requests.RequestException, ValueError):
            pass
        raise ProviderError(f"{self._provider}: {shown(url)} isn't a URL that can be asked")

    def send(self, call: Call) -> requests.Response:
        """One answer, whatever its status; redirects are not followed.

        Raises HttpUnsent or HttpLost. The original exception is dropped: its text may hold URL or key.
        """
        try:
            return self.session.request(
                call.method,
                call.url,
                headers=dict(call.headers),
                timeout=call.timeout,
                allow_redirects=False,
                proxies=dict(proxies_for(call.url)),
                verify=ca_bundle(),
                **call.body,
            )
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
            failure = self._failure(call, error)
        raise failure

    def beginning(self, call: Call, most: int, over: Callable[[], bool]) -> tuple[int, bytes]:
        """(status, first bytes) of an answer that may never end: until `most` bytes, `over`, or silence for
        the call's read limit. Raises HttpUnsent or HttpLost where no answer began."""
        try:
            answer = self.session.request(
                call.method, call.url, headers=dict(call.headers), timeout=call.timeout, stream=True,
                allow_redirects=False, proxies=dict(proxies_for(call.url)), verify=ca_bundle(), **call.body,
            )  # fmt: skip
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
            failure = self._failure(call, error)
        else:
            with answer:
                return answer.status_code, _first(answer, most, over)
        raise failure

    def _failure(self, call: Call, error: Exception) -> ProviderError:
        where = f"{self._provider}: {call.what}"
        if "SOCKS" in str(error) and isinstance(error, requests.exceptions.InvalidSchema):
            return _no_socks(self._provider)
        if isinstance(error, requests.exceptions.SSLError):
            return _tls(where, error)
        if isinstance(error, requests.ConnectTimeout):
            return HttpUnsent(f"{where}: no connection within {call.timeout[0]:g} s")
        if isinstance(error, requests.exceptions.ProxyError):
            return _proxy(where, call)
        if isinstance(error, requests.Timeout):
            return HttpLost(f"{where}: no answer within {call.timeout[1]:g} s")
        if isinstance(error, requests.ConnectionError):
            return _connection(where, error)
        if isinstance(error, (requests.exceptions.ChunkedEncodingError, urllib3.exceptions.HTTPError)):
            return HttpLost(f"{where}: the answer broke off")
        if isinstance(error, requests.exceptions.ContentDecodingError):
            return HttpLost(f"{where}: the answer can't be decoded")
        if isinstance(error, ValueError):
            return HttpUnsent(
                f"{where}: a header or the URL can't be sent",
                hint="is the key whole, without line ends?",
                lasting=True,
            )
        return HttpUnsent(f"{where}: could not be sent ({type(error).__name__})", lasting=True)


def _first(answer: requests.Response, most: int, over: Callable[[], bool]) -> bytes:
    found = b""
    try:
        # A larger piece would be waited for until it is whole.
        for chunk in answer.iter_content(1):
            found += chunk
            if len(found) >= most or over():
                break
    except (OSError, urllib3.exceptions.HTTPError):
        pass  # Silence, or a broken line: what came is what there is.
    return found[:most]


def _no_socks(provider: str) -> ProviderError:
    return HttpUnsent(
        f"{provider}: the environment asks for a SOCKS proxy, and this Python has no SOCKS support",
        hint="pip install 'requests[socks]', or unset ALL_PROXY",
        lasting=True,
    )


def _tls(where: str, error: Exception) -> ProviderError:
    if "CERTIFICATE_VERIFY_FAILED" in str(error) or "match" in str(error):
        return HttpUnsent(
            f"{where}: the server's certificate can't be verified",
            hint="behind a company proxy, set REQUESTS_CA_BUNDLE to its certificates",
            lasting=True,
        )
    return HttpLost(f"{where}: the encrypted connection broke")


def _proxy(where: str, call: Call) -> ProviderError:
    proxy = next(iter(proxies_for(call.url).values()), "")
    return HttpUnsent(
        f"{where}: the proxy {urlsplit(proxy).hostname or ''} didn't let it through",
        hint="see HTTPS_PROXY and NO_PROXY",
    )


def _connection(where: str, error: Exception) -> ProviderError:
    cause = getattr(error.args[0] if error.args else None, "reason", None)
    if isinstance(cause, urllib3.exceptions.NameResolutionError):
        return HttpUnsent(f"{where}: the host's name can't be found", hint="is the network up?")
    if isinstance(cause, _BEFORE_SENDING):
        return HttpUnsent(f"{where}: could not connect", hint="is the network up?")
    return HttpLost(f"{where}: the connection broke before an answer came")
