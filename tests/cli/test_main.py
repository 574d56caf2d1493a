"""The command as a process: messages, exit codes, streams."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from gipper.cli import main as command
from gipper.errors import ConfigError, NoOffer, NotProvedGone, ProviderError

SCRIPT = str(Path(sys.executable).parent / "gipper")


def _gipper(*args: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    given = {"capture_output": True, "timeout": 60, "check": False, **options}
    return subprocess.run([SCRIPT, *args], **given)


def _raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the command `boom` raise `error`."""

    @click.command("boom")
    def boom() -> None:
        raise error

    monkeypatch.setitem(command.root.commands, "boom", boom)


def test_without_arguments_it_helps() -> None:
    """No arguments: the help on stdout, nothing on stderr, exit 0."""
    done = _gipper()
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == _gipper("--help").stdout
    assert b"ledger" in done.stdout


def test_help_names_every_command_without_importing_it() -> None:
    """The help lists the table's names with their lines."""
    shown = _gipper("--help").stdout.decode()
    for name, entry in command.COMMANDS.items():
        assert f"  {name} " in shown
        assert entry.help in shown


@pytest.mark.parametrize("words", [[], ["pod"], ["pod", "gpus"]])
def test_help_is_a_word_too(words: list[str]) -> None:
    """`gipper help X` prints what `gipper X --help` does."""
    done = _gipper("help", *words)
    assert done.returncode == 0 and done.stdout == _gipper(*words, "--help").stdout


def test_no_line_of_the_help_is_cut() -> None:
    """Commands of groups without a table have whole sentences, too."""
    for group in (["ledger"], ["job"], ["pod", "reap-timer"]):
        lines = _gipper(*group, "--help").stdout.decode().splitlines()
        assert not [x for x in lines if x.endswith("...") and not x.startswith("Usage")]


def test_module_and_script_are_one() -> None:
    """`python -m gipper` does what the script does."""
    done = subprocess.run(
        [sys.executable, "-m", "gipper", "--version"], capture_output=True, check=True, timeout=60
    )
    assert done.stdout == _gipper("--version").stdout


