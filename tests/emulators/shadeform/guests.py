"""Virtual machines that one logs in to as an ordinary user: sandboxes with a user `shadeform` of their own.

As root only. Each has its own /etc/passwd and /home, so that the user exists nowhere else; the machine's folder
stands at /mnt in there, as pytest's own folders are closed to everybody but root. sudo is a stand-in that
gives no rights: it runs a few commands that are stand-ins, too, and powering off ends the machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from emulators.housing import Sandbox, Sandboxes, Wish
from stubs.gpu_stubs import put_program

USER = "shadeform"
UID = 64123
INSIDE = Path("/mnt")
HOME = f"/home/{USER}"
# What the machine's sudo lets its user do; `calls` are its words, one line each.
_SUDO = """\
#!/bin/sh
[ "$1" = -n ] && shift
echo "$*" >>{inside}/calls
case $1 in true | env) exec "$@" ;; esac
exec {inside}/root/"$@"
"""
_OFF = "#!/bin/sh\n: >{inside}/off\n"
_UFW = """\
#!/bin/sh
case $1 in
status) if [ -e {inside}/ufw-on ]; then echo "Status: active"; else echo "Status: inactive"; fi ;;
allow) [ -e {inside}/ufw-on ] && echo "$2" >>{inside}/ufw-open ;;
esac
"""


class Guest(Sandbox):
    """One virtual machine."""

    def __init__(self, folder: Path, driver: Path, wish: Wish) -> None:
        super().__init__(folder, driver, wish)
        self._extra = (f"AuthorizedKeysFile {INSIDE}/authorized_keys",)
        self.authorized_keys.chmod(0o644)
        self.stubs.driver_folder.chmod(0o777)
        self._programs()
        self._accounts()
        os.chown(self.home, UID, UID)
        folder.chmod(0o777)

    @property
    def calls(self) -> list[str]:
        """What was asked of sudo, in order."""
        return self._lines("calls")

    @property
    def opened(self) -> list[str]:
        """What ufw was told to let in."""
        return self._lines("ufw-open")

    def ufw(self) -> None:
        """Its firewall is active."""
        (self.folder / "ufw-on").touch()

    @property
    def is_off(self) -> bool:
        """Whether it was powered off from inside."""
        return (self.folder / "off").exists()

    def no_sudo(self) -> None:
        """Its user may not become root."""
        put_program(self.stubs.bin / "sudo", "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")

    def _lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def _programs(self) -> None:
        root = self.folder / "root"
        root.mkdir()
        put_program(self.stubs.bin / "sudo", _SUDO.format(inside=INSIDE))
        for name in ("poweroff", "systemctl"):
            put_program(root / name, _OFF.format(inside=INSIDE))
        put_program(root / "ufw", _UFW.format(inside=INSIDE))

    def _accounts(self) -> None:
        line = f"{USER}:x:{UID}:{UID}::{HOME}:/bin/sh\n"
        (self.folder / "passwd").write_text(Path("/etc/passwd").read_text() + line)
        (self.folder / "group").write_text(Path("/etc/group").read_text() + f"{USER}:x:{UID}:\n")

    @property
    def _path(self) -> str:
        return f"{INSIDE}/stubs/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

    @staticmethod
    def _home_inside(folder: Path) -> str:
        return HOME

    def _library_path(self, folder: Path) -> str:
        return str(INSIDE / self.stubs.driver_folder.relative_to(folder))

    def _first(self, config: Path) -> str:
        own = [
            f"mount --bind {self.folder} {INSIDE}",
            f"mount --bind {INSIDE}/passwd /etc/passwd",
            f"mount --bind {INSIDE}/group /etc/group",
            # Sessions see /home/shadeform alone; the daemon's own files are reached by /mnt from here on.
            "mount -t tmpfs -o mode=755 none /home",
            f"mkdir {HOME}",
            f"mount --bind {INSIDE}/home {HOME}",
            *([f"mount --bind {INSIDE}/uptime /proc/uptime"] if self._wish.own_clock else []),
        ]
        wait = f"while [ ! -e {INSIDE}/off ]; do /bin/sleep 0.1; done"
        server = f"{shutil.which('sshd') or '/usr/sbin/sshd'} -D -e -f {INSIDE}/{config.name}"
        return f"{' && '.join(own)} && cd / && {{ {server} & {wait}; }}"

    def _config(self) -> list[str]:
        return [line.replace(f"{self.folder}/", f"{INSIDE}/") for line in super()._config()]


class Guests(Sandboxes):
    """Real machines below `folder`, one for each that the market makes; `prepare` changes one before it starts."""

    prepare: Callable[[Guest], object] = staticmethod(lambda _guest: None)

    def open(self, wish: Wish) -> Guest:
        guest = Guest(self._folder / f"m{len(self._made)}", self._driver, wish)
        self._made.append(guest)
        self.prepare(guest)
        guest.start()
        return guest

    @property
    def made(self) -> Sequence[Guest]:
        """All machines ever made, in order."""
        return [one for one in self._made if isinstance(one, Guest)]


@contextlib.contextmanager
def guests(folder: Path, driver: Path) -> Iterator[Guests]:
    """Machines that are all gone at the end."""
    made = Guests(folder, driver)
    try:
        yield made
    finally:
        made.close()
