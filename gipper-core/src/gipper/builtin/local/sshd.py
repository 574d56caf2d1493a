"""The machine's SSH side: one key, one user, exec, shell and terminal requests; nothing else."""

from __future__ import annotations

import base64
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    MSG_CHANNEL_REQUEST,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
)

from gipper.builtin.local.launch import USER
from gipper.builtin.local.session import Place, Terminal, on_pipes, on_terminal

# paramiko loses connections whose channels close while keys are exchanged anew: practically never.
_REKEY: Final = 1 << 36
_WINDOW: Final = 4 << 20
_PACKET: Final = 128 << 10
_MOST_CONNECTIONS: Final = 128
_LOGIN_S: Final = 30.0
_SFTP_SERVERS: Final = (
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/libexec/sftp-server",
    "/usr/lib/ssh/sftp-server",
    "/usr/lib/sftp-server",
)


def _answer_request(channel: paramiko.Channel, message: paramiko.Message) -> None:
    """Let paramiko answer the request first, then start what it asked for.

    Output before the answer confuses clients, and the answer can't be sent from inside the request's
    own handler.
    """
    paramiko.Channel._handle_request(channel, message)  # type: ignore[attr-defined]
    server = channel.get_transport().server_object
    if isinstance(server, Server):
        server.answered(channel)


class _Transport(paramiko.Transport):
    _channel_handler_table = {  # noqa: RUF012 - it overrides a table of the same shape
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
        MSG_CHANNEL_REQUEST: _answer_request,
    }


class Server(paramiko.ServerInterface):
    """The requests of one connection."""

    def __init__(self, place: Place, public_key: bytes) -> None:
        self._place = place
        self._public_key = public_key
        self._terminals: dict[int, Terminal] = {}
        self._asked: dict[int, Callable[[], None]] = {}
        self._idle: dict[int, paramiko.Channel] = {}

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return AUTH_SUCCESSFUL if username == USER and key.asbytes() == self._public_key else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return self._ask(channel, ["/bin/sh", "-c", command])

    def check_channel_shell_request(self, channel: paramiko.Channel) -> bool:
        interactive = channel.chanid in self._terminals
        return self._ask(channel, [_shell(), "-i"] if interactive else ["/bin/sh"])

    def check_channel_subsystem_request(self, channel: paramiko.Channel, name: str) -> bool:
        program = next((p for p in _SFTP_SERVERS if Path(p).exists()), None)
        return name == "sftp" and program is not None and self._ask(channel, [program])

    def check_channel_pty_request(
        self,
        channel: paramiko.Channel,
        term: bytes,
        width: int,
        height: int,
        pixelwidth: int,
        pixelheight: int,
        modes: bytes,
    ) -> bool:
        if channel.chanid in self._terminals:
            return False
        try:
            terminal = Terminal(term.decode("ascii", "replace"), (width, height))
        except OSError:
            return False
        self._terminals[channel.chanid] = terminal
        return True

    def check_channel_window_change_request(
        self, channel: paramiko.Channel, width: int, height: int, pixelwidth: int, pixelheight: int
    ) -> bool:
        terminal = self._terminals.get(channel.chanid)
        if terminal is not None:
            terminal.resize(width, height)
        return terminal is not None

    def answered(self, channel: paramiko.Channel) -> None:
        """The client has the answer to its request: what it asked for may begin."""
        begin = self._asked.pop(channel.chanid, None)
        if begin is not None:
            self._place.runtime.spawn(f"session-{channel.chanid}", begin)
            self._take_from_queue(channel)

    def _take_from_queue(self, begun: paramiko.Channel) -> None:
        """Take one channel out of the queue of `accept`, which would grow for ever.

        It may be another than `begun`: that one is held, for a channel that nobody holds is closed.
        """
        taken = begun.get_transport().accept(0)
        if taken is not None:
            self._idle[taken.chanid] = taken
        self._idle = {n: c for n, c in self._idle.items() if c is not begun and not c.closed}

    def _ask(self, channel: paramiko.Channel, argv: Sequence[str | bytes]) -> bool:
        terminal = self._terminals.get(channel.chanid)
        if terminal is None:
            self._asked[channel.chanid] = lambda: on_pipes(self._place, channel, argv)
        else:
            self._asked[channel.chanid] = lambda: self._on_terminal(channel, argv, terminal)
        return True

    def _on_terminal(
        self, channel: paramiko.Channel, argv: Sequence[str | bytes], terminal: Terminal
    ) -> None:
        try:
            on_terminal(self._place, channel, argv, terminal)
        finally:
            self._terminals.pop(channel.chanid, None)


class Gate:
    """Accepts connections on a listening socket and serves each with its own transport."""

    def __init__(self, place: Place, host_key: Path, public_key: str) -> None:
        logging.getLogger("paramiko").setLevel(logging.CRITICAL)
        self._place = place
        self._host_key = paramiko.Ed25519Key(filename=str(host_key))
        self._public_key = base64.b64decode(public_key.split()[1])
        self._open: list[tuple[float, Any]] = []

    def admit(self, listener: socket.socket) -> None:
        """Take one waiting connection; paramiko's own threads go on with it."""
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        self.tidy()
        if len(self._open) >= _MOST_CONNECTIONS:
            connection.close()
            return
        self._serve(connection)

    def tidy(self) -> None:
        """Forget connections that ended; close those that haven't logged in within 30 s."""
        now = self._place.runtime.monotonic()
        for begun, transport in self._open:
            if now - begun > _LOGIN_S and not transport.is_authenticated():
                transport.close()
        self._open = [(b, t) for b, t in self._open if t.is_active()]

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        transport = _Transport(connection, default_window_size=_WINDOW, default_max_packet_size=_PACKET)
        transport.packetizer.REKEY_BYTES = _REKEY
        transport.packetizer.REKEY_PACKETS = _REKEY
        transport.add_server_key(self._host_key)
        transport.start_server(event=threading.Event(), server=Server(self._place, self._public_key))
        self._open.append((self._place.runtime.monotonic(), transport))


def _shell() -> str:
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"
