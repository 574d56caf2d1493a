"""The short way for packets under AES-GCM, and the buffer behind it."""

from __future__ import annotations

import hashlib
import os
import threading

import pytest
from support_sshd import Sshd

from gipper.runtime import RealRuntime
from gipper.ssh.imports import paramiko
from gipper.ssh.packets import Outgoing, Pipe
from gipper.ssh.remote import SshDialer

CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr")


@pytest.mark.parametrize("cipher", CIPHERS)
def test_every_byte_survives_both_ways(tmp_path, cipher):
    """What goes up through `cat` comes home the same, whatever cipher the server knows."""
    data = os.urandom(5_000_003)
    with Sshd(tmp_path, extra=(f"Ciphers {cipher}",)) as sshd:
        remote = SshDialer(RealRuntime()).dial(sshd.target(), timeout_s=20)
        try:
            done = remote.run("cat", stdin=data, limit=len(data) + 1)
        finally:
            remote.close()
    assert done.status == 0
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()


def test_pieces_come_out_in_order_whatever_is_asked_for():
    """Reads of any size give the bytes that were fed, in order, none twice."""
    pipe, out = Pipe(), b""
    data = os.urandom(10_000)
    for at in range(0, len(data), 700):
        pipe.feed(memoryview(data)[at : at + 700])
    pipe.close()
    for n in (1, 699, 1, 5_000, 100_000):
        out += pipe.read(n)
    assert out == data
    assert len(pipe) == 0
    assert not pipe.read_ready()
    assert pipe.read(10) == b""


def test_a_read_waits_for_bytes_or_its_limit():
    """A reader gets what another thread feeds later, and PipeTimeout where nobody does."""
    pipe = Pipe()
    with pytest.raises(paramiko.buffered_pipe.PipeTimeout):
        pipe.read(1, 0.0)
    feeder = threading.Thread(target=pipe.feed, args=(b"late",))
    feeder.start()
    assert pipe.read(10, 20.0) == b"late"
    feeder.join()


def test_a_flag_is_raised_by_bytes_and_by_the_end():
    """Whoever waits on the flag hears of bytes, also of those that came before, and of the end."""
    for happen in (lambda pipe: pipe.feed(b"x"), lambda pipe: pipe.close()):
        before, after = Pipe(), Pipe()
        flags = threading.Event(), threading.Event()
        after.set_event(flags[0])
        happen(after)
        happen(before)
        before.set_event(flags[1])
        assert all(flag.is_set() for flag in flags)


def test_data_is_cut_into_packets_that_the_server_takes():
    """No packet holds more than its most, and together they hold all."""
    data = os.urandom(100_001)
    parts = list(Outgoing(7, memoryview(data), 32_704).payloads())
    assert b"".join(part for _, part in parts) == data
    for head, part in parts:
        assert len(part) <= 32_704
        assert head == b"\x5e" + (7).to_bytes(4, "big") + len(part).to_bytes(4, "big")
