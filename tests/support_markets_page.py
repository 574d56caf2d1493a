"""Makes docs/markets.md from the installed providers: `python tests/support_markets_page.py > docs/markets.md`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gipper.plugins.registry import Registry

HEAD = """# Markets, side by side

Made from what the installed plugins say of themselves; a test keeps the two equal.
"""
OURS = ("local", "runpod", "shadeform", "vast")
Cell = Callable[[Any], str]


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _has(hook: str) -> Cell:
    return lambda loaded: _yes(hook in loaded.hooks)


def _fact(name: str) -> Cell:
    return lambda loaded: _yes(getattr(loaded.info, name))


def _seconds(name: str) -> Cell:
    def cell(loaded: Any) -> str:
        value = getattr(loaded.info, name)
        return "not promised" if value is None else f"{value:g} s"

    return cell


ROWS: dict[str, Cell] = {
    "key": lambda loaded: f"`{loaded.info.key_name}`" if loaded.info.key_name else "none",
    "log in as": lambda loaded: f"`{loaded.info.ssh_user}`",
    "offers without a key": _fact("keyless_offers"),
    "spot": _fact("spot"),
    "TCP ports": _fact("tcp"),
    "UDP ports": _fact("udp"),
    "machines without a GPU": _fact("cpu"),
    "countries known": _fact("regions_known"),
    "transfer fees told": _fact("fees_advertised"),
    "usual time to SSH": _seconds("ready_s"),
    "a new machine is listed within": _seconds("appear_s"),
    "an ending is tried for": _seconds("gone_patience_s"),
    "watchdog on the machine": _has("gipper_watchdog"),
    "a timer of its own": _has("gipper_set_end"),
    "says why a machine failed": _has("gipper_diagnose"),
    "account": _has("gipper_account"),
    "bills": _has("gipper_billed"),
    "costs beside the rate": _has("gipper_adjust_costs"),
    "says what still bills afterwards": _has("gipper_leftovers"),
}


def page() -> str:
    """The whole page."""
    registry = Registry.discover(prefer={}, disabled=())
    loaded = {name: registry.load_provider(name) for name in OURS if name in registry.provider_names()}
    head = ["", *(found.info.title for found in loaded.values())]
    lines = [HEAD, _row(head), _row(["---"] * len(head))]
    lines += [_row([text, *(cell(found) for found in loaded.values())]) for text, cell in ROWS.items()]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(page(), end="")
