"""paramiko's transport, set up for long lives: fast ciphers, no re-key deadlock, nothing printed."""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from gipper.ssh.imports import paramiko
from gipper.ssh.sockets import CountingSocket

_WINDOW: Final = 8 << 20
_MAX_PACKET: Final = 128 << 10
_CIPHERS: Final = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
)
# paramiko asks for new keys every 512 MiB, and a channel that closes meanwhile blocks its reading
# thread until the connection dies. OpenSSH itself allows 64 GiB for ciphers with blocks of 16 bytes;
# gipper leaves a connection after half of that (`WORN`) and never asks. Packets stay under the 2^32
# at which the sequence number of RFC 4344 would begin again.
_REKEY_BYTES: Final = 1 << 36
_REKEY_PACKETS: Final = 1 << 31
WORN: Final = 32 << 30
_LOGGER: Final = "gipper.ssh.wire"


class WireTransport(paramiko.Transport):
    """A client transport whose own thread never waits for a key exchange that only it can finish.

    The server may ask for new keys whenever it likes (a small RekeyLimit). What the transport's
    thread wants to send during an exchange, the answer to a channel's close above all, is kept and
    sent right after it.
    """

    def __init__(self, sock: CountingSocket) -> None:
        super().__init__(sock, default_window_size=_WINDOW, default_max_packet_size=_MAX_PACKET)
        self._kept: list[Any] = []
        self.farewell = ""
        self.set_log_channel(_LOGGER)
        quiet_logger()
        self._prefer_fast_ciphers()
        self.packetizer.REKEY_BYTES = _REKEY_BYTES
        self.packetizer.REKEY_PACKETS = _REKEY_PACKETS

    def prefer_host_key(self, type_: str) -> None:
        """Ask for a host key of this type before any other, so that a pinned one is what we see."""
        wanted = ("rsa-sha2-512", "rsa-sha2-256") if type_ == "ssh-rsa" else (type_,)
        options = self.get_security_options()
        known = tuple(options.key_types)
        first = tuple(t for t in wanted if t in known)
        options.key_types = first + tuple(t for t in known if t not in first)

    def _prefer_fast_ciphers(self) -> None:
        options = self.get_security_options()
        known = tuple(options.ciphers)
        first = tuple(c for c in _CIPHERS if c in known)
        options.ciphers = first + tuple(c for c in known if c not in first)

    def _send_user_message(self, data: Any) -> None:
        if threading.current_thread() is self and not self.clear_to_send.is_set():
            self._kept.append(data)
        else:
            super()._send_user_message(data)  # type: ignore[misc]

    def _parse_newkeys(self, m: Any) -> None:
        super()._parse_newkeys(m)  # type: ignore[misc]
        kept, self._kept = self._kept, []
        for data in kept:
            self._send_user_message(data)

    def _parse_disconnect(self, m: Any) -> None:
        m.get_int()
        self.farewell = m.get_text()


def quiet_logger() -> None:
    """Keep paramiko's log off the terminal: a logger without a handler would print its errors."""
    logger = logging.getLogger(_LOGGER)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
