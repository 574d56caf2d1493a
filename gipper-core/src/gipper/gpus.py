"""Names of GPUs: what providers and people write, brought to one model each.

A name is taken apart into words of the model, and what only some names carry beside it: form factor,
memory, edition. Two names mean the same model where the words are the same, one by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from gipper.gpu_table import SIZES_GB, TABLE
from gipper.values.offers import GpuModel

_EXACT: Final = 0.005  # a reported size this close (as a share) to a sold one is that one
_SLACK: Final = 0.08  # ECC and reserved memory: a 16 GB T4 reports 14.8 GiB

_MAKER: Final = frozenset({"nvidia", "geforce", "tesla", "generation", "blackwell", "edition"})
_NOISE: Final = _MAKER | {"tensor", "core", "gpu", "graphics", "vm", "pc", "ac"}
_EDITIONS: Final = {"server": "server", "s": "server", "workstation": "workstation", "ws": "workstation"}
_FORM: Final = re.compile(r"(sxm|pcie|nvl)\d?")
_MEMORY: Final = re.compile(r"(\d+)gi?b?")
_MEMORY_AHEAD: Final = re.compile(r"\b(\d+) gi?b\b")
_GLUED: Final = re.compile(r"\b(rtx|gtx|pro|quadro|titan)(?=a?\d|pro|rtx|[xv]p?\b)")
_ADA: Final = re.compile(r"(\d{4})ada\b")
_SUPER: Final = re.compile(r"(\d{4})s")
_SUFFIXED: Final = re.compile(r"(\d{4})(ti|super|d)")
_WORKSTATION_A: Final = re.compile(r"a[2456][05]00")
# Names whose bare form is one board only: what the missing form factor stands for.
_IMPLIED_FORM: Final[Mapping[tuple[str, ...], str]] = {("h200",): "sxm"}


@attrs.frozen(kw_only=True)
class GpuName:
    """A name taken apart. `memory_gb`, `form` and `edition` are None where the name doesn't tell."""

    words: tuple[str, ...]
    form: str | None = None
    memory_gb: float | None = None
    edition: str | None = None


@attrs.frozen(kw_only=True)
class Known:
    """What the table says of a model."""

    display: str
    capability: tuple[int, int]
    sizes_gb: tuple[float, ...]


def parse(name: str) -> GpuName:
    """Take any spelling apart; never raises. `RTX_4090`, `RTX4090` and
    `NVIDIA GeForce RTX 4090` give the same words."""
    words, form, memory, edition = [], None, None, None
    hbm = False
    for word in _tokens(name):
        if match := _FORM.fullmatch(word):
            form = match[1]
        elif word == "maxq":
            form = "max-q"
        elif match := _MEMORY.fullmatch(word):
            memory = float(match[1])
        elif word.startswith("hbm"):
            hbm = True
        elif "pro" in words and word in _EDITIONS:
            edition = _EDITIONS[word]
        elif word not in _NOISE:
            words.append(word)
    key = tuple(_settle(words))
    if form is None:
        form = "sxm" if hbm and key == ("h100",) else _IMPLIED_FORM.get(key)
    # A Max-Q board is its own thing: "Workstation" is said of the full one.
    return GpuName(words=key, form=form, memory_gb=memory, edition=None if form == "max-q" else edition)


def _tokens(name: str) -> list[str]:
    text = re.sub(r"[_\-/,()\s]+", " ", name.casefold()).strip()
    text = text.replace("max q", "maxq")
    text = _MEMORY_AHEAD.sub(r"\1gb", text)
    text = _GLUED.sub(r"\1 ", _GLUED.sub(r"\1 ", text))
    return _ADA.sub(r"\1 ada", text).split()


def _settle(words: list[str]) -> list[str]:
    if words[:1] == ["q"]:
        words = ["quadro", *words[1:]]
    if len(words) == 1 and re.fullmatch(r"970|980", words[0]):
        words = ["gtx", *words]
    if words[:1] == ["rtx"] and len(words) == 2 and _WORKSTATION_A.fullmatch(words[1]):
        words = words[1:]  # "RTX A6000" is sold as "A6000" too, and no other card is
    if words in (["rtx", "6000"], ["rtx", "8000"]):
        words = ["quadro", *words]
    return _suffixes(words)


