"""Inputs that look sensitive are flagged, told, recorded, and refused where the settings say so."""

from __future__ import annotations

import base64
import hashlib
import time
from pathlib import Path

import pytest
from support_cli import World, world

from gipper.builtin.sensitive import gipper_classify_upload as classify


def drawn(count: int, seed: str = "a") -> str:
    """Letters and digits as a service would draw them; made here, so that no token stands in this file."""
    text = "".join(
        base64.b64encode(hashlib.sha256(f"{seed}{n}".encode()).digest()).decode() for n in range(9)
    )
    return "".join(c for c in text if c.isalnum())[:count]


def pem(kind: str = "OPENSSH ") -> str:
    """A private key by its looks."""
    return (
        f"-----BEGIN {kind}PRIVATE KEY-----\n{drawn(70)}\n{drawn(70, 'b')}\n-----END {kind}PRIVATE KEY-----\n"
    )


KUBE = "apiVersion: v1\nclusters: []\nusers:\n- user:\n    token: {0}\ncurrent-context: a\n"
SENSITIVE = {
    "openssh": ("id_ed25519", pem(), "private key"),
    "rsa": ("key.pem", pem("RSA "), "private key"),
    "pkcs8 in json": ("sa.json", '{"k": "' + pem("").replace("\n", "\\n") + '"}', "private key"),
    "dotenv": ("sub/.env", "A=1\n", "dotenv file"),
    "dotenv of a stage": (".env.production", "export A='b'\n", "dotenv file"),
    "aws": (".aws/credentials", f"aws_secret_access_key = {drawn(40)}\n", "cloud credentials"),
    "kube": ("kubeconfig", KUBE.format("x"), "kubeconfig"),
    "netrc": (".netrc", "machine a login b password c\n", "netrc"),
    "git": ("repo/.git/config", f"[remote]\n url = https://u:{drawn(20)}@host/x.git\n", "git remote"),
    "hf": ("a.py", f"login('hf_{drawn(34)}')", "token (Hugging Face)"),
    "github": ("a.txt", f"ghp_{drawn(36)}", "token (GitHub)"),
    "sk": ("a.txt", f"key is sk-proj-{drawn(40)}", "token (API key)"),
    "named": ("a.yaml", f"wandb_api_key: {hashlib.sha256(b'a').hexdigest()[:40]}", "token (assigned"),
    "notebook": ("n.ipynb", f'{{"source": ["t = \\"hf_{drawn(34)}\\""]}}', "notebook with a token"),
    "utf-16": ("a.txt", f"\ufeffhf_{drawn(34)}", "token (Hugging Face)"),
    "npmrc": (".npmrc", f"//r/:_authToken={drawn(30)}", "stored login"),
}  # fmt: skip


@pytest.mark.parametrize("case", SENSITIVE)
def test_d_049_what_looks_sensitive(case: str) -> None:
    """Each kind is named in a few words, none of which is the value."""
    path, text, word = SENSITIVE[case]
    reason = classify(path, text.encode("utf-16-le" if case == "utf-16" else "utf-8"))
    assert reason is not None and word in reason
    assert drawn(12) not in reason and len(reason) < 120


def test_d_050_a_token_in_a_script() -> None:
    """A script that sets a token in front of its command is flagged; one that passes a variable on is not."""
    assert classify("go.sh", f"HF_TOKEN=hf_{drawn(34)} python t.py".encode()) is not None
    assert classify("go.sh", b'HF_TOKEN="$HF_TOKEN" python t.py') is None


