"""Redaction: known values go, in every form and over every chunk border, and nothing else changes."""

from __future__ import annotations

import base64
import json
import re
import shlex
import string
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gipper.errors import ConfigError
from gipper.redact import KeyScanner, Redactor, key_finder, token_shapes
from gipper.redact_forms import forms

SECRET = 'p@ss\'wörd/with+"odd" chars&=$x'
KEY = "sk-test-ABC123"


def redactor(*values: str) -> Redactor:
    made = Redactor()
    for number, value in enumerate(values):
        made.add(value, f"SECRET_{number}")
    return made


def by_definition(data: bytes, values: list[str]) -> bytes:
    """Covered positions, computed the slow way."""
    covered = [False] * len(data)
    for form in {f for v in values for f in forms(v)}:
        for start in range(len(data) - len(form) + 1):
            if data[start : start + len(form)] == form:
                covered[start : start + len(form)] = [True] * len(form)
    out = b""
    for position, byte in enumerate(data):
        if not covered[position]:
            out += bytes([byte])
        elif position == 0 or not covered[position - 1]:
            out += b"<redacted>"
    return out


@pytest.mark.parametrize(
    "shown",
    [
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        quote(SECRET, safe="").lower().replace("with", "with"),
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        shlex.quote(SECRET),
        repr(SECRET),
        SECRET.replace("'", "'\\''"),
    ],
)
def test_every_form_of_a_secret_is_hidden(shown: str) -> None:
    """Plain, URL-encoded, JSON-escaped, quoted for a shell or by Python: no form is left."""
    out = redactor(SECRET).text(f"before {shown} after")
    assert out.startswith("before ")
    assert out.endswith(" after")
    assert "<redacted>" in out
    assert "odd" not in out


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "x", "xy"])
def test_base64_is_hidden_in_all_three_alignments(before: str, encode: object) -> None:
    """However many bytes stand before a value, what base64 makes of it is hidden."""
    encoded = encode(f"{before}{SECRET}{before}".encode())  # type: ignore[operator]
    out = redactor(SECRET).data(encoded)
    assert b"<redacted>" in out
    assert len(out.replace(b"<redacted>", b"")) <= len(encode(before.encode() * 2)) + 4  # type: ignore[operator]


def test_d_081_echoed_key_is_masked() -> None:
    """A market's error that repeats the key, in a body or in a URL, is masked."""
    r = redactor(KEY)
    assert r.text('{"msg":"key sk-test-ABC123 is invalid"}') == '{"msg":"key <redacted> is invalid"}'
    assert KEY not in r.text("GET https://market/api?key=sk-test-ABC123&x=1 failed")


def test_structures_are_redacted_throughout() -> None:
    """Mappings, their keys, lists, tuples and bytes are redacted; other values pass as they are."""
    out = redactor(KEY).value({"a": [KEY, 1, None], KEY: (f"x{KEY}", b"y" + KEY.encode()), "f": 1.5})
    assert out == {"a": ["<redacted>", 1, None], "<redacted>": ("x<redacted>", b"y<redacted>"), "f": 1.5}


def test_a_short_value_is_refused_with_its_label_alone() -> None:
    """Under 8 characters a value can't be hidden without harm; the refusal doesn't show it."""
    with pytest.raises(ConfigError) as caught:
        Redactor().add("abc1234", "PIN")
    assert "PIN" in caught.value.message
    assert "abc1234" not in caught.value.message


def test_a_redactor_never_shows_its_values() -> None:
    """Its repr holds labels only."""
    assert KEY not in repr(redactor(KEY))


def test_overlapping_values_leave_nothing_of_either() -> None:
    """Where two values overlap, both are covered to their ends."""
    assert redactor("abcdefgh", "efghijkl").text("-abcdefghijkl-") == "-<redacted>-"


def test_a_stream_is_not_held_back_without_reason() -> None:
    """What can't be the begin of a known value leaves at once: a log can be followed live."""
    stream = redactor(KEY).stream()
    assert stream.feed(b"epoch 1 done\n") == b"epoch 1 done\n"
    assert stream.feed(b"key sk-te") == b"key "
    assert stream.feed(b"ll me\n") == b"sk-tell me\n"


def test_a_value_added_later_counts_in_open_streams() -> None:
    """A secret that becomes known while a log is followed is hidden from then on."""
    r = Redactor()
    stream = r.stream()
    r.add(KEY, "K")
    assert stream.feed(KEY.encode()) + stream.finish() == b"<redacted>"


LETTERS = st.text("ab", min_size=8, max_size=12)


@given(st.data(), st.lists(LETTERS, min_size=1, max_size=3))
def test_streams_equal_the_whole_whatever_the_chunks(data: st.DataObject, values: list[str]) -> None:
    """Redacting chunk by chunk gives exactly what the definition says of the whole."""
    pieces = data.draw(st.lists(st.sampled_from(values) | st.text("ab\n", max_size=9), max_size=8))
    whole = "".join(pieces).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    stream = redactor(*values).stream()
    out = b"".join(stream.feed(whole[a:b]) for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True))
    assert out + stream.finish() == by_definition(whole, values)


