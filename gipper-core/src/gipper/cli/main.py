"""The root of the command line, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from gipper import __version__
from gipper.cli.lazy import Entry, LazyGroup
from gipper.errors import GipperError
from gipper.outcomes import EXIT_INTERRUPTED, EXIT_OK, EXIT_PROVIDER, EXIT_USAGE

COMMANDS: Final = {
    "pod": Entry("gipper.cli.pod:pod", "Rent a machine for a job, look after machines, see what they cost."),
    "job": Entry("gipper.cli.job:job", "Check a job file; the schema of job files."),
    "ledger": Entry("gipper.cli.ledger:ledger", "Raw receipts; is the trail whole; a copy of it."),
    "custody": Entry(
        "gipper.cli.custody:custody", "What of yours was where; record what went around gipper."
    ),
    "plugins": Entry("gipper.cli.plugins:plugins", "What is installed, and what failed to load."),
    "plugin": Entry("gipper.cli.plugin:plugin", "Begin a plugin of your own."),
    "hooks": Entry("gipper.cli.hooks:hooks", "Trust the hooks that lie beside a job file; what is trusted."),
    "doctor": Entry("gipper.cli.doctor:doctor", "Look for trouble and say its cure."),
}


def _plugin_command(name: str) -> click.Command | None:
    """A plugin's command. They are added to a group of their own: none can replace one of gipper's."""
    from gipper.cli.plugins import add_plugin_commands

    found = click.Group("gipper")
    add_plugin_commands(found)
    return found.commands.get(name)


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    find=_plugin_command,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--debug", is_flag=True, expose_value=False, help="Tell more; tracebacks without secrets.")
@click.version_option(__version__, prog_name="gipper", message="%(prog)s %(version)s")
def root() -> None:
    """Run batch jobs on rented GPUs, and prove that every machine was given back.

    Exit codes: 0 succeeded; 1 the job failed; 2 wrong use or configuration; 3 no offer fits; 4 a
    provider or plugin failed; 5 a machine isn't proved gone; 130 interrupted.
    """


def main(args: Sequence[str]) -> int:
    """Run one command line; returns the exit code and raises nothing that a user can cause."""
    _prepare_streams()
    if "_GIPPER_COMPLETE" in os.environ:
        root.main(prog_name="gipper")
    plain, debug = _take_debug(args)
    code = _logged(plain) if debug else _guarded(plain, debug)
    return _flushed(code)


def output_failed() -> int:
    """What to do in an `except OSError` about stdout itself: quiet where the reader left, else told."""
    from gipper.cli.render import drop_output

    error = sys.exc_info()[1]
    drop_output()
    if isinstance(error, BrokenPipeError):
        return EXIT_OK
    _tell(f"can't write the output: {_reason(error)}", "make room or name another place, and run it again")
    return EXIT_PROVIDER


def _prepare_streams() -> None:
    """No character ends the command: what a stream's encoding lacks is shown as an escape (C locale)."""
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:  # closed by whoever started this process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - the process's own
        elif stream.errors != "backslashreplace" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _take_debug(args: Sequence[str]) -> tuple[list[str], bool]:
    """`--debug` counts wherever it stands, up to a bare `--`: it is typed after the failure."""
    cut = list(args).index("--") if "--" in args else len(args)
    kept = [a for a in args[:cut] if a != "--debug"]
    debug = len(kept) < cut or bool(os.environ.get("GIPPER_DEBUG"))
    return [*kept, *args[cut:]], debug


def _logged(args: list[str]) -> int:
    from gipper.cli.render import warn
    from gipper.debuglog import debugging

    with debugging(args, os.environ, warn):
        return _guarded(args, True)


def _guarded(args: list[str], debug: bool) -> int:
    try:
        return _invoke(args, debug)
    except click.exceptions.Exit as done:
        return done.exit_code
    except SystemExit as done:
        return _system_exit(done.code)
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except GipperError as error:
        return _expected(error, debug)
    except click.ClickException as error:
        return _usage(error)
    except BrokenPipeError:
        return output_failed()
    except OSError as error:
        return _system(error, debug)
    except Exception as error:  # noqa: BLE001 - the last place that can turn a fault into a message
        return _unexpected(error, debug)


def _invoke(args: list[str], debug: bool) -> int:
    # Not click's own main(): it turns Ctrl-C, broken pipes and errors into codes of its own.
    with root.make_context("gipper", args) as context:
        context.meta["gipper.debug"] = debug
        value: Any = root.invoke(context)
    return value if isinstance(value, int) and not isinstance(value, bool) else EXIT_OK


def _system_exit(code: object) -> int:
    if code is None:
        return EXIT_OK
    if isinstance(code, int):
        return code
    _tell(str(code))
    return EXIT_PROVIDER


def _expected(error: GipperError, debug: bool) -> int:
    _trace(error, debug)
    _tell(error.message, error.hint)
    return error.exit_code


def _usage(error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "gipper"
    message = error.format_message()
    _tell(message[:1].lower() + message[1:].rstrip("."), f"{path} --help")
    return EXIT_USAGE


def _system(error: OSError, debug: bool) -> int:
    _trace(error, debug)
    hints = {
        errno.ENOSPC: "make room on that disk and run it again",
        errno.EDQUOT: "make room in that quota and run it again",
        errno.EACCES: "look at who may read and write it",
        errno.EROFS: "name a place that can be written to",
    }
    place = f"{error.filename}: " if error.filename else ""
    again = "run it again with --debug to see where it happened"
    _tell(f"{place}{_reason(error)}", hints.get(error.errno or 0, again))
    return EXIT_PROVIDER


def _unexpected(error: Exception, debug: bool) -> int:
    _trace(error, debug)
    what = _redacted(f"{type(error).__name__}: {error}").replace("\n", " ")
    hint = "report it with the text above" if debug else "run it again with --debug and report what it prints"
    _tell(f"this is a fault of gipper: {what}", hint)
    return EXIT_PROVIDER


def _trace(error: BaseException, debug: bool) -> None:
    if debug:
        import traceback

        from gipper.cli.render import warn

        warn(_redacted("".join(traceback.format_exception(error))).rstrip())


def _redacted(text: str) -> str:
    """Without anything that could be a secret: it is made to be pasted."""
    from gipper.debuglog import safe

    return safe(text, os.environ)


def _reason(error: BaseException | None) -> str:
    return getattr(error, "strerror", None) or str(error)


def _tell(message: str, hint: str | None = None) -> None:
    from gipper.cli.render import warn
    from gipper.debuglog import message as shown

    warn(f"gipper: {shown(message, os.environ)}")
    if hint:
        warn(f"  next: {shown(hint, os.environ)}")


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        failed = output_failed()
        return code or failed
    return code
