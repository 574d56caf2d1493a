"""`gipper doctor`: trouble and its cure."""

from __future__ import annotations

import attrs
import click

from gipper.cli.options import json_option
from gipper.outcomes import EXIT_OK, EXIT_USAGE


@click.command("doctor")
@json_option
def doctor(as_json: bool) -> int:
    """Look for trouble and say its cure. Changes nothing; exits 2 if there is trouble."""
    from gipper.cli.render import print_json, say
    from gipper.core import Gipper
    from gipper.diagnosis import examine

    findings = list(examine(Gipper.open()))
    if as_json:
        print_json([attrs.asdict(f) for f in findings])
    else:
        for finding in findings:
            say(f"{finding.level:8} {finding.what}: {finding.text}")
            if finding.cure:
                say(f"         cure: {finding.cure}")
    return EXIT_USAGE if any(f.level == "trouble" for f in findings) else EXIT_OK
