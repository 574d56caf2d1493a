"""`gipper.remote.Remote` and `Dialer` over SSH."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gipper.errors import ConnectFailed, ConnectKind
from gipper.remote import Completed, Fetched, Known, Manifest, Progress, Sent, Target
from gipper.runtime import Event, Runtime
from gipper.ssh.bulk import BulkPool
from gipper.ssh.bytechannel import ByteChannel
from gipper.ssh.channel import run_command
from gipper.ssh.connection import Connection
from gipper.ssh.establish import establish, load_identity
from gipper.ssh.keys import KeyPair
from gipper.ssh.settings import Patience
from gipper.ssh.shell import ControlShell
from gipper.values.machines import Address

if TYPE_CHECKING:
    from gipper.transfer.scanning import MakeScanner

# From the least to the most telling: a refused login says more than another address that is closed.
_TELLING: Final[tuple[ConnectKind, ...]] = ("unreachable", "protocol", "auth", "host_key")
_BULK_LOGIN_S: Final = 30.0


class SshRemote:
    """One machine: a control connection, and others beside it for files, opened when needed.

    Any task may call any method at any time.
    """

    def __init__(
        self,
        runtime: Runtime,
        control: Connection,
        dial_bulk: Callable[[], Connection],
        scanner: MakeScanner | None = None,
    ) -> None:
        self._runtime = runtime
        self._scanner = scanner
        self._control = control
        self._shell = ControlShell(control)
        self._bulk = BulkPool(dial_bulk)

    @property
    def address(self) -> Address:
        """See `Remote.address`."""
        return self._control.address

    @property
    def fingerprint(self) -> str:
        """See `Remote.fingerprint`."""
        return self._control.host_key.fingerprint

    def run(
        self, command: str, *, stdin: bytes = b"", timeout_s: float = 60.0, limit: int = 4 << 20
    ) -> Completed:
        """See `Remote.run`. Raises RemoteError where the login shell ends before the command runs."""
        return run_command(self._control, command, stdin=stdin, timeout_s=timeout_s, limit=limit)

    def ask(self, script: str, *, timeout_s: float = 60.0) -> Completed:
        """See `Remote.ask`. What the script leaves in the background must not hold its streams."""
        return self._shell.ask(script, timeout_s)

    def open_channel(self, command: str) -> ByteChannel:
        """Start `command` on a connection for bulk data (`gipper.ssh.bytechannel.OpenChannel`)."""
        return self._bulk.open(command)

    def send(
        self, manifest: Manifest, base: str, *, progress: Progress | None = None, stop: Event | None = None
    ) -> Sent:
        """See `Remote.send`."""
        from gipper.transfer.upload import send_stream

        return send_stream(
            self.open_channel,
            manifest,
            base,
            progress=progress,
            stop=stop,
            runtime=self._runtime,
            scanner=self._scanner,
        )

    def fetch(
        self,
        base: str,
        source: str,
        dest: Path,
        *,
        known: MutableMapping[str, Known] | None = None,
        live: bool = False,
        max_bytes: int | None = None,
        progress: Progress | None = None,
        stop: Event | None = None,
    ) -> Fetched:
        """See `Remote.fetch`."""
        from gipper.transfer.incremental import fetch

        return fetch(
            self.open_channel,
            base,
            source,
            dest,
            known=known,
            live=live,
            max_bytes=max_bytes,
            progress=progress,
            stop=stop,
            runtime=self._runtime,
        )

    def close(self) -> None:
        """See `Remote.close`; takes a few seconds at most, whatever the link does."""
        self._control.close()
        self._bulk.close()
        self._shell.close()


class SshDialer:
    """`gipper.remote.Dialer` over SSH.

    `key` is called before each dial, so that gipper's key exists by then (see `keys.ensure_key`); the
    key that is offered is `Target.key_file`, and no other. `scanner` makes what looks for provider keys
    in a file that changed since it was surveyed.
    """

    def __init__(
        self,
        runtime: Runtime,
        key: Callable[[], KeyPair] | None = None,
        *,
        patience: Patience | None = None,
        scanner: MakeScanner | None = None,
    ) -> None:
        self._runtime = runtime
        self._key = key
        self._scanner = scanner
        self._patience = patience or Patience()

    def dial(self, target: Target, *, timeout_s: float, stop: Event | None = None) -> SshRemote:
        """See `Dialer.dial`. Raises ConfigError, too, where the key can't be used."""
        if self._key is not None:
            self._key()
        deadline = self._runtime.monotonic() + timeout_s
        failures: list[ConnectFailed] = []
        for tried, address in enumerate(target.addresses):
            # A later address gets its share of the time even if this one answers nothing at all.
            share_s = (deadline - self._runtime.monotonic()) / (len(target.addresses) - tried)
            try:
                return self._remote(target, address, share_s, stop)
            except ConnectFailed as error:
                failures.append(error)
        raise summary(target.machine_id, failures)

    def _remote(self, target: Target, address: Address, limit_s: float, stop: Event | None) -> SshRemote:
        control = self._connect(target, address, limit_s, stop)
        return SshRemote(
            self._runtime,
            control,
            lambda: self._connect(target, address, _BULK_LOGIN_S, None),
            self._scanner,
        )

    def _connect(self, target: Target, address: Address, limit_s: float, stop: Event | None) -> Connection:
        return establish(
            self._runtime,
            target,
            address,
            load_identity(target.key_file),
            patience=self._patience,
            timeout_s=limit_s,
            stop=stop,
        )


def summary(machine_id: str, failures: list[ConnectFailed]) -> ConnectFailed:
    """One error for all addresses, of the most telling kind among them."""
    if not failures:
        return ConnectFailed(f"machine {machine_id} has no address yet", kind="unreachable")
    kind = max((f.kind for f in failures), key=_TELLING.index)
    causes = "; ".join(f.message for f in failures)
    return ConnectFailed(f"no login to machine {machine_id}: {causes}", kind=kind)
