"""SSH packets under AES-GCM with few copies and few system calls; every other cipher is paramiko's.

paramiko copies each packet about nine times on its way in and seven on its way out, and asks the kernel
twice for each. Here many packets come in with one call and go out with one, and their content is copied
once beside the cipher's own work.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from gipper.ssh.imports import paramiko
from gipper.ssh.sockets import CountingSocket

_TAG: Final = 16
_BLOCK: Final = 16
_DATA: Final = 94
# Data is at most what `default_max_packet_size` of the transport grants, and its headers.
_MOST: Final = 256 << 10
_ROOM: Final = 2 * _MOST
# sshd sends small answers only once the one before is acknowledged, which the kernel puts off for 40 ms
# unless it is told, each time anew, that there is nothing to wait for.
_SMALL: Final = 2048
_QUICK_ACK: Final = socket.TCP_QUICKACK
_HEAD: Final = struct.Struct(">BII")
# Under an authenticated cipher nobody can tell padding from anything else; it needn't be random.
_PADS: Final = tuple(bytes(n) for n in range(_BLOCK + 4))


class Incoming:
    """A channel's data, as its handler reads it from a paramiko message."""

    def __init__(self, channel: int, data: memoryview, seqno: int) -> None:
        self._channel = channel
        self._data = data
        self.seqno = seqno

    def get_int(self) -> int:
        """The number of the channel."""
        return self._channel

    def get_binary(self) -> memoryview:
        """The data, not copied."""
        return self._data


class Outgoing:
    """Data for one channel of the server, in as many packets as it takes."""

    def __init__(self, channel: int, data: memoryview, most: int) -> None:
        self.channel = channel
        self._data = data
        self._most = most

    def payloads(self) -> Iterator[tuple[bytes, memoryview]]:
        """Header and content of each packet."""
        for at in range(0, len(self._data), self._most):
            part = self._data[at : at + self._most]
            yield _HEAD.pack(_DATA, self.channel, len(part)), part


class _Plain:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def asbytes(self) -> bytes:
        return self._data


class Pipe:
    """Stands in for paramiko's BufferedPipe: keeps the pieces as they arrived."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pieces: deque[memoryview] = deque()
        self._size = 0
        self._flag: Any = None
        self._over = False

    def set_event(self, event: Any) -> None:
        """See BufferedPipe; the event is never lowered here."""
        self._flag = event
        if self._size or self._over:
            event.set()

    def feed(self, data: bytes | memoryview) -> None:
        """Append; called by paramiko's reading thread."""
        with self._changed:
            self._pieces.append(memoryview(data))
            self._size += len(data)
            self._changed.notify_all()
        if self._flag is not None:
            self._flag.set()

    def read_ready(self) -> bool:
        """True where a read would give something at once."""
        return self._size > 0

    def read(self, nbytes: int, timeout: float | None = None) -> bytes:
        """See BufferedPipe."""
        with self._changed:
            if not self._changed.wait_for(self._readable, timeout):
                raise paramiko.buffered_pipe.PipeTimeout
            taken = self._taken(nbytes)
        return b"".join(taken)

    def empty(self) -> bytes:
        """All that is here."""
        return self.read(self._size)

    def close(self) -> None:
        """Nothing more will come."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        if self._flag is not None:
            self._flag.set()

    def __len__(self) -> int:
        return self._size

    def _readable(self) -> bool:
        return self._size > 0 or self._over

    def _taken(self, most: int) -> list[memoryview]:
        taken, pieces = [], self._pieces
        while pieces and most:
            piece = pieces[0]
            if len(piece) <= most:
                pieces.popleft()
            else:
                piece, pieces[0] = piece[:most], piece[most:]
            taken.append(piece)
            most -= len(piece)
            self._size -= len(piece)
        return taken


class _Gcm:
    """One direction's key, and its nonce that counts up (RFC 5647)."""

    def __init__(self, engine: Any, iv: bytes) -> None:
        self.engine = engine
        self._fixed, self._count = iv[:4], int.from_bytes(iv[4:], "big")
        self.bytes = 0
        self.packets = 0

    def nonce(self, size: int) -> bytes:
        """For the next packet, which has `size` bytes."""
        nonce = self._fixed + self._count.to_bytes(8, "big")
        self._count = (self._count + 1) & 0xFFFFFFFFFFFFFFFF
        self.bytes += size
        self.packets += 1
        return nonce


