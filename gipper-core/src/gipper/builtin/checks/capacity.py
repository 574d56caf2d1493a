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
    """GB (10^9 bytes) of free disk under the home folder, of memory in all, and the container's limit on
    memory; None = not told, or no limit."""

    disk_gb: float | None = None
    memory_gb: float | None = None
    limit_gb: float | None = None

    def memory_for(self, promised_gb: float) -> float | None:
        """What stands against the promise. A share of the host is held to the container's limit; a
        market that promises all that the host has speaks of the host."""
        if self.memory_gb is None or promised_gb >= self.memory_gb * _MEMORY_SHARE:
            return self.memory_gb
        return self.memory_gb if self.limit_gb is None else self.limit_gb


@hookimpl
def gipper_preflight(remote: Remote, machine: Machine) -> CheckResult:
    """Free disk and memory in all, at least nine tenths of what was promised. Raises BadHost.

    What wasn't promised, or what the machine doesn't tell, isn't judged.
    """
    room = read(remote.ask(_SCRIPT, timeout_s=30.0).text)
    lacking = _lacking(room, machine)
    if lacking is not None:
        raise with_facts(BadHost(lacking), _facts(room, machine))
    return CheckResult(facts=_facts(room, machine))


def read(text: str) -> Room:
    """From the script's output; never raises."""
    total = re.search(r"^memory ([0-9]{1,18})$", text, re.MULTILINE)
    limit = re.search(r"^limit ([0-9]{1,18})$", text, re.MULTILINE)
    disk = re.search(r"\s[0-9]+\s+[0-9]+\s+([0-9]{1,18})\s+[0-9]+%\s+/", text)
    memory = int(total[1]) * 1024 if total else None
    # Without a limit the number is absurdly large, or the word "max".
    limited = limit is not None and memory is not None and int(limit[1]) < memory
    return Room(
        disk_gb=int(disk[1]) * 1024 / _GB if disk else None,
        memory_gb=None if memory is None else memory / _GB,
        limit_gb=int(limit[1]) / _GB if limit and limited else None,
    )


def _lacking(room: Room, machine: Machine) -> str | None:
    memory = None if machine.memory_gb is None else room.memory_for(machine.memory_gb)
    pairs = (
        ("disk free", room.disk_gb, machine.disk_gb, _DISK_SHARE),
        ("memory", memory, machine.memory_gb, _MEMORY_SHARE),
    )
    for what, found, promised, share in pairs:
        if found is not None and promised is not None and found < promised * share:
            return f"{promised:.4g} GB of {what} were promised, there are {found:.4g} GB"
    return None


def _facts(room: Room, machine: Machine) -> dict[str, Any]:
    found = {k: v if v is None else round(v, 2) for k, v in attrs.asdict(room).items()}
    return {**found, "disk_promised_gb": machine.disk_gb, "memory_promised_gb": machine.memory_gb}
