"""What a job's own hooks file must be before any of it runs, and how it is run."""

from __future__ import annotations

import os
import pickle
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gipper.errors import ConfigError, ProblemsError
from gipper.jobhooks import examine, load_hooks
from gipper.jobhooks_source import ALLOWED_HOOKS, read_source
from gipper.jobhooks_trust import Trust
from gipper.plugins.hooks import COMMANDS, VERBS

HEAD = "from gipper.api import hookimpl\n\nGIPPER_API = 1\n"
GOOD = HEAD + "\n\n@hookimpl\ndef gipper_exclude_offers(offers, job):\n    return {}\n"
NOW = datetime(2026, 12, 1, tzinfo=UTC)


def refused(job, data, *, allow=True):
    """The one line with which `job` is refused."""
    with pytest.raises(ProblemsError) as error:
        load_hooks(job, data, allow=allow)
    assert error.value.exit_code == 2
    (line,) = error.value.problems
    assert line.startswith("hooks[")
    return line


def test_a_good_file_is_loaded(make_job, data):
    """Its hooks, its hash and its full path are known, and go into the receipt."""
    job = make_job(GOOD)
    found = load_hooks(job, data, allow=True)
    path = str(job.folder / "gipper_hooks.py")
    assert found.loaded[0].kind == "job" and found.loaded[0].name == path
    digest = read_source(Path(path)).sha256
    assert found.for_receipt() == {path: f"sha256:{digest} gipper_exclude_offers"}


def test_a_job_without_hooks_reads_nothing(make_job, data):
    """No list of allowed files is looked for where no hooks are named."""
    job = make_job(None, names=())
    assert load_hooks(job, data).loaded == () and not data.exists()


def test_refused_until_allowed_for_path_and_content(make_job, data):
    """Not allowed, allowed, edited, as before again: only what was allowed runs, and the cure is told."""
    job = make_job(GOOD)
    path = job.folder / "gipper_hooks.py"
    assert f"`gipper hooks allow {path}`" in refused(job, data, allow=False)
    Trust(data).allow([read_source(path)], NOW)
    assert load_hooks(job, data).loaded
    assert "changed since it was allowed" in refused(make_job(GOOD + "# x\n"), data, allow=False)
    assert load_hooks(make_job(GOOD), data).loaded
    path.rename(job.folder / "other.py")
    assert "other.py was not allowed yet" in refused(make_job(None, names=("other.py",)), data, allow=False)


def test_allowing_for_one_call_leaves_no_trace(make_job, data):
    """--allow-hooks writes nothing down."""
    assert load_hooks(make_job(GOOD), data, allow=True).loaded
    assert not data.exists()


@pytest.mark.parametrize("what", ["gipper_hooks.py", "."])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_can_write_is_refused(make_job, data, what, mode):
    """Group or others may write neither the file nor its folder; the chmod that mends it is told."""
    job = make_job(GOOD)
    place = job.folder / what
    place.chmod(place.stat().st_mode | mode)
    assert f"chmod go-w {place.resolve()}" in refused(job, data)
    place.chmod(place.stat().st_mode & ~mode)
    assert load_hooks(job, data, allow=True).loaded


def test_a_folder_between_is_looked_at_too(make_job, data):
    """A hooks file in a subfolder: each folder down from the job file's counts."""
    job = make_job(None, names=("a/b/h.py",))
    (job.folder / "a" / "b").mkdir(parents=True)
    (job.folder / "a" / "b" / "h.py").write_text(GOOD)
    assert load_hooks(job, data, allow=True).loaded
    (job.folder / "a").chmod(0o777)
    assert "chmod go-w" in refused(job, data)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("what", ["gipper_hooks.py", "."])
def test_what_another_user_owns_is_refused(make_job, data, what):
    """Whoever owns it could change it after it was read."""
    job = make_job(GOOD)
    os.chown(job.folder / what, 4321, 4321)
    assert "another user (uid 4321)" in refused(job, data)


