"""What the cost model asks of experience, and the answers of a client that has none."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, NamedTuple, Protocol

Direction = Literal["down", "up"]

# Chance of a bad host where nothing is known, and the weight (in rentals) of that belief.
PRIOR_P_FAIL: Final = 0.10
PRIOR_RENTALS: Final = 5
MACHINE_WEIGHT: Final = 2
# Log-normal spread of a phase that was seen too seldom to say.
DEFAULT_SIGMA: Final = 0.5
ENOUGH: Final = 5


class Sourced(NamedTuple):
    """A figure and where it came from, in words that the estimate shows."""

    value: float
    source: str


class Failures(NamedTuple):
    """Rentals counted: bad and all of the provider, bad and all of the machine."""

    bad: int
    n: int
    bad_machine: int
    n_machine: int


class Spread(NamedTuple):
    """Standard deviation and mean (`bias`) of ln(actual / predicted) of a phase, over `n` runs."""

    sigma: float
    n: int
    bias: float = 0.0


class History(Protocol):
    """The ledger's lessons. None = not enough is known (each method has its own least number)."""

    def hosts(self, provider: str) -> Collection[str | None]:
        """The provider's machines that anything is known of; only they are asked about by name."""

    def ready_s(self, provider: str, host: str | None) -> Sourced | None:
        """Median seconds until SSH answered, of the machine, else of the provider (3 or more)."""

    def link_mbps(
        self, provider: str, host: str | None, region: str | None, direction: Direction
    ) -> Sourced | None:
        """Median measured Mb/s, seen from the host: of the machine, provider and country, provider."""

    def compute_s(self, workload: str, gpu: str) -> Sourced | None:
        """Median seconds of succeeded runs of `workload` on a model (named as `gpus.model_name` does)."""

    def setup_s(self, workload: str) -> Sourced | None:
        """Median measured seconds of `run.setup` in succeeded runs of `workload` (3 or more)."""

    def billing_factor(self, provider: str) -> Sourced | None:
        """Billed over computed of the provider's rentals that have both (3 or more)."""

    def failures(self, provider: str, host: str | None) -> Failures:
        """Counts for `p_fail`, of rentals that were good or bad; zeros where nothing is known."""

    def bad_twice(self, provider: str, host: str) -> bool:
        """True where the machine's last two rentals that were good or bad were both bad."""

    def spread(self, phase: str) -> Spread:
        """How far this phase's predictions were off; `n` = 0 where none was graded."""


class NoHistory:
    """The history of a client that never rented anything."""

    def hosts(self, _provider: str) -> Collection[str | None]:
        return ()

    def ready_s(self, _provider: str, _host: str | None) -> Sourced | None:
        return None

    def link_mbps(
        self, _provider: str, _host: str | None, _region: str | None, _direction: Direction
    ) -> Sourced | None:
        return None

    def compute_s(self, _workload: str, _gpu: str) -> Sourced | None:
        return None

    def setup_s(self, _workload: str) -> Sourced | None:
        return None

    def billing_factor(self, _provider: str) -> Sourced | None:
        return None

    def failures(self, _provider: str, _host: str | None) -> Failures:
        return Failures(0, 0, 0, 0)

    def bad_twice(self, _provider: str, _host: str) -> bool:
        return False

    def spread(self, _phase: str) -> Spread:
        return Spread(DEFAULT_SIGMA, 0)


def p_fail(failures: Failures) -> float:
    """Chance that a rental turns out bad: the provider's rate shrunk towards the prior, the machine's
    own towards the provider's. Always inside (0, 1)."""
    bad, n, bad_machine, n_machine = failures
    provider = (bad + PRIOR_RENTALS * PRIOR_P_FAIL) / (n + PRIOR_RENTALS)
    return (bad_machine + MACHINE_WEIGHT * provider) / (n_machine + MACHINE_WEIGHT)
