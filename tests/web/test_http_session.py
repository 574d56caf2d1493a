"""The session that plugins get: statuses, retries, lost answers, clock, and where keys may go."""

from __future__ import annotations

import socket
import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from gipper.errors import ProviderError
from gipper.http import HttpLost, HttpStatus, HttpUnsent, NotJson, json_of, make_session

HTML = {"Content-Type": "text/html"}
JSON = {"Content-Type": "application/json"}


def test_a_success_is_returned_as_it_came(market, session):
    """A 200 with JSON arrives whole, and its query, headers and body went out as given."""
    market.script = [(200, JSON, b'{"a": [1, 2]}')]
    found = session.json("POST", f"{market.url}/x", params={"q": "1 2"}, json={"b": 1}, headers={"H": "v"})
    assert found == {"a": [1, 2]}
    asked = market.asked[0]
    assert (asked.method, asked.path, asked.body, asked.headers["H"]) == (
        "POST",
        "/x?q=1+2",
        b'{"b": 1}',
        "v",
    )


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 500])
def test_a_bad_status_names_provider_status_and_request(market, session, status):
    """Every other status is a ProviderError with its number, after one try."""
    market.script = [(status, {}, b"first line\nsecond line")]
    with pytest.raises(HttpStatus) as caught:
        session.get(f"{market.url}/machines?page=2")
    assert caught.value.status == status
    port = market.server.server_port
    assert caught.value.message == f"acme: HTTP {status} for GET 127.0.0.1:{port}/machines: first line"
    assert len(market.asked) == 1


def test_an_expected_status_is_returned(market, session):
    """A plugin that wants to see a 404 gets the response."""
    market.script = [(404, {}, b"")]
    assert session.request("GET", market.url, expect={404}).status_code == 404


@pytest.mark.parametrize("status", [502, 503, 504])
def test_reads_are_tried_again_after_a_gateway_error(market, session, runtime, status):
    """A read that met a gateway's excuse succeeds at the next try, after a pause."""
    market.script = [(status, HTML, b"<html>"), (200, JSON, b"{}")]
    assert session.json("GET", market.url) == {}
    assert runtime.slept == [0.5]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_changes_something_is_sent_once(market, session, runtime, method, status):
    """No status makes the session repeat a request that isn't a read."""
    if method == "PATCH":
        market.server.RequestHandlerClass.do_PATCH = market.server.RequestHandlerClass.do_GET
    market.script = [(status, {"Retry-After": "1"}, b"")]
    with pytest.raises(HttpStatus):
        session.request(method, market.url)
    assert len(market.asked) == 1
    assert runtime.slept == []


def test_a_search_that_is_a_post_may_be_repeated(market, session):
    """`read=True` marks a POST that changes nothing."""
    market.script = [(503, {}, b""), (200, JSON, b"[]")]
    assert session.json("POST", market.url, read=True, json={}) == []
    assert [a.body for a in market.asked] == [b"{}", b"{}"]


def test_a_read_whose_answer_is_lost_is_repeated(market, session):
    """A connection that broke under a read is made again."""
    market.script = ["lose", (200, JSON, b"{}")]
    assert session.json("GET", market.url) == {}
    assert len(market.asked) == 2


def test_a_lost_answer_to_a_create_says_that_nobody_knows(market, session):
    """A create whose answer got lost is HttpLost, and was sent exactly once."""
    market.script = ["lose"]
    with pytest.raises(HttpLost):
        session.post(market.url, json={})
    assert len(market.asked) == 1


def test_a_create_without_an_answer_in_time_is_lost(runtime):
    """A server that takes a create and stays silent leaves it in doubt."""
    silent = socket.create_server(("127.0.0.1", 0))
    made = make_session(provider="acme", runtime=runtime, redact=str, timeout=(1.0, 0.05))
    with silent, pytest.raises(HttpLost, match=r"no answer within 0\.05 s"):
        made.post(f"http://127.0.0.1:{silent.getsockname()[1]}/", json={})
    made.close()


