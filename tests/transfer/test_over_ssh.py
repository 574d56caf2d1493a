"""The same streams over a real SSH connection that is cut by the network."""

from __future__ import annotations

import os

import pytest
from support_sshd import Relay, Sshd

from gipper.errors import ConnectionLost
from gipper.ssh.remote import SshDialer
from gipper.transfer.inputs import survey
from gipper.values.jobs import Input


@pytest.fixture
def sshd(tmp_path):
    with Sshd(tmp_path / "sshd") as server:
        yield server


def test_d_047_a_transfer_cut_by_the_network_completes_on_retry(tmp_path, sshd, runtime, see):
    """The connection dies after 5 of 20 MB, up and down: a new one completes, all hashes equal."""
    top = tmp_path / "in"
    top.mkdir()
    for n in range(10):
        (top / f"f{n}").write_bytes(os.urandom(2_000_000))
    found = survey(
        [Input(src="in", dst=".")], tmp_path, scanner=None, classify=None, progress=None, runtime=runtime
    )
    up, down = str(tmp_path / "up"), tmp_path / "down"
    with Relay(sshd.port) as relay:
        remote = SshDialer(runtime).dial(sshd.target(addresses=[relay.address]), timeout_s=20)
        relay.cut_after(5_000_000)
        with pytest.raises(ConnectionLost):
            remote.send(found.manifests["."], up)
        remote.close()
    again = SshDialer(runtime).dial(sshd.target(), timeout_s=20)
    assert again.send(found.manifests["."], up).changed == ()
    again.close()
    with Relay(sshd.port) as relay:
        remote = SshDialer(runtime).dial(sshd.target(addresses=[relay.address]), timeout_s=20)
        with pytest.raises(ConnectionLost):
            remote.fetch(
                str(tmp_path), "up", down, progress=lambda done: relay.reset() if done > 5_000_000 else None
            )
        remote.close()
    assert all(see(top)[name] == what for name, what in see(down).items())
    again = SshDialer(runtime).dial(sshd.target(), timeout_s=20)
    fetched = again.fetch(str(tmp_path), "up", down)
    again.close()
    hashes = {(e.path, e.sha256) for e in found.manifests["."].entries}
    assert {(path, sha256) for path, _, sha256 in fetched.files} == hashes
    assert see(down) == see(top)
