"""Our own check of a virtual machine: first boot over, driver there, the firewall open for the job's ports.

Login is an ordinary user who may become root by sudo without a password. What needs root here is only a
firewall that is already active; none is ever switched on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

from gipper.api import CheckResult, Job, Machine, Port, Remote, Unsuitable

_BOOT_S: Final = 240
_ASK_S: Final = 330.0
# Lines of "name value"; the ports stand in $@ as N/protocol.
_SCRIPT: Final = """\
PATH=$PATH:/usr/local/nvidia/bin:/usr/sbin:/sbin
s=; [ "$(id -u)" = 0 ] || s="sudo -n"
if $s true 2>/dev/null; then echo "root yes"; else echo "root no"; fi
if command -v cloud-init >/dev/null 2>&1; then
  told=$(timeout {boot} cloud-init status --wait 2>/dev/null | sed -n 's/^[. ]*status: *//p' | head -n 1)
  echo "boot ${{told:-unknown}}"
fi
if command -v nvidia-smi >/dev/null 2>&1 || [ -e /proc/driver/nvidia/version ]; then echo "driver yes"
else echo "driver no"; fi
[ $# -gt 0 ] || exit 0
$s true 2>/dev/null || {{ echo "firewall unknown"; exit 0; }}
wall=none
case $($s ufw status 2>/dev/null) in *"Status: active"*) wall=ufw ;; esac
if [ $wall = none ]; then
  rules=$($s iptables -S INPUT 2>/dev/null)
  case $rules in *"-P INPUT DROP"* | *"-P INPUT REJECT"* | *"-j REJECT"* | *"-j DROP"*) wall=iptables ;; esac
fi
echo "firewall $wall"
for one; do
  number=${{one%/*}} kind=${{one#*/}}
  case $wall in
  ufw) $s ufw allow "$one" >/dev/null 2>&1 ;;
  iptables)
    $s iptables -C INPUT -p "$kind" --dport "$number" -j ACCEPT 2>/dev/null ||
      $s iptables -I INPUT 1 -p "$kind" --dport "$number" -j ACCEPT >/dev/null 2>&1 ;;
  *) true ;;
  esac && echo "open $one" || echo "shut $one"
done
exit 0
"""


@attrs.frozen(kw_only=True)
class Found:
    """What the machine said; None where it didn't."""

    root: bool | None = None
    boot: str | None = None
    driver: bool | None = None
    firewall: str | None = None
    shut: tuple[str, ...] = ()

    def facts(self) -> dict[str, object]:
        """For the receipt."""
        return {k: v for k, v in attrs.asdict(self).items() if v not in (None, ())}


def preflight(remote: Remote, job: Job, machine: Machine) -> CheckResult:
    """Wait for the first boot (240 s at most), then look and open. Raises Unsuitable."""
    answer = remote.ask(script(machine.ports), timeout_s=_ASK_S)
    found = read(answer.text)
    why = judged(found, gpus=job.gpu.count > 0 and machine.gpu_count != 0)
    if why is not None:
        raise Unsuitable(why)
    return CheckResult(facts=found.facts())


def script(ports: Sequence[Port]) -> str:
    """The check for these ports, as text for a shell."""
    words = " ".join(f"{int(p.inside)}/{'udp' if p.protocol == 'udp' else 'tcp'}" for p in ports)
    return f"set -- {words}\n" + _SCRIPT.format(boot=_BOOT_S)


def read(text: str) -> Found:
    """From the script's output; never raises."""
    told = {name: _line(text, name) for name in ("root", "boot", "driver", "firewall")}
    return Found(
        root=_yes(told["root"]),
        boot=told["boot"],
        driver=_yes(told["driver"]),
        firewall=told["firewall"],
        shut=tuple(re.findall(r"^shut (\d{1,5}/(?:tcp|udp))$", text, re.MULTILINE)),
    )


def judged(found: Found, *, gpus: bool) -> str | None:
    """Why the machine doesn't suit; None where it does."""
    if gpus and found.driver is False:
        return "its image brings no NVIDIA driver: set os under [provider.shadeform] to one that does"
    if found.shut:
        lacking = "" if found.root else ", and its user may not become root (sudo)"
        return f"its firewall ({found.firewall}) could not be opened for {', '.join(found.shut)}{lacking}"
    return None


def _line(text: str, name: str) -> str | None:
    found = re.search(rf"^{name} (\S.{{0,60}})$", text, re.MULTILINE)
    return found[1].strip() if found else None


def _yes(word: str | None) -> bool | None:
    return None if word is None else word == "yes"
