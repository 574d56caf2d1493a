"""The start-up script, and the watchdog's command run for real against a server on this computer."""

from __future__ import annotations

import base64
import gzip
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from gipper_vast import VastProvider
from gipper_vast.onstart import MOST_CHARACTERS, onstart, packed, watchdog

from gipper.api import boot_watchdog
from gipper.plugins.check import check_provider
from gipper.plugins.parts import Origin

URL = "https://console.vast.ai"


def test_the_class_passes_cores_check() -> None:
    """Every hook is marked, named and shaped as its spec says."""
    checked = check_provider(VastProvider, Origin(entry="vast"))
    assert checked.problems == ()
    assert {"gipper_billed", "gipper_watchdog", "gipper_adjust_costs", "gipper_check_key"} <= checked.hooks


def test_the_start_up_script_is_short_and_holds_the_whole_watchdog(vast: Any) -> None:
    """Under the market's limit, and what is packed in it is word for word the watchdog's text."""
    request = vast.request()
    script = onstart(request, URL)
    assert len(script) < MOST_CHARACTERS and script.isascii()
    assert script.startswith("touch /root/.no_auto_tmux\n")
    whole = boot_watchdog(watchdog(URL), request.boot_watchdog_s, name=request.name)
    body = re.search(r"echo (\S+) \| base64 -d", script)
    inside = gzip.decompress(base64.b64decode(body[1])).decode() if body else script.split("\n", 1)[1]
    assert inside == whole
    assert len(onstart(request, "https://" + "a" * 60 + ".example/" + "b" * 100)) < MOST_CHARACTERS


def test_what_is_packed_runs_as_it_would_unpacked(tmp_path: Path) -> None:
    """The packed line gives the script to a shell as it is."""
    script = "cat <<'END'\na 'b' \"$c\" \\\nEND\n"
    plain = subprocess.run(["sh", "-c", script], capture_output=True, check=True)
    wrapped = subprocess.run(["sh", "-c", packed(script)], capture_output=True, check=True)
    assert wrapped.stdout == plain.stdout != b""


class _Seen(BaseHTTPRequestHandler):
    def do_DELETE(self) -> None:
        self.server.seen.append((self.path, self.headers.get("Authorization")))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        pass


def _tools(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        # A version manager's stand-in for python3 is no interpreter.
        found = str(Path(sys.executable).resolve()) if name == "python3" else shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


@pytest.mark.parametrize("tool", ["curl", "python3"])
def test_the_watchdogs_command_destroys_its_own_machine(tmp_path: Path, tool: str) -> None:
    """With curl or with python3 alone, the machine's own key goes out in the header of its own DELETE."""
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool} here")
    server = HTTPServer(("127.0.0.1", 0), _Seen)
    server.seen = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    dog = watchdog(f"http://127.0.0.1:{server.server_port}")
    env = {
        "PATH": str(_tools(tmp_path / "bin", tool, "sh")),
        "CONTAINER_API_KEY": "own-key-42",
        "CONTAINER_ID": "7001001",
    }
    done = subprocess.run(["/bin/sh", "-c", dog.command], env=env, capture_output=True, timeout=30)
    server.shutdown()
    server.server_close()
    thread.join(5)
    assert done.returncode == 0, done.stderr
    assert server.seen == [("/api/v0/instances/7001001/", "Bearer own-key-42")]  # type: ignore[attr-defined]
    assert set(dog.reads) == {"CONTAINER_API_KEY", "CONTAINER_ID"}


def test_the_watchdogs_key_is_in_no_argument(tmp_path: Path) -> None:
    """curl is started without the key among its arguments: it comes by standard input."""
    folder = _tools(tmp_path / "bin", "sh", "cat")
    told, heard = tmp_path / "args", tmp_path / "stdin"
    curl = folder / "curl"
    curl.write_text(f'#!/bin/sh\necho "$@" >{told}\ncat >{heard}\n')
    curl.chmod(0o755)
    env = {"PATH": str(folder), "CONTAINER_API_KEY": "own-key-42", "CONTAINER_ID": "7001001"}
    subprocess.run(["/bin/sh", "-c", watchdog(URL).command], env=env, check=True, timeout=30)
    assert "own-key-42" not in told.read_text()
    assert heard.read_text() == 'header = "Authorization: Bearer own-key-42"\n'
    assert f"{URL}/api/v0/instances/7001001/" in told.read_text()


def test_a_base_url_cannot_run_anything(tmp_path: Path) -> None:
    """Signs that a shell would read are encoded in the command's URL."""
    marker = tmp_path / "ran"
    env = {"PATH": os.environ["PATH"], "CONTAINER_API_KEY": "k", "CONTAINER_ID": "1"}
    command = watchdog(f'http://127.0.0.1:9/$(touch {marker})`touch {marker}`";touch {marker};"').command
    subprocess.run(["/bin/sh", "-c", command], env=env, capture_output=True, timeout=60)
    assert not marker.exists()
