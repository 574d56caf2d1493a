"""Disk and memory as promised."""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

from gipper.api import BadHost, CheckResult, Machine, Remote, hookimpl
from gipper.builtin.checks.common import with_facts

# Markets round, file systems and firmware keep something for themselves.
_DISK_SHARE: Final = 0.9
_MEMORY_SHARE: Final = 0.9
_GB: Final = 1e9
# A container sees its host's memory in /proc; what it may use is its control group's.
_SCRIPT: Final = """\
for group in memory.max memory/memory.limit_in_bytes; do
  read -r limit <"/sys/fs/cgroup/$group" && echo "limit $limit"
done 2>/dev/null
while read -r name kib _; do [ "$name" = MemTotal: ] && echo "memory $kib"; done </proc/meminfo
df -Pk "$HOME" 2>/dev/null
exit 0
"""


@attrs.frozen(kw_only=True)
class Room:
    """GB (10^9 bytes) of free disk under the home folder and of memory in all; None = not told."""

    disk_gb: float | None = None
    memory_gb: float | None = None


@hookimpl
def gipper_preflight(remote: Remote, machine: Machine) -> CheckResult:
    """Free disk and memory in all, at least nine tenths of what was promised. Raises BadHost.

    What wasn't promised, or what the machine doesn't tell, isn't judged.
    """
    room = read(remote.ask(_SCRIPT, timeout_s=30.0).text)
    facts = _facts(room, machine)
    pairs = (
        ("disk free", room.disk_gb, machine.disk_gb, _DISK_SHARE),
        ("memory", room.memory_gb, machine.memory_gb, _MEMORY_SHARE),
    )
    for what, found, promised, share in pairs:
        if found is not None and promised is not None and found < promised * share:
            text = f"{promised:.4g} GB of {what} were promised, there are {found:.4g} GB"
            raise with_facts(BadHost(text), facts)
    return CheckResult(facts=facts)


def read(text: str) -> Room:
    """From the script's output; never raises."""
    total = re.search(r"^memory (\d+)$", text, re.MULTILINE)
    limit = re.search(r"^limit (\d+)$", text, re.MULTILINE)
    disk = re.search(r"\s\d+\s+\d+\s+(\d+)\s+\d+%\s+/", text)
    amounts = [int(total[1]) * 1024] if total else []
    # Without a limit the number is absurdly large, or the word "max".
    amounts += [int(limit[1])] if limit and total else []
    return Room(
        disk_gb=int(disk[1]) * 1024 / _GB if disk else None,
        memory_gb=min(amounts) / _GB if amounts else None,
    )


def _facts(room: Room, machine: Machine) -> dict[str, Any]:
    found = {"disk_gb": room.disk_gb, "memory_gb": room.memory_gb}
    promised = {"disk_promised_gb": machine.disk_gb, "memory_promised_gb": machine.memory_gb}
    return {**{k: v if v is None else round(v, 2) for k, v in found.items()}, **promised}