def test_a_link_that_leaves_the_folder_is_refused(make_job, data, tmp_path):
    """A symlink inside the folder is followed, one that leads out of it isn't; nor is `..`."""
    job = make_job(GOOD, names=("link.py",))
    (job.folder / "link.py").symlink_to("gipper_hooks.py")
    assert load_hooks(job, data, allow=True).loaded[0].name.endswith("gipper_hooks.py")
    (tmp_path / "outside.py").write_text(GOOD)
    (job.folder / "out.py").symlink_to(tmp_path / "outside.py")
    for name in ("out.py", "../outside.py"):
        assert "out of the job file's folder" in refused(make_job(None, names=(name,)), data)


@pytest.mark.parametrize("name", ["nosuch.py", "", "/etc/hosts", "a\0b", "."])
def test_names_that_are_no_file_beside_the_job(make_job, data, name):
    """Absent, empty, absolute, impossible, or a folder: refused, never looked for elsewhere."""
    refused(make_job(GOOD, names=(name,)), data)


def test_no_upward_search(make_job, data, tmp_path):
    """A hooks file in a folder above isn't found."""
    (tmp_path / "gipper_hooks.py").write_text(GOOD)
    assert "is not there" in refused(make_job(None), data)


def test_a_pipe_does_not_hold_us_up(make_job, data):
    """A named pipe is refused at once."""
    job = make_job(None)
    os.mkfifo(job.folder / "gipper_hooks.py", 0o600)
    assert "is not a file" in refused(job, data)


def test_the_same_file_twice(make_job, data):
    """Two names of one file are refused: its hooks would count twice."""
    job = make_job(GOOD, names=("gipper_hooks.py", "./gipper_hooks.py"))
    assert "is there twice" in refused(job, data)


API = {
    "missing": ("", "API 1: set GIPPER_API = 1"),
    "newer": ("GIPPER_API = 2\n", "for hook API 2, and this gipper has hook API 1"),
    "computed": ("GIPPER_API = 0 + 1\n", "plain number"),
    "true": ("GIPPER_API = True\n", "plain number"),
    "twice": ("GIPPER_API = 1\nGIPPER_API = 1\n", "must be set once"),
}


@pytest.mark.parametrize("case", API)
def test_the_api_version_is_read_before_execution(make_job, data, tmp_path, case):
    """Without the right `GIPPER_API` nothing of the file runs, and both versions are told."""
    head, part = API[case]
    ran = tmp_path / "ran"
    text = head + f"open({str(ran)!r}, 'w')\n" + GOOD.replace("GIPPER_API = 1\n", "")
    assert part in refused(make_job(text), data)
    assert not ran.exists()


NAMES = {
    "misspelt": ("gipper_preflihgt", "did you mean gipper_preflight?"),
    "strange": ("gipper_zzz", "no hook of that name"),
    "wrapped": ("gipper_rent", "gipper.plugins) may wrap it"),
    "command": ("gipper_commands", "gipper.plugins"),
    "ends": ("gipper_terminate", "it is a verb"),
}


@pytest.mark.parametrize("case", NAMES)
def test_names_that_no_job_may_use(make_job, data, tmp_path, case):
    """An unknown hook, a verb or commands: refused by name, before anything runs."""
    name, part = NAMES[case]
    ran = tmp_path / "ran"
    line = refused(
        make_job(GOOD + f"open({str(ran)!r}, 'w')\n\n\n@hookimpl\ndef {name}():\n    pass\n"), data
    )
    assert name in line and part in line and not ran.exists()


@pytest.mark.parametrize("name", sorted(VERBS | {COMMANDS}))
def test_no_verb_and_no_command(make_job, data, name):
    """Every verb is refused, whatever binds its name; the five other hooks remain."""
    assert name in refused(make_job(GOOD + f"if True:\n    {name} = None\n"), data)
    assert {n.removeprefix("gipper_") for n in ALLOWED_HOOKS} == {
        "exclude_offers", "adjust_costs", "preflight", "classify_upload", "receipt_written",
    }  # fmt: skip