@given(st.data(), LETTERS)
def test_a_new_stream_goes_on_from_what_was_pending(data: st.DataObject, value: str) -> None:
    """After a crash the pending bytes are read again by a new stream: no part of a value is shown."""
    whole = "\n".join(data.draw(st.lists(st.just(value) | st.text("ab", max_size=9), max_size=6))).encode()
    cut = data.draw(st.integers(0, len(whole)))
    first, second = redactor(value).stream(), redactor(value).stream()
    out = first.feed(whole[:cut])
    out += second.feed(whole[cut - first.pending :]) + second.finish()
    plain = by_definition(whole, [value])
    assert re.sub(b"(<redacted>)+", b"#", out) == re.sub(b"(<redacted>)+", b"#", plain)


def test_an_endless_run_is_not_kept_in_memory() -> None:
    """A value that overlaps itself without end is replaced once, and what is held stays small."""
    stream = redactor("a" * 8).stream()
    out = b"".join(stream.feed(b"a" * 4096) for _ in range(64))
    assert stream.pending < 1 << 17
    assert out + stream.finish() == b"<redacted>"


@given(st.data(), st.text(min_size=8, max_size=30).filter(lambda t: len(t.strip()) >= 8))
def test_any_secret_in_any_form_is_hidden_over_chunk_borders(data: st.DataObject, value: str) -> None:
    """Each form of any text is redacted as in one piece, byte by byte too."""
    form = data.draw(st.sampled_from(sorted(forms(value))))
    whole = b"<<" + form + b">>"
    stream = redactor(value).stream()
    out = b"".join(stream.feed(whole[i : i + 1]) for i in range(len(whole))) + stream.finish()
    assert out == by_definition(whole, [value])
    assert form not in out


@given(st.binary(max_size=200), st.text(max_size=50))
def test_what_holds_no_secret_is_unchanged(data: bytes, text: str) -> None:
    """Bytes and texts without a known value come out as they went in, lone surrogates included."""
    r = redactor("never-in-there-0123456789")
    assert r.data(data) == data
    assert r.text(text + "\ud800") == text + "\ud800"


@pytest.mark.parametrize("before", ["", "x", "xy"])
def test_d_049_a_key_in_base64_with_wrapped_lines_is_found(before: str) -> None:
    """A provider key in a file is found plain and base64-encoded, wrapped lines included."""
    key = "".join(string.ascii_letters) + "0123456789"
    encoded = base64.encodebytes(f"{before * 20}{key} and more".encode())
    for content in (f"KEY={key}\n".encode(), encoded, encoded.replace(b"\n", b"\r\n")):
        scanner = KeyScanner({"ACME_API_KEY": key, "OTHER_API_KEY": "something-else"})
        scanner.feed(content)
        assert scanner.found == {"ACME_API_KEY"}


@given(st.data(), st.binary(max_size=60), st.binary(max_size=60))
def test_a_key_is_found_across_chunk_borders(data: st.DataObject, head: bytes, tail: bytes) -> None:
    """Wherever the data is cut, the key in it is found; without it nothing is."""
    key = "Q0-key-that-is-rare-9"
    whole = head + key.encode() + tail
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    scanner = KeyScanner({"K": key})
    for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        scanner.feed(whole[a:b])
    assert scanner.found == {"K"}
    assert not scanner.fresh().found
    scanner.reset()
    scanner.feed(head)
    scanner.feed(tail)
    assert not scanner.found


def test_key_finder_names_the_key_in_a_text() -> None:
    """The answer is the key's name, or None; a short value is never looked for."""
    find = key_finder({"A_KEY": "aaaa-bbbb-cccc", "SHORT": "true"})
    assert find("x=aaaa-bbbb-cccc") == "A_KEY"
    assert find("true") is None


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("HF_TOKEN=hf_abcdefgh python t.py", "hf_abcdefgh"),
        ("echo hf_abcdefghijklmnop", "hf_abc"),
        ("curl -H 'Authorization: Bearer abcdefgh12345678'", "abcdefgh12345678"),
        ("git clone https://me:s3cr3tpw@host/x", "s3cr3tpw"),
        ("export WANDB_API_KEY='0123456789'", "0123456789"),
        ('MY_PASSWORD="two words" run', "two words"),
        ("login --token abc123 --user me", "abc123"),
        ("login --api-key=abc123", "abc123"),
        ("curl -u me:pw123 https://x", "pw123"),
        ("export AWS_SECRET_ACCESS_KEY=abc/def+gh", "abc/def"),
        ("HF_TOKEN=hf_x python t.py", "hf_x"),
        ("aws AKIAABCDEFGHIJKLMNOP", "AKIAABC"),
        ("ghp_0123456789abcdefghij", "ghp_"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "eyJ"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----", "abc"),
    ],
)
def test_d_050_token_shapes_are_hidden(text: str, gone: str) -> None:
    """What looks like a token, a password or a private key is replaced in a command."""
    out = token_shapes(text)
    assert gone not in out
    assert "<redacted>" in out


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --epochs 3 --lr=1e-4",
        "HF_TOKEN=$HF_TOKEN python t.py",
        'export API_KEY="${API_KEY}"',
        "python count_token_lengths.py",
        "echo the secret is out",
        "task-sk-learn",
        "python t.py --max-tokens 512 --tokenizer bert",
        "MAX_TOKENS=512 python t.py",
    ],
)
def test_plain_commands_stay_as_they_are(text: str) -> None:
    """References to variables and prose are no secrets."""
    assert token_shapes(text) == text