@pytest.mark.parametrize(
    ("args", "said", "hint"),
    [
        (["ledgr"], "no command 'ledgr'; did you mean 'ledger'?", "gipper --help"),
        (["ledger", "verfy"], "no command 'verfy'; did you mean 'verify'?", "gipper ledger --help"),
        (["run"], "no command 'run'; did you mean 'gipper pod run'?", "gipper --help"),
        (["--bogus"], "no such option", "gipper --help"),
        (["ledger", "--since", "soon"], "'soon' is no date", "gipper ledger --help"),
    ],
    ids=["command", "subcommand", "of a group", "option", "value"],
)
def test_wrong_use_is_told_with_what_to_type(args: list[str], said: str, hint: str) -> None:
    """Wrong use: exit 2, one message with what was wrong, and the next step; no traceback."""
    done = _gipper(*args)
    told = done.stderr.decode()
    assert done.returncode == 2, told
    assert told.startswith("gipper: ")
    assert said in told
    assert told.endswith(f"  next: {hint}\n")
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("x"), 2), (NoOffer("x"), 3), (ProviderError("x"), 4), (NotProvedGone("x"), 5)],
    ids=["config", "no offer", "provider", "not gone"],
)
def test_errors_become_exit_codes(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An expected error is its message and its class's exit code."""
    _raising(monkeypatch, error)
    assert command.main(["boom"]) == code
    assert capsys.readouterr().err == "gipper: x\n"


def test_a_hint_is_the_next_step(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The hint follows the message on a line of its own."""
    _raising(monkeypatch, ProviderError("it said no", hint="ask again"))
    command.main(["boom"])
    assert capsys.readouterr().err == "gipper: it said no\n  next: ask again\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()], ids=["ctrl-c", "abort"])
def test_interrupted_is_quiet(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C before anything was done: exit 130 and not a word."""
    _raising(monkeypatch, error)
    assert command.main(["boom"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An error of the system names the file, says what it is and what to do; no traceback."""
    _raising(monkeypatch, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/some/file"))
    assert command.main(["boom"]) == 4
    told = capsys.readouterr().err
    assert told.startswith("gipper: /some/file: No space left on device\n  next: make room")
    assert "Traceback" not in told


def test_own_faults_are_admitted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody expected is told as gipper's fault, in one line, with --debug as the next step."""
    _raising(monkeypatch, RuntimeError("lost\nmy way"))
    assert command.main(["boom"]) == 4
    told = capsys.readouterr().err
    assert told.splitlines() == [
        "gipper: this is a fault of gipper: RuntimeError: lost my way",
        "  next: run it again with --debug and report what it prints",
    ]


@pytest.mark.parametrize("args", [["--debug", "boom"], ["boom", "--debug"]], ids=["before", "after"])
def test_debug_shows_where_without_secrets(
    args: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--debug adds the traceback wherever it stands; values of secret-looking variables are not in it."""
    monkeypatch.setenv("ACME_API_KEY", "correct-horse-battery")
    _raising(monkeypatch, RuntimeError("sent correct-horse-battery to them"))
    assert command.main(args) == 4
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert "correct-horse" not in told
    assert "<redacted>" in told


def test_errors_cannot_write_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Control sequences in a provider's words are shown, not sent."""
    _raising(monkeypatch, ProviderError("no \x1b[2Jmoney"))
    command.main(["boom"])
    assert capsys.readouterr().err == "gipper: no \\x1b[2Jmoney\n"


@pytest.mark.parametrize("args", [["--version"], ["--help"]], ids=" ".join)
def test_a_full_output_is_told(args: list[str]) -> None:
    """An answer that can't be written is an error, told once."""
    with open("/dev/full", "wb") as full:
        done = _gipper(*args, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 4
    assert done.stderr.decode().startswith("gipper: ")
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.parametrize("args", [["--version"], ["--help"]], ids=" ".join)
def test_a_reader_that_left_is_no_error(args: list[str]) -> None:
    """`gipper ... | true` ends quietly."""
    reader, writer = os.pipe()
    os.close(reader)
    done = _gipper(*args, capture_output=False, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_closed_streams_are_no_error() -> None:
    """Started without stdout, it still ends as it should."""
    done = subprocess.run(["sh", "-c", f"{SCRIPT} --help >&-"], capture_output=True, check=False, timeout=60)
    assert done.returncode in (0, 4)
    assert b"Traceback" not in done.stderr


def test_d_091_c_locale() -> None:
    """In the C locale without UTF-8 mode, text that can't be encoded is escaped, never an error."""
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code = """if True:
        from gipper.cli.main import main
        from gipper.cli.render import say
        main(["--help"])
        say("gr\\xf6\\xdfe \\u65e5\\u672c")
    """
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert b"gr\\xf6\\xdfe \\u65e5\\u672c" in done.stdout
    assert _gipper("größe", env=env).returncode == 2


def test_completion_knows_the_commands() -> None:
    """A shell that asks what may follow is told."""
    env = {**os.environ, "_GIPPER_COMPLETE": "bash_complete", "COMP_WORDS": "gipper led", "COMP_CWORD": "1"}
    assert _gipper(env=env).stdout.split() == [b"plain,ledger"]


def test_exit_codes_of_commands_come_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command may return its exit code, or exit with it."""

    @click.command()
    def five() -> int:
        return 5

    @click.command()
    @click.pass_context
    def three(ctx: click.Context) -> None:
        ctx.exit(3)

    monkeypatch.setitem(command.root.commands, "five", five)
    monkeypatch.setitem(command.root.commands, "three", three)
    assert command.main(["five"]) == 5
    assert command.main(["three"]) == 3


def test_commands_of_plugins_are_looked_for_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A word that gipper doesn't know may be a plugin's; gipper's own words never are."""

    @click.command()
    @click.argument("word")
    def greet(word: str) -> None:
        click.echo(f"hello {word}")

    @click.command()
    def mine() -> int:
        return 99

    def add(group: click.Group) -> None:
        group.add_command(greet, "greet")
        group.add_command(mine, "ledger")

    monkeypatch.setattr("gipper.cli.plugins.add_plugin_commands", add)
    assert command.main(["greet", "you"]) == 0
    assert capsys.readouterr().out == "hello you\n"
    assert command.main(["ledger"]) == 0
    assert command.main(["great"]) == 2


def test_a_group_without_a_word_helps() -> None:
    """A group alone prints its help and exits 0, as the command itself does."""
    done = _gipper("pod")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Usage: gipper pod" in done.stdout
