from __future__ import annotations

import click
import pytest

from gipper.errors import PluginError
from gipper.markers import hookimpl
from gipper.plugins.common import CommonHooks
from gipper.plugins.loading import load_module, plugin_set
from gipper.plugins.parts import Origin
from gipper.runtime import RealRuntime


class FastRuntime(RealRuntime):
    """Real threads, but a wait of seconds ends after hundredths."""

    def wait_any(self, events, deadline=None):
        if deadline is not None:
            deadline = min(deadline, self.monotonic() + 0.05)
        return super().wait_any(events, deadline)


@pytest.fixture
def common(module):
    """CommonHooks over team modules given by name and hooks; `.notes` has what was told."""

    def make(runtime=None, builtin=(), **plugins):
        notes: list[str] = []
        team = [
            load_module(
                module(name, **{h: hookimpl(f) for h, f in hooks.items()}),
                Origin(entry=name, distribution=f"gipper-{name}", version="1"),
                "team",
            )
            for name, hooks in plugins.items()
        ]
        made = CommonHooks(
            runtime or RealRuntime(),
            plugins=lambda: plugin_set(builtin=builtin, team=team),
            on_note=notes.append,
            redact=lambda t: t.replace("sk-1", "*"),
        )
        made.notes = notes
        return made

    return make


def test_reasons_of_every_plugin(common, module):
    """Every plugin's reason counts; those that have none don't."""
    hooks = common(
        builtin=[
            module("b", gipper_classify_upload=hookimpl(lambda path: "dotenv" if path == ".env" else None))
        ],
        t={"gipper_classify_upload": lambda head: "key" if b"KEY" in head else None},
    )
    assert hooks.classify_upload(".env", b"KEY") == ("dotenv", "key")
    assert hooks.classify_upload("a", b"") == ()


@pytest.mark.parametrize("answer", [True, "", ["x"], b"x"])
def test_nonsense_classification_refuses(common, answer):
    """A reason that isn't text refuses the upload with blame."""
    hooks = common(t={"gipper_classify_upload": lambda path: answer})
    with pytest.raises(PluginError, match=r"plugin t 1 \(distribution gipper-t\): gipper_classify_upload"):
        hooks.classify_upload("a", b"")


def test_error_in_classification_refuses(common):
    """An error in a classifier refuses the upload; its text is redacted."""

    def bad(path):
        raise OSError("sk-1")

    with pytest.raises(PluginError, match=r"gipper_classify_upload raised OSError: \*"):
        common(t={"gipper_classify_upload": bad}).classify_upload("a", b"")


def test_observers_hear_each_receipt_and_can_t_hurt(common):
    """One observer's failure, SystemExit included, is told and hides the receipt from no other."""
    heard = []

    def bad(receipt):
        raise ValueError("sk-1")

    def leave(receipt):
        raise SystemExit(3)

    hooks = common(
        a={"gipper_receipt_written": bad},
        b={"gipper_receipt_written": leave},
        c={"gipper_receipt_written": lambda receipt: heard.append(receipt)},
    )
    hooks.receipt_written("r1")
    assert heard == ["r1"]
    assert [n.partition(": ")[2] for n in hooks.notes] == [
        "gipper_receipt_written raised ValueError: *",
        "gipper_receipt_written raised SystemExit: 3",
    ]


def test_slow_observer_is_left_behind(common):
    """An observer past its limit is told once and hears nothing more until it is done; others go on."""
    runtime = FastRuntime()
    free, heard, slow_heard = runtime.event(), [], []

    def slow(receipt):
        slow_heard.append(receipt)
        runtime.wait_any([free])

    hooks = common(
        runtime,
        a={"gipper_receipt_written": slow},
        b={"gipper_receipt_written": lambda receipt: heard.append(receipt)},
    )
    hooks.receipt_written("r1")
    hooks.receipt_written("r2")
    assert heard == ["r1", "r2"] and slow_heard == ["r1"]
    assert len(hooks.notes) == 1 and "took longer than 2 s" in hooks.notes[0]
    task = next(iter(hooks._late.values()))
    free.set()
    runtime.wait_any([task.done])
    hooks.receipt_written("r3")
    assert slow_heard == ["r1", "r3"]


def test_without_observers_nothing_is_spawned(common):
    """A receipt that nobody watches starts no task."""

    class Forbidden(RealRuntime):
        def spawn(self, name, fn):
            raise AssertionError("spawned")

    common(Forbidden()).receipt_written("r")


def test_commands_are_added_and_bad_ones_undone(common):
    """gipper_commands adds commands; a plugin that fails half-way or replaces a command adds none."""

    @click.command()
    def hello():
        pass

    @click.command()
    def own():
        pass

    def half(group):
        group.add_command(hello, "half")
        raise ValueError("x")

    hooks = common(
        a={"gipper_commands": half},
        b={"gipper_commands": lambda group: group.add_command(hello, "pod")},
        c={"gipper_commands": lambda group: group.add_command(hello, "hello")},
    )
    group = click.Group(commands={"pod": own})
    hooks.commands(group)
    assert group.commands == {"pod": own, "hello": hello}
    assert [n.partition(" 1 ")[0] for n in hooks.notes] == ["plugin a", "plugin b"]
