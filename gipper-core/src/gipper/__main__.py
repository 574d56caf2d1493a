"""The `gipper` command. `--version` is answered here, before anything else is imported."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line of this process; returns the exit code."""
    args = sys.argv[1:]
    if args == ["--version"]:
        return _version()
    from gipper.cli.main import main as run

    return run(args)


def _version() -> int:
    from gipper import __version__

    # Through the file descriptor's own stream with an explicit flush: a full disk must be told, not
    # reported by the interpreter while it shuts down.
    try:
        sys.stdout.write(f"gipper {__version__}\n")
        sys.stdout.flush()
    except OSError:
        from gipper.cli.main import output_failed

        return output_failed()
    return 0


if __name__ == "__main__":
    sys.exit(main())