def test_a_create_that_found_no_server_was_not_sent(session):
    """A refused connection is not a lost answer: nothing can have been created."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(HttpUnsent, match="could not connect"):
        session.post(f"http://127.0.0.1:{port}/")


def test_reads_give_up_after_some_tries(market, session):
    """A gateway that is down for good ends in its status, not in endless tries."""
    market.script = [(502, {}, b"")]
    with pytest.raises(HttpStatus) as caught:
        session.get(market.url)
    assert caught.value.status == 502
    assert len(market.asked) == 4


def test_a_deadline_ends_the_tries(market, session, runtime):
    """No pause goes beyond the deadline that the caller gave."""
    market.script = [(503, {"Retry-After": "5"}, b"")]
    with pytest.raises(HttpStatus):
        session.get(market.url, deadline=runtime.monotonic() + 4)
    assert runtime.slept == []


def test_d_013_told_to_slow_down(market, session, runtime):
    """A 429 with Retry-After 2 is waited out for 2 s or more, and then the read succeeds."""
    market.script = [
        (429, {"Content-Type": "text/plain", "Retry-After": "2"}, b"slow down"),
        (200, JSON, b"{}"),
    ]
    assert session.json("POST", market.url, read=True) == {}
    assert len(market.asked) == 2
    assert sum(runtime.slept) >= 2


def test_d_013_a_daily_quota_is_not_retried(market, session, runtime):
    """A limit that lasts until midnight is told at once."""
    market.script = [(429, JSON, b'{"error":"search_quota_exceeded"}')]
    with pytest.raises(HttpStatus, match="search_quota_exceeded"):
        session.get(market.url)
    assert (len(market.asked), runtime.slept) == (1, [])


def test_d_013_429_for_ever_is_an_error(market, session, runtime):
    """A market that always says 429 is given up after bounded waits."""
    market.script = [(429, {}, b"too often")]
    with pytest.raises(HttpStatus, match="HTTP 429"):
        session.get(market.url)
    assert runtime.slept == [2.0, 4.0, 8.0]


def test_a_retry_after_beyond_the_cap_is_told_not_waited_for(market, session, runtime):
    """An hour of Retry-After is an error now."""
    market.script = [(429, {"Retry-After": "3600"}, b"")]
    with pytest.raises(HttpStatus):
        session.get(market.url)
    assert runtime.slept == []


@pytest.mark.parametrize("status", [200, 403, 502])
def test_d_014_a_web_page_is_never_json(market, session, status):
    """A gateway's page ends in an error with provider, status and one line, never in empty data."""
    market.script = [(status, HTML, b"<html>\n<title>Just a moment</title>\n<p>x</html>")]
    with pytest.raises(ProviderError) as caught:
        session.json("GET", market.url)
    message = caught.value.message
    assert message.startswith("acme: ")
    assert str(status) in message
    assert "Just a moment" in message
    assert "\n" not in message
    assert "<" not in message


@pytest.mark.parametrize("body", [b"", b"ok", b"{", b"\xff\xfe\x00", b'{"a": NaN}', b"[" * 100_000, b"<x/>"])
def test_d_014_what_is_not_json_says_so(market, session, body):
    """Empty, broken and absurd bodies with status 200 are NotJson."""
    market.script = [(200, JSON, body)]
    with pytest.raises(NotJson):
        json_of(session.get(market.url), provider="acme")


def test_d_014_control_characters_stay_out_of_messages(market, session):
    """A body can't move the cursor or colour the terminal through an error."""
    market.script = [(400, {}, b"bad \x1b[31mred\x07 \xe2\x80\xaetxt")]
    with pytest.raises(HttpStatus) as caught:
        session.get(market.url)
    assert all(c.isprintable() for c in caught.value.message)


def test_d_080_a_key_in_the_url_is_never_sent(market, session, key):
    """Neither path nor query may hold a secret: the request isn't made."""
    for url, params in ((f"{market.url}/{key}", None), (market.url, {"api_key": key})):
        with pytest.raises(ProviderError) as caught:
            session.get(url, params=params)
        assert key not in str(caught.value)
    assert market.asked == []


def test_d_081_an_echoed_key_is_masked(market, session, key):
    """A key in an error body is redacted in message and text, before anything is cut."""
    market.script = [(401, JSON, b'{"msg":"' + b"x" * 190 + key.encode() + b' is invalid"}')]
    with pytest.raises(HttpStatus) as caught:
        session.get(market.url, headers={"Authorization": f"Bearer {key}"})
    shown = "".join(traceback.format_exception(caught.value))
    for text in (shown, caught.value.text, repr(caught.value), repr(session)):
        assert "sk-test" not in text


@pytest.mark.parametrize("bad", ["\n", "\r\nX: y", "\N{EN DASH}"])
def test_d_081_a_key_that_cannot_be_sent_is_not_shown(market, session, key, bad):
    """A key with a line end or a letter that headers can't carry gives a clean error."""
    with pytest.raises(ProviderError) as caught:
        session.get(market.url, headers={"Authorization": f"Bearer {key}{bad}"})
    error = caught.value
    assert key not in "".join(traceback.format_exception(error))
    assert error.__context__ is None
    assert error.__cause__ is None


def test_d_082_a_redirect_to_another_host_goes_without_the_key(new_market, session, key):
    """Another port is another host: neither Authorization nor a header that holds the key goes there."""
    first, second = new_market(), new_market()
    first.script = [(302, {"Location": f"{second.url}/there"}, b"")]
    headers = {"Authorization": f"Bearer {key}", "X-Own": key, "X-Plain": "yes"}
    assert session.get(f"{first.url}/list", headers=headers).status_code == 200
    sent = {k.casefold(): v for k, v in second.asked[0].headers.items()}
    assert "authorization" not in sent
    assert key not in "".join(sent.values())
    assert sent["x-plain"] == "yes"


