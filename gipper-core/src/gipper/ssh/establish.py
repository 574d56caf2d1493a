"""From an address to an authenticated connection: TCP, key exchange, host key, then our own key.

In this order: a machine whose host key is wrong never sees which user key gipper would offer.
"""

from __future__ import annotations

import threading
from pathlib import Path

import attrs

from gipper.errors import ConfigError, ConnectFailed, ConnectKind, GipperError, Stopped
from gipper.remote import Target
from gipper.runtime import Event, Runtime
from gipper.ssh.connection import Connection
from gipper.ssh.imports import paramiko
from gipper.ssh.keys import check_private
from gipper.ssh.pins import HostKey, check_pin, wanted_type
from gipper.ssh.settings import Patience
from gipper.ssh.sockets import CountingSocket, connect_first, resolve, tune
from gipper.ssh.wire import WireTransport
from gipper.values.machines import Address


def load_identity(private: Path) -> paramiko.PKey:
    """gipper's private key. Raises ConfigError where it is missing, damaged or readable by others."""
    check_private(private)
    try:
        return paramiko.Ed25519Key.from_private_key_file(str(private))
    except (paramiko.SSHException, ValueError, OSError) as error:
        raise ConfigError(f"the ssh key {private} can't be used: {error}") from None


def establish(
    runtime: Runtime,
    target: Target,
    address: Address,
    identity: paramiko.PKey,
    *,
    patience: Patience,
    timeout_s: float,
    stop: Event | None = None,
) -> Connection:
    """Connect and log in within `timeout_s`. Raises ConnectFailed, whose text holds the address, or
    Stopped once `stop` is set."""
    deadline = runtime.monotonic() + timeout_s
    attempt = _Attempt(
        runtime=runtime,
        target=target,
        address=address,
        identity=identity,
        patience=patience,
        deadline=deadline,
    )
    task = runtime.spawn("ssh-connect", attempt.go)
    events = [task.done] if stop is None else [task.done, stop]
    ended = runtime.wait_any(events, deadline)
    if ended is not task.done and attempt.abandon():
        if ended is None:
            raise ConnectFailed(f"{address}: no login within {timeout_s:g} s", kind=attempt.stage)
        raise Stopped("stopped while connecting")
    return task.result()


@attrs.define(kw_only=True, eq=False)
class _Attempt:
    """One try at one address, in a task: name look-ups and key exchanges know no limit."""

    _runtime: Runtime
    _target: Target
    _address: Address
    _identity: paramiko.PKey
    _patience: Patience
    _deadline: float
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _transport: WireTransport | None = None
    _over: bool = False
    stage: ConnectKind = "unreachable"

    def go(self) -> Connection:
        try:
            connection = self._go()
        except GipperError:
            self._close()
            raise
        if not self._end():
            connection.close()
        return connection

    def abandon(self) -> bool:
        """Give up; False where the attempt had ended already."""
        mine = self._end()
        if mine:
            self._close()
        return mine

    def _end(self) -> bool:
        with self._lock:
            first, self._over = not self._over, True
        return first

    def _go(self) -> Connection:
        sock = self._connect()
        self.stage = "protocol"
        transport = self._new_transport(sock)
        host_key = self._exchange_keys(transport)
        self._check(host_key)
        self._log_in(transport)
        return Connection(
            self._runtime,
            address=self._address,
            host_key=host_key,
            transport=transport,
            sock=sock,
            patience=self._patience,
        )

    def _connect(self) -> CountingSocket:
        try:
            candidates = resolve(self._address.host, self._address.port)
            sock = connect_first(candidates, self._runtime, min(self._patience.connect_s, self._left()))
            tune(sock, self._patience.unacked_s)
        except (OSError, UnicodeError, OverflowError) as error:
            raise self._failed("unreachable", _reason(error)) from None
        return sock

    def _new_transport(self, sock: CountingSocket) -> WireTransport:
        transport = WireTransport(sock)
        transport.banner_timeout = self._left()
        transport.handshake_timeout = self._left()
        transport.auth_timeout = self._left()
        with self._lock:
            self._transport = transport
            over = self._over
        if over:
            sock.close()
            raise Stopped("given up while connecting")
        return transport

    def _exchange_keys(self, transport: WireTransport) -> HostKey:
        type_ = wanted_type(self._target.pins, self._target.machine_id, self._target.host_key)
        if type_ is not None:
            transport.prefer_host_key(type_)
        try:
            transport.start_client(timeout=self._left())
            key = transport.get_remote_server_key()
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise self._failed("protocol", _reason(error)) from None
        except Exception as error:  # noqa: BLE001 - a hostile server's nonsense; paramiko raises anything
            raise self._failed("protocol", f"unreadable answer ({error})") from None
        return HostKey(type=key.get_name(), blob=key.asbytes())

    def _check(self, host_key: HostKey) -> None:
        target = self._target
        try:
            check_pin(target.pins, target.machine_id, host_key, target.host_key)
        except ConnectFailed as error:
            raise self._failed("host_key", error.message) from None

    def _log_in(self, transport: WireTransport) -> None:
        try:
            missing = transport.auth_publickey(self._target.user, self._identity)
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise self._login_failed(transport, error) from None
        if missing:
            raise self._failed("auth", f"the server also wants {', '.join(missing)}")

    def _login_failed(self, transport: WireTransport, error: Exception) -> ConnectFailed:
        farewell = transport.farewell
        refused = isinstance(error, paramiko.AuthenticationException) and transport.is_active()
        if refused or "authentication" in farewell.lower():
            text = f"gipper's key was refused for user {self._target.user}"
            return self._failed("auth", f"{text} ({farewell})" if farewell else text)
        return self._failed("protocol", farewell or f"hung up during login ({_reason(error)})")

    def _failed(self, kind: ConnectKind, text: str) -> ConnectFailed:
        return ConnectFailed(f"{self._address}: {text}", kind=kind)

    def _left(self) -> float:
        return max(0.05, self._deadline - self._runtime.monotonic())

    def _close(self) -> None:
        with self._lock:
            transport = self._transport
        if transport is not None:
            # Its timer is no daemon and would keep the process alive until it rings.
            transport.packetizer.complete_handshake()
            transport.close()


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or "the other side hung up"