def test_names_made_while_it_runs_are_checked_too(make_job, data):
    """A wrapper, or a hook whose name stands in no text of the file, doesn't slip through."""
    wrapper = "\n\n@hookimpl(wrapper=True)\ndef w(query):\n    return (yield)\n\n\n"
    line = refused(make_job(GOOD + wrapper + "globals()['gipper_' + 'list_offers'] = w\n"), data)
    assert "gipper_list_offers: a job's own hooks file may not wrap verbs" in line


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (HEAD + "\n\ndef gipper_preflight(remote):\n    pass\n", "not marked with @hookimpl"),
        (HEAD + "\n\n@hookimpl\ndef gipper_preflight(machin):\n    pass\n", "did you mean machine?"),
        (HEAD, "implements no hook"),
        (GOOD + "def broken(:\n", "gipper_hooks.py, line 9: SyntaxError"),
        (GOOD + "return 3\n", "line 9: SyntaxError"),
        (GOOD + "\0", "null bytes"),
        (GOOD + "import nosuchmodule_xyz\n", "line 9: ModuleNotFoundError: No module named 'nosuchmodule_xyz'"),
        (GOOD + "raise RuntimeError('not today')\n", "line 9: RuntimeError: not today"),
        (GOOD + "import sys\nsys.exit(0)\n", "line 10: SystemExit"),
        (GOOD.encode() + b"x = '\xff'\n", "gipper_hooks.py"),
        (GOOD + "#" * (1 << 20), "over 1 MiB"),
    ],
    ids=range(11),
)  # fmt: skip
def test_files_that_do_not_load(make_job, data, text, part):
    """Each fault is one line with the file, its line where there is one, and what was wrong."""
    before = set(sys.modules)
    assert part in refused(make_job(text), data)
    assert not [n for n in set(sys.modules) - before if "hooks" in n]


def test_the_module_is_private(make_job, data):
    """It has a name that can't be guessed, its folder isn't searched, and its classes can be pickled."""
    text = GOOD + "import dataclasses\n\n\n@dataclasses.dataclass\nclass Seen:\n    n: 'int' = 3\n"
    job = make_job(text)
    first, second = (load_hooks(job, data, allow=True).modules[0] for _ in range(2))
    assert first is not second and first.__name__ != second.__name__
    assert "gipper_hooks" not in sys.modules and str(job.folder) not in sys.path
    assert pickle.loads(pickle.dumps(first.Seen())).n == 3


def test_a_neighbour_is_not_importable(make_job, data):
    """What lies beside the hooks file was not allowed with it, so it can't be imported from there."""
    job = make_job(GOOD + "import neighbour_of_hooks\n")
    (job.folder / "neighbour_of_hooks.py").write_text("x = 1\n")
    assert "No module named 'neighbour_of_hooks'" in refused(job, data)


def test_what_was_hashed_is_what_runs(make_job, data):
    """The file is read once: a change after that has no effect."""
    job = make_job(GOOD + "import pathlib\n\npathlib.Path(__file__).write_text('1/0')\nafter = 1\n")
    found = load_hooks(job, data, allow=True)
    assert found.modules[0].after == 1
    assert found.hashes[found.loaded[0].name] != read_source(job.folder / "gipper_hooks.py").sha256


def test_nothing_runs_unless_all_may(make_job, data, tmp_path):
    """Of two files one isn't allowed: the allowed one doesn't run either, and only the other is blamed."""
    ran = tmp_path / "ran"
    job = make_job(GOOD + f"open({str(ran)!r}, 'w')\n", names=("gipper_hooks.py", "second.py"))
    (job.folder / "second.py").write_text(GOOD)
    Trust(data).allow([read_source(job.folder / "gipper_hooks.py")], NOW)
    assert refused(job, data, allow=False).startswith("hooks[1]")
    assert not ran.exists()


def test_all_mistakes_are_told_together(make_job, data):
    """Each file's mistake is in the one report, in the order of the job file."""
    _, mistakes = examine(make_job(None, names=("a.py", "/b.py", "c.py")), data)
    assert [m.path for m in mistakes] == [("hooks", 0), ("hooks", 1), ("hooks", 2)]


def test_the_text_of_an_error_is_redacted(make_job, data):
    """What a failing file says passes the redactor."""
    job = make_job(GOOD + "raise RuntimeError('s3cret')\n")
    with pytest.raises(ConfigError) as error:
        load_hooks(job, data, allow=True, redact=lambda text: text.replace("s3cret", "<redacted>"))
    assert "s3cret" not in error.value.message and "<redacted>" in error.value.message
