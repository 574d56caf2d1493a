"""The bootstrap: a POSIX shell script that a job's shell sources first on a rented machine.

It sets variables that nobody has set, makes sure of `uv`, and says which driver, GPUs and PyTorch wheels
there are. Sourced again it does nothing. It never ends the shell that sources it, and leaves behind nothing
but variables. What a person should see goes to stderr, a line each.
"""

from __future__ import annotations

import shlex
from typing import Final

import attrs

from gipper import torch_index

INSTALLER: Final = "https://astral.sh/uv/install.sh"
# What a job may need of an image's own variables, which an ssh session doesn't see. Names one by one: a
# pattern such as NVIDIA_* would let a key through.
ALLOWED: Final[tuple[str, ...]] = (
    "CUDA_HOME", "CUDA_PATH", "CUDA_VERSION", "CUDA_VISIBLE_DEVICES", "CUDNN_VERSION", "NCCL_VERSION",
    "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "PKG_CONFIG_PATH", "PYTHONPATH",
    "CONDA_PREFIX", "VIRTUAL_ENV", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "HF_HOME", "UV_CACHE_DIR", "GIPPER_VOLUME",
)  # fmt: skip


@attrs.frozen(kw_only=True)
class Places:
    """Where the script looks, and for how many seconds it waits for nvidia-smi and for all ways to get uv."""

    first_environ: str = "/proc/1/environ"
    volume: str = "/workspace"
    smi_s: int = 10
    uv_s: int = 60


def script(*, own_path: bool = False, places: Places | None = None) -> str:
    """The bootstrap's text. `own_path`: the job file sets PATH, so additions go behind it, not before.

    A shell that sets `GIPPER_BOOTSTRAP_STATE` to a file's path keeps there what was found out, and takes
    it from there where the file exists.
    """
    body = "\n".join([_head(own_path, places or Places()), _source()])
    return (
        f"_gipper_bootstrap() (\n{body}\n)\n"
        'if [ -z "${GIPPER_BOOTSTRAPPED-}" ]; then eval "$(_gipper_bootstrap)"; fi\n'
        "unset -f _gipper_bootstrap\n:\n"
    )


def _head(own_path: bool, places: Places) -> str:
    values = {
        "table": torch_index.shell_table(),
        "base": torch_index.BASE,
        "old": torch_index.OLD_BELOW,
        "own_path": int(own_path),
        "allowed": " ".join(ALLOWED),
        "first": places.first_environ,
        "volume": places.volume,
        "smi_s": places.smi_s,
        "uv_s": places.uv_s,
        "installer": INSTALLER,
    }
    return "\n".join(f"{name}={shlex.quote(str(value))}" for name, value in values.items())


def _source() -> str:
    """The package's script without comments and indents: it travels to each machine."""
    from importlib import resources

    text = resources.files("gipper").joinpath("bootstrap.sh").read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))
