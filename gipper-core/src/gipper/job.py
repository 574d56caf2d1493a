"""Job files for programs: ``from gipper.job import load``."""

from __future__ import annotations

import os
from pathlib import Path

from gipper.values.jobs import Job

__all__ = ["Job", "load"]


def load(path: str | os.PathLike[str]) -> Job:
    """The checked job in the file `path`, what it leaves open filled from this user's settings.

    Providers' own tables are not checked here: that takes their plugins, and `run.plan` does it.
    Raises ConfigError (ProblemsError with all mistakes).
    """
    from gipper import jobfile, settings
    from gipper.paths import Paths

    paths = Paths.from_env(os.environ)
    loaded = settings.load(paths.config_file, tables={})
    return jobfile.load(Path(path), settings=loaded.settings, option_tables={}).job
