"""The boxes of the inventory, asked one by one or all at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import attrs

from gipper.api import ConfigError, GipperError, ProviderContext, ProviderError
from gipper_ssh.info import PROVIDER, USER, SshSettings
from gipper_ssh.inventory import HINT, Box, load
from gipper_ssh.rules import is_key
from gipper_ssh.scripts import HELLO
from gipper_ssh.talk import Answer, Lost, NotReached, talk

T = TypeVar("T")
LOOK_S: Final = 15.0
_SSH: Final = "ssh"
# The user's own ssh_config doesn't count: gipper itself logs in at the plain address, and must get there.
_OPTIONS: Final = (
    "BatchMode=yes",
    "CheckHostIP=no",
    "ClearAllForwardings=yes",
    "ControlMaster=no",
    "ControlPath=none",
    "ForwardAgent=no",
    "GlobalKnownHostsFile=/dev/null",
    "HashKnownHosts=no",
    "LogLevel=ERROR",
    "PermitLocalCommand=no",
    "ServerAliveCountMax=3",
    "ServerAliveInterval=5",
    "UpdateHostKeys=no",
)


@attrs.frozen(kw_only=True)
class Silent:
    """A box that gave no answer, or none that can be used: why."""

    why: str


class Boxes:
    """What `[provider.ssh] inventory` names; the file is read anew each time, nothing is kept."""

    def __init__(self, context: ProviderContext) -> None:
        self._context = context

    def inventory(self) -> tuple[Box, ...] | None:
        """The boxes; None where no inventory is configured. Raises ConfigError."""
        settings = self._context.settings
        path = settings.inventory if isinstance(settings, SshSettings) else None
        return None if path is None else load(path)

    def find(self, name: str) -> Box:
        """The box of that name. Raises ProviderError, ConfigError."""
        box = next((box for box in self.inventory() or () if box.name == name), None)
        if box is None:
            raise ProviderError(
                f"ssh: box {name} isn't in the inventory, so nobody can ask it",
                hint=f"put box {name} back into the inventory, or {HINT}",
            )
        return box

    def ask(
        self,
        box: Box,
        script: Callable[[float], str],
        *,
        hello_s: float = LOOK_S,
        answer_s: float = LOOK_S,
        keep: Sequence[int] = (),
    ) -> Answer:
        """One conversation; see `talk`. Raises NotReached, Lost, ConfigError."""
        return talk(
            self._argv(box, hello_s),
            script,
            clock=self._context.runtime.monotonic,
            hello_s=hello_s,
            answer_s=answer_s,
            keep=keep,
        )

    def each(self, boxes: Sequence[Box], fn: Callable[[Box], T]) -> list[tuple[Box, T | Silent]]:
        """`fn` of every box, all at the same time; a box that can't be asked is Silent."""

        def one(box: Box) -> T | Silent:
            try:
                return fn(box)
            except (NotReached, Lost) as fault:
                return Silent(why=str(fault))
            except GipperError as error:
                return Silent(why=error.message)

        runtime = self._context.runtime
        tasks = [runtime.spawn(f"{PROVIDER}-{box.name}", partial(one, box)) for box in boxes]
        return [(box, task.result()) for box, task in zip(boxes, tasks, strict=True)]

    def host_key(self, box: Box) -> str | None:
        """The box's host key as "TYPE BASE64": the inventory's word, else what it showed at first contact."""
        if box.host_key is not None:
            return box.host_key
        try:
            text = self._known_hosts(box).read_text("utf-8", "replace")
        except OSError:
            return None
        keys = [line.split()[1:3] for line in text.splitlines() if line.startswith(f"{box.name} ")]
        return next((" ".join(key) for key in keys if len(key) == 2 and is_key(*key)), None)

    def _argv(self, box: Box, hello_s: float) -> list[str]:
        known = self._known_hosts(box)
        if box.host_key is not None:
            _put(known, f"{box.name} {box.host_key}\n")
        own = [
            f"ConnectTimeout={max(1, int(hello_s))}",
            f"HostKeyAlias={box.name}",
            f'UserKnownHostsFile="{str(known).replace("%", "%%")}"',
            f"StrictHostKeyChecking={'yes' if box.host_key else 'accept-new'}",
        ]
        if box.key is not None:
            own += [f'IdentityFile="{str(box.key).replace("%", "%%")}"', "IdentitiesOnly=yes"]
        options = [word for option in (*_OPTIONS, *own) for word in ("-o", option)]
        user = box.user or USER
        return [_SSH, "-F", "none", "-T", *options, "-p", str(box.port), "-l", user, "--", box.address, HELLO]

    def _known_hosts(self, box: Box) -> Path:
        folder = self._context.data_folder.absolute() / "known_hosts"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"ssh: {folder} can't be made: {error.strerror}") from error
        return folder / box.name


def _put(path: Path, text: str) -> None:
    """Replace the file where it says something else; readers never see half of it."""
    try:
        if path.is_file() and path.read_text("utf-8", "replace") == text:
            return
        new = path.with_name(f".{path.name}.{os.getpid()}")
        new.write_text(text, "utf-8")
        new.replace(path)
    except OSError as error:
        raise ConfigError(f"ssh: {path} can't be written: {error.strerror}") from error
