"""Reads what the script of the GPU check printed."""

from __future__ import annotations

from typing import Any, Final

import attrs

BUSY_PERCENT: Final = 10
# The last one is the use: the script looks at it.
CARD_FIELDS: Final = (
    "index",
    "uuid",
    "name",
    "memory.total",
    "memory.used",
    "driver_version",
    "compute_cap",
    "utilization.gpu",
)
NO_TIMEOUT: Final = "no timeout"
_KILLED: Final = ("124", "137", "143")
_MARK: Final = "== "


@attrs.frozen(kw_only=True)
class Card:
    """One GPU; memory in MiB, `use` in percent. What the driver doesn't tell is None."""

    index: str
    uuid: str
    name: str
    memory: float | None = None
    used: float | None = None
    driver: str | None = None
    capability: tuple[int, int] | None = None
    use: float | None = None


@attrs.frozen(kw_only=True)
class Told:
    """The whole answer: the cards that a job would see, processes on them, and what went wrong."""

    cards: tuple[Card, ...] = ()
    apps: tuple[str, ...] = ()
    status: str = ""
    text: str = ""

    def trouble(self, limit_s: int) -> str | None:
        """Why nvidia-smi gave no answer, or None."""
        if self.status == "missing":
            return "there is no nvidia-smi on a machine that was offered with a GPU"
        if self.status in _KILLED:
            return f"nvidia-smi hangs: no answer within {limit_s} s"
        if self.status:
            return f"nvidia-smi failed (status {self.status}): {self.text[:200]}"
        return None if self.cards else "nvidia-smi names no GPU"

    def facts(self) -> dict[str, Any]:
        """For the receipt. One driver text, however many cards repeat it."""
        return {
            "driver": ", ".join(dict.fromkeys(c.driver for c in self.cards if c.driver)) or None,
            "names": [c.name for c in self.cards],
            "memory_mib": [c.memory for c in self.cards],
            "used_mib": [c.used for c in self.cards],
            "use_percent": [c.use for c in self.cards],
            "capability": [version(c.capability) for c in self.cards],
            "processes": list(self.apps),
        }


def version(capability: tuple[int, int] | None) -> str | None:
    """A compute capability as people write it."""
    return None if capability is None else f"{capability[0]}.{capability[1]}"


def read(text: str) -> Told:
    """Never raises: what can't be read is left out, or unknown."""
    visible, status, old, rounds = "", "", False, list[list[Card]]()
    apps: list[str] = []
    rest: list[str] = []
    for name, lines in _parts(text):
        word, _, value = name.partition(" ")
        if word == "visible":
            visible = value
        elif word == "old":
            old = True
        elif word == "cards":
            rounds.append([c for line in lines if (c := _card(line, old)) is not None])
        elif word == "apps":
            apps = [line.strip() for line in lines if line.strip()[:1].isdigit()]
        else:
            status, rest = (value if word == "failed" else name), lines
    cards = _seen(_calmest(rounds), visible)
    return Told(cards=tuple(cards), apps=tuple(apps), status=status, text=" ".join(rest).strip())


def _parts(text: str) -> list[tuple[str, list[str]]]:
    parts: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith(_MARK):
            parts.append((line[len(_MARK) :].strip(), []))
        elif parts and line.strip():
            parts[-1][1].append(line)
    return parts


def _card(line: str, old: bool) -> Card | None:
    cells = [c.strip() for c in line.split(",")]
    if len(cells) != len(CARD_FIELDS) or not cells[0].isdigit():
        return None
    told = dict(zip(CARD_FIELDS, cells, strict=True))
    return Card(
        index=told["index"],
        uuid=told["uuid"],
        name=told["name"],
        memory=_number(told["memory.total"]),
        used=_number(told["memory.used"]),
        driver=told["driver_version"] if told["driver_version"][:1].isdigit() else None,
        capability=None if old else _capability(told["compute_cap"]),
        use=_number(told["utilization.gpu"]),
    )


def _calmest(rounds: list[list[Card]]) -> list[Card]:
    """Each card with its lowest use of all rounds, and all else from the last one."""
    if not rounds:
        return []
    lowest: dict[str, float] = {}
    for card in (c for one in rounds for c in one if c.use is not None):
        lowest[card.uuid] = min(card.use or 0.0, lowest.get(card.uuid, card.use or 0.0))
    return [attrs.evolve(c, use=lowest.get(c.uuid, c.use)) for c in rounds[-1]]


def _seen(cards: list[Card], visible: str) -> list[Card]:
    """The cards that CUDA_VISIBLE_DEVICES leaves; all of them where it doesn't name cards that exist."""
    names = [n.strip() for n in visible.split(",") if n.strip()]
    chosen = [c for c in cards if any(n == c.index or _same_uuid(n, c.uuid) for n in names)]
    return chosen or cards


def _same_uuid(name: str, uuid: str) -> bool:
    return name.startswith("GPU-") and uuid.startswith(name)


def _number(text: str) -> float | None:
    return float(text) if text.replace(".", "", 1).isdigit() else None


def _capability(text: str) -> tuple[int, int] | None:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
