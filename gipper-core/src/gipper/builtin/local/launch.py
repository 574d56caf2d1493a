"""Starting a machine's server: an isolated interpreter that has nothing of the renting process left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gipper.builtin.local.procs import MARK
from gipper.builtin.local.record import LOG

USER: Final = "gipper"
# What a machine may know of this computer's environment. Keys and tokens travel in variables, so this
# lists what is allowed and not what is forbidden.
_ALLOWED: Final = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The client's import path is appended, not put first: it may name folders that shadow the library.
_BOOT: Final = (
    "import sys; sys.path += [p for p in sys.argv[2:] if p not in sys.path]; "
    "from gipper.builtin.local.server import main; main(sys.argv[1])"
)
_LAUNCH_S: Final = 60.0


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environ` that a machine, or a tool asked about this one, may see."""
    kept = {name: environ[name] for name in _ALLOWED if environ.get(name)}
    return {"PATH": _PATH, **kept}


def machine_env(
    folder: Path, machine_id: str, environ: Mapping[str, str], asked: Mapping[str, str]
) -> dict[str, str]:
    """The whole environment of the machine `machine_id` in `folder`; `asked` are the job's variables."""
    return {
        **allowed(environ),
        **asked,
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "USER": USER,
        "LOGNAME": USER,
        "SHELL": "/bin/sh",
        MARK: machine_id,
    }


def make_host_key() -> tuple[bytes, str]:
    """A fresh ed25519 key: the private part as an OpenSSH file, the public part as one line."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private, public.decode()


def start_server(folder: Path, machine_id: str) -> None:
    """Start the server of the machine in `folder`, detached, and return once it is on its own.

    Raises OSError, or subprocess.SubprocessError where the interpreter failed or hung.
    """
    paths = [p for p in sys.path if Path(p).is_absolute()]
    with os.fdopen(os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
        launcher = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT, str(folder), *paths],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=machine_env(folder, machine_id, os.environ, {}),
            cwd=folder,
            umask=0o077,
            start_new_session=True,
            close_fds=True,
        )
    status = launcher.wait(timeout=_LAUNCH_S)
    if status:
        raise subprocess.CalledProcessError(status, sys.executable)
