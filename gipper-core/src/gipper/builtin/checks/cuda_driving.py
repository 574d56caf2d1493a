"""Runs code in a fresh python3 with the job's own library path, and tries again where that can help.

Two errors are met with patience, and nothing else is: 802 (the host's fabric isn't up yet) is waited for,
804 (forward compatibility refused) gets one more attempt without forward-compatibility entries.
"""

from __future__ import annotations

import shlex
from typing import Any, Final

import attrs

from gipper.api import CommandTimeout, Job, Remote
from gipper.builtin.checks.cuda_answer import Answer, read

VARIABLE: Final = "LD_LIBRARY_PATH"
NOT_READY: Final = 802
COMPAT_REFUSED: Final = 804
FIRST_PROCESS: Final = "first-process"
_POLL_S: Final = 5
_SLACK_S: Final = 20.0
# In a container an SSH session lacks the container's own variables: its first process has them.
_FIND_PATH: Final = f"""\
first=$({{ tr '\\0' '\\n' </proc/1/environ | sed -n 's/^{VARIABLE}=//p'; }} 2>/dev/null)
if [ -n "$first" ]; then {VARIABLE}=$first; basis={FIRST_PROCESS}
elif [ -n "${{{VARIABLE}-}}" ]; then basis=session; else basis=unset; fi
[ $basis = unset ] || export {VARIABLE}
"""
_SCRIPT: Final = """\
command -v python3 >/dev/null 2>&1 || {{ echo 'no python3'; exit 0; }}
{path}code={code}
read -r up _ </proc/uptime; begun=${{up%%.*}}
tries=0
while :; do
  tries=$((tries+1))
  out=$(timeout -s KILL {limit} python3 -I -c "$code" </dev/null 2>/dev/null)
  status=$?
  read -r up _ </proc/uptime; waited=$(( ${{up%%.*}} - begun ))
  case $out in *'"error": {not_ready}'*) ;; *) break ;; esac
  [ $waited -lt {wait} ] || break
  sleep {poll}
done
printf '%s %s %s %s\\n%s\\n' $status $tries $waited $basis "$out"
"""


@attrs.frozen(kw_only=True)
class Driven:
    """The outcome of all attempts. `removed` are the entries that the counted attempt did without."""

    answer: Answer
    basis: str
    attempts: int
    waited_s: int = 0
    removed: tuple[str, ...] = ()
    first_error: int | None = None
    note: str | None = None

    @property
    def override(self) -> str | None:
        """The cleaned path that the job must get; None where none is needed."""
        return self.answer.path if self.removed else None

    def facts(self, fault: str | None) -> dict[str, Any]:
        """For the receipt."""
        return {
            "attempts": self.attempts,
            "status": "passed" if fault is None else "failed",
            "basis": self.basis,
            "override": self.override if fault is None else None,
            "removed": list(self.removed),
            "error": self.answer.error if fault else self.first_error,
            "waited_s": self.waited_s,
            "devices": self.answer.count,
        }


def drive(remote: Remote, job: Job, code: str, *, limit_s: int, wait_s: int) -> Driven:
    """Run `code`, at most `limit_s` an attempt, waiting `wait_s` in all while the host isn't ready."""
    first = _settled(remote, code, job.pod.env.get(VARIABLE), "job", limit_s, wait_s)
    done = Driven(
        answer=first,
        basis=first.basis,
        attempts=first.tries,
        waited_s=first.waited_s,
        first_error=first.error,
    )
    if first.error != COMPAT_REFUSED:
        return done
    kept, removed = without_compat(first.path)
    if not removed:
        return done
    again = _settled(remote, code, kept, "cleaned", limit_s, max(0, wait_s - first.waited_s))
    done = attrs.evolve(done, attempts=first.tries + again.tries, waited_s=first.waited_s + again.waited_s)
    if again.told and again.path != kept:
        return attrs.evolve(done, note=f"a try without {', '.join(removed)} had another {VARIABLE}")
    return attrs.evolve(done, answer=again, removed=removed)


def without_compat(path: str) -> tuple[str, tuple[str, ...]]:
    """`path` without entries for forward compatibility, and what these were."""
    entries = path.split(":")
    removed = tuple(e for e in entries if _is_compat(e))
    return ":".join(e for e in entries if not _is_compat(e)), removed


def _is_compat(entry: str) -> bool:
    parts = [p for p in entry.split("/") if p]
    if any(p.startswith("cuda-compat-") for p in parts):
        return True
    return parts[-1:] == ["compat"] and any(p.startswith("cuda") for p in parts[:-1])


def _settled(remote: Remote, code: str, path: str | None, basis: str, limit_s: int, wait_s: int) -> Answer:
    first = _ask(remote, code, path, basis, limit_s, 0)
    if first.error != NOT_READY or wait_s <= 0:
        return first
    later = _ask(remote, code, path, basis, limit_s, wait_s)
    return attrs.evolve(later, tries=first.tries + later.tries)


def _ask(remote: Remote, code: str, path: str | None, basis: str, limit_s: int, wait_s: int) -> Answer:
    given = "" if path is None else f"{VARIABLE}={shlex.quote(path)}; export {VARIABLE}; basis={basis}\n"
    script = _SCRIPT.format(
        path=given or _FIND_PATH, code=shlex.quote(code), limit=limit_s, wait=wait_s, poll=_POLL_S,
        not_ready=NOT_READY,
    )  # fmt: skip
    try:
        return read(remote.ask(script, timeout_s=wait_s + limit_s + _POLL_S + _SLACK_S).text)
    except CommandTimeout:
        # Killed and still there: it hangs inside the driver.
        return Answer(status=137, waited_s=wait_s, basis=basis)
