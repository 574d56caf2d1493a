"""paramiko's transport, set up for long lives: fast ciphers, no re-key deadlock, nothing printed."""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from gipper.ssh.imports import paramiko
from gipper.ssh.packets import Outgoing, Packets, Pipe
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
# RFC 4254: window adjust, data, extended data, EOF, close, request.
_TO_CHANNEL: Final = frozenset((93, 94, 95, 96, 97, 98))
_CLOSE: Final = 97
_LOOK_S: Final = 0.1
# What paramiko keeps free of a packet for its headers.
_SPARE: Final = 64
# Into how many announcements a whole window is divided.
_STEPS: Final = 4
_LOGGER: Final = "gipper.ssh.wire"


class _Parcel:
    """A message, and the number of the server's channel that it goes to (-1: to none)."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.closes = self.late = False
        if isinstance(data, Outgoing):
            self.channel = data.channel
        else:
            head = data.asbytes()[:5]
            self.channel = int.from_bytes(head[1:], "big") if head[0] in _TO_CHANNEL else -1
            self.closes = head[0] == _CLOSE


class WireTransport(paramiko.Transport):
    """A client transport that survives key exchanges, which a server may ask for at any time.

    paramiko's own has two faults there, both of which end the connection. Its reading thread waits
    for the end of an exchange when it answers a channel's close, although only that thread can bring
    the end about: here such messages are kept and sent right after the exchange. And what another
    thread was about to send to a channel may follow that channel's close, which OpenSSH takes for a
    broken client: here it is dropped.
    """

    def __init__(self, sock: CountingSocket) -> None:
        super().__init__(
            sock,
            default_window_size=_WINDOW,
            default_max_packet_size=_MAX_PACKET,
            packetizer_class=Packets,
        )
        self._kept: list[_Parcel] = []
        self._waiting: set[_Parcel] = set()
        self._closed_ids: set[int] = set()
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

    def send_data(self, channel: Any, data: memoryview) -> int:
        """Send what the channel's window takes of `data`, once it takes any; how much that was.

        Raises TimeoutError after the channel's timeout; 0 where the channel takes nothing any more.
        """
        with channel.lock:
            size: int = channel._wait_for_send_window(len(data))
            while 0 < size < len(data) and channel.out_window_size:
                size += channel._wait_for_send_window(len(data) - size)
        if size:
            most = channel.out_max_packet_size - _SPARE
            self._send_user_message(Outgoing(channel.remote_chanid, data[:size], most))
        return size

    def _prefer_fast_ciphers(self) -> None:
        options = self.get_security_options()
        known = tuple(options.ciphers)
        first = tuple(c for c in _CIPHERS if c in known)
        options.ciphers = first + tuple(c for c in known if c not in first)

    def _send_user_message(self, data: Any) -> None:
        outgoing = _Parcel(data)
        if threading.current_thread() is not self:
            self._send_when_clear(outgoing)
        elif self.clear_to_send.is_set():
            with self.clear_to_send_lock:
                self._send_now(outgoing)
        else:
            self._kept.append(outgoing)

    def _send_when_clear(self, outgoing: _Parcel) -> None:
        """Wait while keys are exchanged, then send, unless its channel was closed meanwhile."""
        with self.clear_to_send_lock:
            outgoing.late = outgoing.channel in self._closed_ids
            if self.clear_to_send.is_set():
                self._send_now(outgoing)
                return
            self._waiting.add(outgoing)
        try:
            while self.is_active() and not self._sent_if_clear(outgoing):
                self.clear_to_send.wait(_LOOK_S)
        finally:
            with self.clear_to_send_lock:
                self._waiting.discard(outgoing)

    def _sent_if_clear(self, outgoing: _Parcel) -> bool:
        with self.clear_to_send_lock:
            if not self.clear_to_send.is_set():
                return False
            self._send_now(outgoing)
            return True

    def _send_now(self, outgoing: _Parcel) -> None:
        """The lock is held: nothing can come between the look and the sending."""
        if outgoing.closes:
            self._closed_ids.add(outgoing.channel)
            for other in self._waiting:
                other.late = other.late or (other is not outgoing and other.channel == outgoing.channel)
        if outgoing.closes or not outgoing.late:
            self._send_message(outgoing.data)  # type: ignore[attr-defined]

    def _parse_newkeys(self, m: Any) -> None:
        super()._parse_newkeys(m)  # type: ignore[misc]
        kept, self._kept = self._kept, []
        with self.clear_to_send_lock:
            for outgoing in kept:
                self._send_now(outgoing)

    def _parse_channel_open_success(self, m: Any) -> None:
        # The server gives the numbers of closed channels to new ones.
        theirs = int.from_bytes(m.asbytes()[4:8], "big")
        with self.clear_to_send_lock:
            self._closed_ids.discard(theirs)
        # Nothing can be in it yet: only this thread reads.
        channel = self._channels.get(int.from_bytes(m.asbytes()[:4], "big"))  # type: ignore[attr-defined]
        if channel is not None:
            channel.in_buffer = Pipe()
            channel.in_window_threshold = _WINDOW // _STEPS
        super()._parse_channel_open_success(m)  # type: ignore[misc]

    def _parse_disconnect(self, m: Any) -> None:
        m.get_int()
        self.farewell = m.get_text()


def quiet_logger() -> None:
    """Keep paramiko's log off the terminal: a logger without a handler would print its errors."""
    logger = logging.getLogger(_LOGGER)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