def test_d_082_a_redirect_on_the_same_host_keeps_the_key(market, session, key):
    """Within one host a read may follow with its key."""
    market.script = [(301, {"Location": "/b"}, b""), (200, {}, b"")]
    session.get(f"{market.url}/a", headers={"Authorization": f"Bearer {key}"})
    assert market.asked[1].path == "/b"
    assert market.asked[1].headers["Authorization"] == f"Bearer {key}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_d_082_a_create_is_never_replayed(new_market, session, method, status):
    """A redirected request that isn't a read ends there and says where it was sent to."""
    first, second = new_market(), new_market()
    first.script = [(status, {"Location": second.url}, b"")]
    with pytest.raises(HttpStatus, match="not followed"):
        session.request(method, first.url, json={})
    assert second.asked == []
    assert len(first.asked) == 1


def test_d_082_redirects_end(market, session):
    """A loop of redirects is an error."""
    market.script = [(302, {"Location": "/"}, b"")]
    with pytest.raises(ProviderError, match="too many redirects"):
        session.get(market.url)


def test_d_082_a_redirect_to_plain_http_elsewhere_is_refused(market, session):
    """https may not be left for a host that isn't loopback."""
    market.script = [(302, {"Location": "http://market.invalid/"}, b"")]
    with pytest.raises(ProviderError, match="only https"):
        session.get(market.url)


def test_d_083_the_environments_proxy_is_used(market, session, monkeypatch):
    """HTTPS_PROXY gets the CONNECT for a market's host, and its refusal is one clear line."""
    monkeypatch.setenv("HTTPS_PROXY", market.url)
    market.script = [(403, {}, b"")]
    with pytest.raises(HttpUnsent, match=r"the proxy 127\.0\.0\.1 didn't let it through"):
        session.post("https://market.invalid/api")
    assert [(a.method, a.path) for a in market.asked] == [("CONNECT", "market.invalid:443")]


def test_d_083_no_proxy_is_honoured(market, new_market, session, monkeypatch):
    """Hosts in NO_PROXY, and loopback always, are asked directly."""
    from gipper.http_urls import proxies_for

    proxy = new_market()
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,market.invalid")
    assert dict(proxies_for("https://market.invalid/")) == {}
    assert proxies_for("https://other.invalid/")["https"] == proxy.url
    session.get(market.url)
    monkeypatch.delenv("NO_PROXY")
    session.get(market.url)
    assert (len(market.asked), proxy.asked) == (2, [])


def test_d_083_socks_without_support_is_one_clear_line(session, runtime, monkeypatch):
    """A SOCKS proxy that this Python can't use is named, with what to install, and not retried."""
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    pytest.importorskip("requests")
    with pytest.raises(ProviderError, match="SOCKS") as caught:
        session.get("https://market.invalid/")
    assert "requests[socks]" in (caught.value.hint or "")
    assert runtime.slept == []


def test_a_netrc_never_adds_a_login(market, session, own_folders):
    """Logins from ~/.netrc stay at home."""
    (own_folders / ".netrc").write_text("machine 127.0.0.1 login me password hunter22\n")
    session.get(market.url)
    assert "Authorization" not in market.asked[0].headers


def test_cookies_are_not_kept(market, session):
    """What one answer set is not sent with the next request."""
    market.script = [(200, {"Set-Cookie": "a=b"}, b"")]
    session.get(market.url)
    session.get(market.url)
    assert "Cookie" not in market.asked[1].headers


def test_certificates_are_always_checked(session):
    """A plugin can't switch verification off."""
    with pytest.raises(TypeError):
        session.get("https://market.invalid/", verify=False)


def test_the_markets_clock_is_learned_from_its_answers(market, session):
    """The offset is the median of the last few Date headers, to about a second."""
    assert session.offset_s is None
    ahead = datetime.now(UTC) + timedelta(hours=2)
    class_ = market.server.RequestHandlerClass
    class_.date_time_string = lambda self, timestamp=None: format_datetime(ahead, usegmt=True)
    for _ in range(3):
        session.get(market.url)
    assert session.offset_s == pytest.approx(7200, abs=5)
    assert len(session.clock.seen) == 3


def test_a_cached_answer_tells_no_time(market, session):
    """An answer with an Age is as old as a cache made it."""
    market.script = [(200, {"Age": "100"}, b"")]
    session.get(market.url)
    assert session.offset_s is None


def test_the_beginning_of_an_endless_answer(session, new_stream):
    """A stream that never ends gives what came within the time; a refusal is raised with its status."""
    url = new_stream(b"data: one\n\ndata: two\n\n")
    assert session.beginning(url, seconds=0.5) == b"data: one\n\ndata: two\n\n"
    assert session.beginning(url, seconds=5, most=9) == b"data: one"


def test_the_beginning_of_a_refusal(market, session):
    """A status that is no success is raised."""
    market.script = [(403, JSON, b'{"title": "Forbidden"}')]
    with pytest.raises(HttpStatus) as caught:
        session.beginning(f"{market.url}/logs", seconds=1)
    assert caught.value.status == 403
