"""A fake nvidia-smi: answers csv queries from `smi.json` beside it; `begin` of a copy is its interpreter.

`{"cards": [{field: value}], "apps": [{field: value}], "hang": bool, "status": int, "unknown": [field],
"samples": [[percent of card 0, ...], ...]}`. The n-th call for cards takes the n-th row of `samples`
(the last one from then on); calls are counted in `smi.calls`.
"""

import json
import signal
import sys
from pathlib import Path

HERE = Path(sys.argv[0]).resolve().parent


def _calls() -> int:
    with (HERE / "smi.calls").open("a+") as file:
        file.write("c")
        file.seek(0)
        return len(file.read())


def _asked(option: str) -> list[str] | None:
    found = [a.partition("=")[2] for a in sys.argv[1:] if a.startswith(f"{option}=")]
    return found[0].split(",") if found else None


def _print(rows: list[dict[str, str]], fields: list[str]) -> None:
    for row in rows:
        print(", ".join(str(row.get(f, "[N/A]")) for f in fields))


def main() -> None:
    given = json.loads((HERE / "smi.json").read_text())
    if given.get("hang"):
        signal.pause()
    if given.get("status"):
        print("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
        sys.exit(given["status"])
    apps, fields = _asked("--query-compute-apps"), _asked("--query-gpu")
    if apps is not None:
        _print(given.get("apps", []), apps)
    if fields is None:
        return
    for field in fields:
        if field in given.get("unknown", ()):
            print(f'Field "{field}" is not a valid field to query.')
            sys.exit(2)
    samples = given.get("samples")
    cards = given["cards"]
    if samples:
        row = samples[min(_calls(), len(samples)) - 1]
        cards = [{**c, "utilization.gpu": u} for c, u in zip(cards, row, strict=True)]
    _print(cards, fields)


main()