class Packets(paramiko.packet.Packetizer):
    """paramiko's packet layer with a short way for AES-GCM. gipper offers no compression."""

    def __init__(self, sock: CountingSocket) -> None:
        super().__init__(sock)
        self._sock = sock
        self._in: _Gcm | None = None
        self._out: _Gcm | None = None
        self._out_lock = threading.Lock()
        self._room = bytearray(0)
        self._at = self._end = 0
        self._done = False

    def set_inbound_cipher(self, *args: Any, **more: Any) -> None:
        """See Packetizer."""
        super().set_inbound_cipher(*args, **more)
        gcm = _Gcm(more["block_engine"], more["iv_in"]) if more.get("aead") else None
        if self._in is not None and gcm is None:
            raise paramiko.SSHException("the server changed to another kind of cipher")
        self._in = gcm
        if gcm is not None and not self._room:
            self._room = bytearray(_ROOM)

    def set_outbound_cipher(self, *args: Any, **more: Any) -> None:
        """See Packetizer."""
        super().set_outbound_cipher(*args, **more)
        gcm = _Gcm(more["block_engine"], more["iv_out"]) if more.get("aead") else None
        if self._out is not None and gcm is None:
            raise paramiko.SSHException("the server changed to another kind of cipher")
        self._out = gcm

    def complete_handshake(self) -> None:
        """See Packetizer, which does this again for each packet."""
        if not self._done:
            super().complete_handshake()
            self._done = self._in is not None

    def read_message(self) -> tuple[int, Any]:
        """See Packetizer."""
        gcm = self._in
        if gcm is None:
            return super().read_message()
        self._await(4)
        at, view = self._at, memoryview(self._room)
        size = int.from_bytes(view[at : at + 4], "big")
        if size % _BLOCK or not 0 < size <= _MOST - 64:
            raise paramiko.SSHException("a packet of impossible size")
        self._await(4 + size + _TAG)
        at = self._at
        self._at = end = at + 4 + size + _TAG
        data = gcm.engine.decrypt(gcm.nonce(size), view[at + 4 : end], view[at : at + 4])
        self._count(gcm)
        return _message(data, gcm.packets)

    def send_message(self, data: Any) -> None:
        """Send a paramiko message, or an `Outgoing`."""
        if self._out is None:
            self._send_slowly(data)
            return
        with self._out_lock:
            buffers: list[bytes] = []
            for head, part in _payloads(data):
                buffers += _sealed(self._out, head, part)
            self._write(buffers)
            self._count(self._out)

    def _send_slowly(self, data: Any) -> None:
        if not isinstance(data, Outgoing):
            super().send_message(data)
            return
        for head, part in data.payloads():
            super().send_message(_Plain(head + part))  # type: ignore[arg-type]  # all that it asks for

    def _write(self, buffers: list[bytes]) -> None:
        size = sum(map(len, buffers))
        try:
            sent = self._sock.sendmsg(buffers)
        except TimeoutError:
            sent = 0
        except OSError as error:
            raise EOFError from error
        if sent < size:
            self.write_all(memoryview(b"".join(buffers))[sent:])

    def _count(self, gcm: _Gcm) -> None:
        if gcm.bytes >= self.REKEY_BYTES or gcm.packets >= self.REKEY_PACKETS:
            self._trigger_rekey()  # type: ignore[attr-defined]

    def _await(self, size: int) -> None:
        """Have `size` bytes at `_at`."""
        while self._end - self._at < size:
            if self._at == self._end:
                self._at = self._end = 0
            elif len(self._room) - self._at < size:
                rest = self._room[self._at : self._end]
                self._room[: len(rest)] = rest
                self._at, self._end = 0, len(rest)
            self._receive()

    def _receive(self) -> None:
        try:
            count = self._sock.recv_into(memoryview(self._room)[self._end :])
        except TimeoutError:
            self._idle()
            return
        except OSError:
            if self.closed:
                raise EOFError from None
            raise
        if not count:
            raise EOFError
        self._sock.received += count
        self._end += count
        if count < _SMALL:
            self._sock.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)

    def _idle(self) -> None:
        if self.closed or self.handshake_timed_out():
            raise EOFError
        if self._at == self._end and self.need_rekey():
            raise paramiko.packet.NeedRekeyException


def _message(data: bytes, seqno: int) -> tuple[int, Any]:
    end = len(data) - data[0]
    kind = data[1]
    if kind == _DATA and end >= 10:
        channel, size = int.from_bytes(data[2:6], "big"), int.from_bytes(data[6:10], "big")
        return kind, Incoming(channel, memoryview(data)[10 : min(end, 10 + size)], seqno)
    message = paramiko.Message(data[2:end])
    message.seqno = seqno
    return kind, message


def _payloads(data: Any) -> Iterator[tuple[bytes, bytes | memoryview]]:
    return data.payloads() if isinstance(data, Outgoing) else iter(((b"", data.asbytes()),))


def _sealed(gcm: _Gcm, head: bytes, part: bytes | memoryview) -> tuple[bytes, bytes]:
    body = 1 + len(head) + len(part)
    pad = _BLOCK - body % _BLOCK
    pad += _BLOCK if pad < 4 else 0
    size = (body + pad).to_bytes(4, "big")
    plain = b"".join((bytes((pad,)), head, part, _PADS[pad]))
    return size, gcm.engine.encrypt(gcm.nonce(len(plain)), plain, size)