ORDINARY = {
    "source": ("a.py", "token = tokenizer.apply_chat_template(messages)\nmax_token=max_new_tokens_for_4096\n"
               "secret = os.environ['SECRET_TOKEN_1']\nparser.add_argument('--api-key', default=None)"),
    "source that reads keys": ("k.py", 'if "-----BEGIN RSA PRIVATE KEY-----" in text:\n    pass\n'),
    "npm lock": ("package-lock.json", '"js-tokens": {"version": "4.0.0", "integrity": "sha512-'
                 + base64.b64encode(hashlib.sha512(b"a").digest()).decode() + '"}'),
    "uv lock": ("uv.lock", 'name = "tokenizers"\nhash = "sha256:' + hashlib.sha256(b"a").hexdigest() + '"'),
    "readme": ("README.md", "export OPENAI_API_KEY=sk-...\nHF_TOKEN=hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"
               "sk-your-key-here-0123456789abcdef\nAKIAIOSFODNN7EXAMPLE ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
    "example dotenv": (".env.example", "ACME_API_KEY=\n"),
    "empty dotenv": (".env", "# nothing\nACME_API_KEY=\n"),
    "git without login": (".git/config", "[remote]\n url = https://host/x.git\n url = git@host:x.git\n"),
    "public key": ("id.pub", f"ssh-ed25519 {drawn(68)} me"),
    "certificate": ("c.pem", f"-----BEGIN CERTIFICATE-----\n{drawn(64)}\n"),
    "model name": ("m.yaml", "token: meta-llama/Llama-3.1-8B-Instruct-fp8-dynamic\n"
                   "sk-learn-contrib-metrics-v2-1"),
    "vocabulary": ("tokenizer.json", '{"eos_token": "<|endoftext|>", "added_tokens": [{"id": 50256}]}'),
    "empty": ("a", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", ORDINARY)
def test_ordinary_files_are_not_flagged(case: str) -> None:
    """Source code, lock files and placeholders pass without a word."""
    path, text = ORDINARY[case]
    assert classify(path, text.encode()) is None


def test_hostile_content_takes_no_long_time() -> None:
    """Four times as much of what nearly matches takes about four times as long, not sixteen times."""
    for piece in (b"token=a1-", b"-----BEGIN PRIVATE KEY-----\n", b"sk-", b"://a:", b"A" * 39 + b"token: "):
        quarter, whole = (min(_seconds(piece, size) for _ in range(3)) for size in (1 << 18, 1 << 20))
        assert whole < 9 * quarter + 0.05, piece


def _seconds(piece: bytes, size: int) -> float:
    began = time.process_time()
    classify("x", piece * (size // len(piece)))
    return time.process_time() - began


@pytest.fixture
def user(own_folders: Path):
    """A user with an empty HOME."""
    with world(own_folders) as made:
        yield made


def _inputs(user: World) -> list[dict[str, str]]:
    folder = user.work / "data"
    folder.mkdir()
    (folder / ".env").write_text("OTHER_TOKEN=abc\n")
    (folder / "id_rsa").write_text(pem("RSA "))
    (folder / "plain.py").write_text("print(1)\n")
    return [{"src": "data", "dst": "data"}]


def test_d_049_flagged_inputs_are_told_and_recorded(user: World) -> None:
    """They go up, one note each; the upload's receipt holds the reason beside the hash."""
    done = user.gipper("pod", "run", user.job("mkdir out; cp data/plain.py out", inputs=_inputs(user)))
    assert done.code == 0, done.all
    notes = [line for line in done.err.splitlines() if "looks sensitive" in line]
    assert len(notes) == 2 and "data/.env: dotenv file" in notes[0]
    files = user.receipts("custody.upload")[0]["files"]
    assert {f[0]: f[4] for f in files} == {
        "data/.env": "dotenv file", "data/id_rsa": "private key", "data/plain.py": None,
    }  # fmt: skip


def test_d_049_refused_where_the_settings_say_so(user: World) -> None:
    """`refuse_sensitive` ends the run with 2 and names every file, before anything is rented."""
    user.settings(custody={"refuse_sensitive": True})
    done = user.gipper("pod", "run", user.job("true", inputs=_inputs(user)))
    assert done.code == 2, done.all
    assert "data/.env" in done.err and "data/id_rsa" in done.err and "plain.py" not in done.err
    assert "pod.intent" not in user.kinds() and "Traceback" not in done.err


def test_at_most_ten_notes(user: World) -> None:
    """Of many flagged files ten are named and the rest counted."""
    folder = user.work / "data"
    folder.mkdir()
    for n in range(13):
        (folder / f"{n}.env").write_text("A=1\n")
    done = user.gipper("pod", "run", "--dry-run", user.job("true", inputs=[{"src": "data"}]))
    assert sum("dotenv file" in line for line in done.err.splitlines()) == 10
    assert "3 more" in done.err
