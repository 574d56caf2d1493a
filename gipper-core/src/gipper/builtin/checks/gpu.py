"""The GPUs as nvidia-smi tells of them: present, as offered, idle, and new enough for the job."""

from __future__ import annotations

from typing import Final

from gipper.api import BadHost, CheckResult, CommandTimeout, Job, Machine, Remote, Unsuitable, hookimpl
from gipper.builtin.checks import gpu_judging as judging
from gipper.builtin.checks.common import no_gpu, offered_gpus, with_facts
from gipper.builtin.checks.gpu_answer import BUSY_PERCENT, CARD_FIELDS, NO_TIMEOUT, Told, read

_SMI_S: Final = 20
_ASK_S: Final = 90.0
# One answer: a line that names each part, then the part. Use can be high for a moment just because
# nvidia-smi woke the card up, so a busy one is looked at up to three times.
_SCRIPT: Final = f"""\
PATH=$PATH:/usr/local/nvidia/bin:/usr/bin
command -v nvidia-smi >/dev/null 2>&1 || {{ echo '== missing'; exit 0; }}
command -v timeout >/dev/null 2>&1 || {{ echo '== {NO_TIMEOUT}'; exit 0; }}
smi() {{ timeout -s KILL {_SMI_S} nvidia-smi "$@" --format=csv,noheader,nounits </dev/null; }}
fields={",".join(CARD_FIELDS)}
busy() {{
  while IFS= read -r line; do
    [ "${{line##*, }}" -gt {BUSY_PERCENT} ] 2>/dev/null && return 0
  done
  return 1
}}
echo "== visible ${{CUDA_VISIBLE_DEVICES-}}"
out=$(smi --query-gpu=$fields 2>&1) ; status=$?
if [ "$status" != 0 ]; then
  case $out in *compute_cap*)
    fields={",".join("index" if f == "compute_cap" else f for f in CARD_FIELDS)}
    echo '== old'
    out=$(smi --query-gpu=$fields 2>&1) ; status=$? ;;
  esac
fi
[ "$status" = 0 ] || {{ echo "== failed $status"; printf '%s\\n' "$out"; exit 0; }}
tries=0
while :; do
  echo '== cards'
  printf '%s\\n' "$out"
  tries=$((tries+1))
  if [ $tries = 3 ] || ! printf '%s\\n' "$out" | busy; then break; fi
  sleep 1
  out=$(smi --query-gpu=$fields) || break
done
echo '== apps'
smi --query-compute-apps=pid,used_memory,process_name
exit 0
"""


@hookimpl
def gipper_preflight(remote: Remote, job: Job, machine: Machine) -> CheckResult:
    """Count, model, memory and idleness of the GPUs, and the job's floor of compute capability.

    Raises BadHost for what isn't as offered, is in use or doesn't answer; Unsuitable for cards that
    are too old or too small for the job.
    """
    count = offered_gpus(job, machine)
    if not count:
        return no_gpu(job)
    try:
        answer = remote.ask(_SCRIPT, timeout_s=_ASK_S)
    except CommandTimeout as error:
        raise BadHost(f"nvidia-smi hangs: no answer within {_ASK_S:g} s, and it can't be ended") from error
    told = read(answer.text)
    if told.status == NO_TIMEOUT:
        raise Unsuitable("the machine has no `timeout`, which every check and the job need")
    facts = told.facts()
    for blame in (told.trouble(_SMI_S), judging.not_as_offered(told.cards, machine, count)):
        if blame is not None:
            raise with_facts(BadHost(blame), facts)
    _judge(told, job, machine, count)
    return CheckResult(facts=facts)


def _judge(told: Told, job: Job, machine: Machine, count: int) -> None:
    in_use = judging.busy(told.cards, told.apps)
    if in_use is not None:
        raise with_facts(BadHost(in_use), told.facts())
    lacking = judging.unsuitable(told.cards, job, machine)
    if lacking is not None:
        raise with_facts(Unsuitable(lacking), told.facts())