def _suffixes(words: list[str]) -> list[str]:
    out: list[str] = []
    for index, word in enumerate(words):
        if (match := _SUPER.fullmatch(word)) and "pro" not in words:
            out += [match[1], "super"]
        elif match := _SUFFIXED.fullmatch(word):
            out += [match[1], match[2]]
        elif word == "s" and index == len(words) - 1:
            out.append("super")
        else:
            out.append(word)
    # "4070S Ti" and "4070 Ti SUPER" are one card.
    return [*(w for w in out if w != "super"), "super"] if "super" in out else out


_BY_WORDS: Final[Mapping[tuple[str, ...], Known]] = {
    parse(display).words: Known(display=display, capability=capability, sizes_gb=sizes)
    for capability, rows in TABLE
    for display, sizes in rows
}


def known(name: str) -> Known | None:
    """The table's row for `name`, or None where the model isn't in it."""
    return _BY_WORDS.get(parse(name).words)


def model_name(name: str) -> str:
    """One spelling per model, without form factor or memory: the key of compute times.

    A model that the table lacks keeps its raw name, blanks squeezed.
    """
    row = known(name)
    return row.display if row else " ".join(name.split())


def canonical(name: str) -> str:
    """How gipper shows a GPU: the model and, where the name tells it, the form factor or edition."""
    row = known(name)
    if row is None:
        return " ".join(name.split())
    parts = parse(name)
    more = parts.form if parts.words not in _IMPLIED_FORM or parts.form != "sxm" else None
    shown = {"sxm": "SXM", "pcie": "PCIe", "nvl": "NVL", "max-q": "Max-Q"}
    words = [row.display, shown.get(more or "", ""), (parts.edition or "").capitalize()]
    return " ".join(w for w in words if w)


def gpu_model(name: str, memory_gb: float | None = None) -> GpuModel:
    """A `GpuModel` from a provider's own name. `memory_gb` is as sold (see `memory_as_sold`); where it
    is None the name's own size counts, then the table's usual one, then 0 (unknown)."""
    row, parts = known(name), parse(name)
    usual = row.sizes_gb[0] if row else 0.0
    size = memory_gb if memory_gb is not None else parts.memory_gb or usual
    return GpuModel(name=canonical(name), memory_gb=size, compute_capability=row.capability if row else None)


def capability_of(model: GpuModel) -> tuple[int, int] | None:
    """The provider's word on the compute capability, else the table's, else None."""
    if model.compute_capability is not None:
        return model.compute_capability
    row = known(model.name)
    return row.capability if row else None


def same_model(wanted: str, model: GpuModel) -> bool:
    """True where `model` is what a person means by `wanted`.

    Words must be the same ("L4" is not L40). Form factor, edition and memory count only where `wanted`
    has them; a size may differ from the sold one by the slack of `memory_as_sold`.
    """
    want, have = parse(wanted), parse(model.name)
    if want.words != have.words or not want.words:
        return False
    if want.form not in (None, have.form) or want.edition not in (None, have.edition):
        return False
    return want.memory_gb is None or abs(want.memory_gb - model.memory_gb) <= want.memory_gb * _SLACK


def rank_among(preferred: Sequence[str], model: GpuModel | None) -> int | None:
    """Position of the first name in `preferred` that means `model`, or None."""
    if model is None:
        return None
    return next((i for i, name in enumerate(preferred) if same_model(name, model)), None)


def memory_as_sold(mib: float) -> float | int:
    """GB on the box of a card that reports `mib` MiB: 24564 gives 24, 22528 gives 22, 24000 gives 24.

    A sold size within 0.5 % wins, else the next sold size up to 8 % above (ECC and firmware take a
    share), else whole GiB: an amount that no card is sold with stays what it is.
    """
    gib = mib / 1024
    near = next((s for s in SIZES_GB if abs(gib - s) <= s * _EXACT), None)
    above = next((s for s in SIZES_GB if s >= gib and (s - gib) <= s * _SLACK), None)
    found = near or above or gib
    whole = round(found)
    return whole if whole >= 1 else round(found, 2)
