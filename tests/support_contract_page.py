"""Makes docs/plugin-contract.md from the suite: `python tests/support_contract_page.py > docs/plugin-contract.md`."""

from __future__ import annotations

from gipper.testing.contract import CHECKS, SCENARIOS

HEAD = """# The contract of a provider

What core relies on, sentence by sentence. Made from `gipper.testing.contract`; a test keeps the two equal.
[The tutorial](plugin-tutorial.md) begins from nothing, [hooks](hooks.md) has each hook's arguments and failures.

## What a driver must never do

- **Repeat a create.** One `gipper_rent`, one request. Where its answer is lost or can't be read, it raises `Doubtful`,
  and core looks for the machine by its name. This is the sentence that costs the most money when it is broken.
- **Take an error for "nothing".** A list that failed, a page that is missing, a body that can't be read, a key that was
  refused: each is an error. Core believes that a machine is gone because complete listings lack it.
- **Say gone too early.** `gipper_describe` is None only on the market's own "not found". Stopped, exited and failed
  machines are listed: they may still bill.
- **Show a key.** It travels in a request's header. Not in a URL, a body, a message, a `repr`, and not on the machine.
- **Wait on a clock of its own.** `context.runtime` is the only clock, sleep and thread.

## Who does what

| core does | a driver does |
|---|---|
| names the machine, keeps the ledger, decides what to rent | says what is on offer and what it costs, disk included |
| looks again after doubt, tries other offers | says which of the five words a create was |
| waits, dials, checks, uploads, runs, collects | tells state and addresses as the market tells them |
| ends, and proves the end by listings | asks the market to end it |
| counts money, compares it with bills | hands on bills as they stand, windows and all |
| filters offers by the job | hands on what its own API can filter |

Core checks every answer: another name, a price that is no amount, an id given twice, a machine of somebody else's. What
doesn't hold is an error with the plugin's name and version.

## The suite

```python
from gipper.testing import contract


class TestAcme(contract.Suite):
    def make_bench(self, folder):
        return AcmeBench(folder)  # a contract.Bench: provider_class, and how to arrange each scenario
```

With `pytest_plugins = ["gipper.testing.pytest_plugin"]` in `conftest.py`, the run ends with what was proved, what was
not shown and why; `--gipper-report FILE` writes it as JSON. A bench raises `Unsupported("why")` for a scenario that its
market can't have. `contract.LiveSuite` rents one real machine, only with `pytest --gipper-live USD_PER_HOUR`, and ends
it again.

Checks of machines and rules need no market: `gipper.testing.FakeRemote` answers commands from a table, `FakeMarket` is
a provider that a test scripts, `SimRuntime` is a clock that runs as fast as the test.

## Sentences
"""


def page() -> str:
    """The whole page."""
    lines = [HEAD, "| id | sentence | only with |", "|---|---|---|"]
    lines += [f"| {c.id} | {c.text} | {f'`{c.hook}`' if c.hook else ''} |" for c in CHECKS]
    lines += ["", "## Scenarios", "", "| name | the market, from then on |", "|---|---|"]
    lines += [f"| `{name}` | {text} |" for name, text in SCENARIOS.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
