"""The hooks that belong to no market: sensitive files, watching the ledger, extra commands."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gipper.errors import PluginError
from gipper.plugins.blame import Implementation, Redact, raised, shown
from gipper.plugins.hooks import COMMANDS
from gipper.plugins.manager import Parts, common_manager
from gipper.plugins.parts import PluginSet
from gipper.runtime import Runtime, Task
from gipper.values.receipts import Receipt

if TYPE_CHECKING:
    import click

OBSERVER_S: Final = 2.0
Note = Callable[[str], None]


class CommonHooks:
    """Built-ins, team and job plugins behind one manager, made at first use.

    `on_note` is told, once each, what an observer or a command plugin did wrong.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        plugins: Callable[[], PluginSet] = PluginSet,
        on_note: Note = lambda _text: None,
        redact: Redact = str,
    ) -> None:
        self._runtime = runtime
        self._plugins = plugins
        self._on_note = on_note
        self._redact = redact
        self._lock = threading.Lock()
        self._made: Parts | None = None
        self._late: dict[str, Task[object]] = {}

    def classify_upload(self, path: str, head: bytes) -> tuple[str, ...]:
        """Why the input at `path` looks sensitive. Raises PluginError: then nothing may go up."""
        answers = [
            (one, one.ask({"path": path, "head": head}, self._redact, PluginError))
            for one in self._ordered("gipper_classify_upload")
        ]
        for one, answer in answers:
            if answer is not None and (not isinstance(answer, str) or not answer.strip()):
                raise one.broke(
                    f"returned {shown(answer)} for {path!r} instead of a reason", self._redact, PluginError
                )
        return tuple(answer for _, answer in answers if answer is not None)

    def receipt_written(self, receipt: Receipt) -> None:
        """Tell every observer, side by side, and wait at most 2 s in all; never fatal.

        An observer that is still busy with an earlier receipt isn't told of this one.
        """
        asked = [one for one in self._ordered("gipper_receipt_written") if not self._busy(one)]
        tasks = [(one, self._spawn(one, receipt)) for one in asked]
        deadline = self._runtime.monotonic() + OBSERVER_S
        for one, task in tasks:
            if self._runtime.wait_any([task.done], deadline) is None:
                task.cancel()
                self._late[self._key(one)] = task
                self._on_note(f"{one.origin.blame}: {one.hook} took longer than {OBSERVER_S:.0f} s")
            else:
                self._tell_failure(one, task)

    def commands(self, group: click.Group) -> None:
        """Let team plugins add commands to `group`; one that fails or replaces a command adds nothing."""
        for one in self._ordered(COMMANDS):
            before = dict(group.commands)
            fault = self._added(one, group)
            if fault is None and any(group.commands.get(n) is not c for n, c in before.items()):
                fault = f"{one.origin.blame}: {one.hook} replaces a command that is already there"
            if fault is not None:
                group.commands.clear()
                group.commands.update(before)
                self._on_note(fault)

    def _added(self, one: Implementation, group: click.Group) -> str | None:
        try:
            one({"group": group})
        except (Exception, SystemExit) as error:  # noqa: BLE001 - one plugin's commands must not cost the others'
            return raised(one.origin, one.hook, error, self._redact)
        return None

    def _ordered(self, hook: str) -> tuple[Implementation, ...]:
        with self._lock:
            if self._made is None:
                self._made = common_manager(self._plugins())
            return self._made.ordered[hook]

    def _spawn(self, one: Implementation, receipt: Receipt) -> Task[object]:
        return self._runtime.spawn(f"observer {one.origin.entry}", lambda: one({"receipt": receipt}))

    def _busy(self, one: Implementation) -> bool:
        task = self._late.get(self._key(one))
        if task is None:
            return False
        if task.done.is_set():
            del self._late[self._key(one)]
            self._tell_failure(one, task)
            return False
        return True

    def _tell_failure(self, one: Implementation, task: Task[object]) -> None:
        try:
            task.result()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an observer's failure is told, never fatal
            self._on_note(raised(one.origin, one.hook, error, self._redact))

    @staticmethod
    def _key(one: Implementation) -> str:
        return one.origin.blame
