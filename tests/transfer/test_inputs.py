"""The pass over inputs: what is sent, what is left out, and what stops a run before it is paid for."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gipper.errors import ConfigError, ProblemsError
from gipper.transfer.inputs import Survey, recheck, survey
from gipper.values.jobs import Input

KEY = b"rk-0123456789abcdef"


class FakeScanner:
    """Finds one key, also across two pieces."""

    def __init__(self) -> None:
        self.seen = b""

    def feed(self, data: bytes) -> None:
        self.seen += data

    @property
    def found(self) -> frozenset[str]:
        return frozenset({"ACME_API_KEY"} if KEY in self.seen else ())


def files(found: Survey, base: str = ".") -> list[str]:
    return [e.path for e in found.manifests[base].entries if e.type == "file"]


@pytest.fixture
def look(tmp_path, runtime):
    def call(*inputs: Input, **options) -> Survey:
        given = {"scanner": None, "classify": None, "progress": None, **options}
        return survey(inputs, tmp_path, runtime=runtime, **given)

    return call


def make(top: Path, *paths: str) -> None:
    for path in paths:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(path.encode())


def test_d_043_a_pattern_with_a_slash_is_anchored(tmp_path, look):
    """`dataset/*` empties the top-level folder of that name and no other."""
    make(tmp_path, "t/dataset/a", "t/foo/dataset/b")
    assert files(look(Input(src="t", exclude=("dataset/*",)))) == ["t/foo/dataset/b"]


def test_d_043_negation_brings_a_file_back(tmp_path, look):
    """The last pattern that matches decides, as in gitignore."""
    make(tmp_path, "t/keep.log", "t/x.log", "t/d/y.log", "t/d/keep.log")
    found = look(Input(src="t", exclude=("*.log", "!keep.log")))
    assert files(found) == ["t/d/keep.log", "t/keep.log"]
    assert found.excluded == 2


def test_d_043_a_trailing_slash_means_folders_only(tmp_path, look):
    """`runs/` leaves out folders at any depth, but no file of that name."""
    make(tmp_path, "t/runs/a", "t/b/runs/c", "t/d/runs")
    assert files(look(Input(src="t", exclude=("runs/",)))) == ["t/d/runs"]


@pytest.mark.parametrize("pattern", ["", "  ", "!", "a\\", "[abc", "/", "# note"])
def test_d_043_a_pattern_that_can_do_nothing_is_an_error(tmp_path, look, pattern):
    """Syntax without meaning is told with its place, never silently ignored."""
    make(tmp_path, "t/a")
    with pytest.raises(ProblemsError, match=r"inputs\[0\]\.exclude\[1\]"):
        look(Input(src="t", exclude=("ok", pattern)))


def test_d_043_excludes_agree_with_git(tmp_path, look):
    """A tree and patterns of every kind give the list of files that git itself would give."""
    make(
        tmp_path, "t/a/b.o", "t/a/x/b.o", "t/doc/frotz", "t/a/doc/frotz", "t/k/z.bak", "t/k/!odd", "t/q/1/2/3"
    )
    patterns = ("*.o", "!a/x/b.o", "doc/frotz", "**/z.bak", "q/**/3", "\\!odd")
    ours = files(look(Input(src="t", exclude=patterns)))
    (tmp_path / "t" / ".gitignore").write_text("\n".join(patterns))
    git = ["git", "-C", tmp_path / "t", "ls-files", "-o", "--exclude-standard"]
    subprocess.run(["git", "init", "-q", tmp_path / "t"], check=True)
    theirs = subprocess.run(git, check=True, capture_output=True, text=True).stdout.split()
    assert ours == sorted("t/" + p for p in theirs if p != ".gitignore")


def test_d_044_nothing_is_left_out_unasked(tmp_path, look):
    """Ignore files, .git and dot files have no meaning of their own; the summary counts."""
    make(tmp_path, "t/data/x", "t/.git/config", "t/.hidden", "t/y")
    (tmp_path / "t/.gitignore").write_text("data/\n")
    found = look(Input(src="t"))
    assert files(found) == ["t/.git/config", "t/.gitignore", "t/.hidden", "t/data/x", "t/y"]
    assert (found.files, found.excluded) == (5, 0)
    assert found.bytes == sum(p.stat().st_size for p in (tmp_path / "t").rglob("*") if p.is_file())


def test_d_045_dangling_and_looping_links_end(tmp_path, look):
    """Links that lead nowhere or outside are listed as skipped, good ones stay links, sizes are finite."""
    make(tmp_path, "t/f", "outside")
    top = tmp_path / "t"
    for name, target in {
        "a": "missing",
        "l": "l",
        "d": ".",
        "good": "f",
        "abs": str(top / "f"),
        "out": "../outside",
        "climb": "d/../../outside",
        "back": "../t/f",
    }.items():
        (top / name).symlink_to(target)
    found = look(Input(src="t"))
    links = {e.path: e.link for e in found.manifests["."].entries if e.type == "link"}
    assert links == {"t/d": ".", "t/good": "f"}
    skipped = {note.split(":")[0].rsplit("/", 1)[1] for note in found.notes}
    assert skipped == {"a", "l", "abs", "out", "climb", "back"}
    assert found.bytes == 3


def test_d_046_missing_and_unreadable_are_told_together(open_folder):
    """As an ordinary user, a missing source and a file without permission are one error before a rent."""
    make(open_folder, "t/secret", "t/ok")
    (open_folder / "t/secret").chmod(0)
    code = """
        import os, sys
        from pathlib import Path
        from gipper.errors import ConfigError
        from gipper.runtime import RealRuntime
        from gipper.transfer.inputs import survey
        from gipper.values.jobs import Input
        if os.getuid() == 0:
            os.setgid(65534); os.setuid(65534)
        try:
            survey([Input(src="t"), Input(src="gone")], Path(sys.argv[1]), scanner=None, classify=None,
                   progress=None, runtime=RealRuntime())
        except ConfigError as error:
            print(error.message)
        try:
            survey([Input(src="t")], Path(sys.argv[1]), scanner=None, classify=None,
                   progress=None, runtime=RealRuntime())
        except ConfigError as error:
            print(error.message)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), open_folder], capture_output=True, text=True
    )
    assert "inputs[1].src: gone: is not there" in done.stdout, done.stderr
    assert "t/secret: Permission denied" in done.stdout


def test_a_provider_key_is_named_but_never_shown(tmp_path, look):
    """A file with a key is refused with its path and the key's name; the value is nowhere in the message."""
    make(tmp_path, "t/a")
    (tmp_path / "t/conf.json").write_bytes(b"x" * 300_000 + KEY)
    with pytest.raises(ConfigError) as caught:
        look(Input(src="t"), scanner=FakeScanner)
    assert "conf.json holds the value of ACME_API_KEY" in caught.value.message
    assert KEY.decode() not in str(caught.value)


def test_flags_come_from_the_beginning_of_a_file(tmp_path, look):
    """The classifier sees the remote path and at most the first MiB, and its word lands on the entry."""
    (tmp_path / "big").write_bytes(b"h" * (3 << 20))
    seen = []
    found = look(Input(src="big"), classify=lambda path, head: seen.append((path, len(head))) or "looks odd")
    assert seen == [("big", 1 << 20)]
    assert found.manifests["."].entries[0].flag == "looks odd"


@pytest.mark.parametrize(
    ("src", "dst", "base", "path"),
    [
        ("t", None, ".", "t/f"),
        ("t", "there", ".", "there/f"),
        ("t", "there/", ".", "there/f"),
        ("t", "a/b", ".", "a/b/f"),
        ("t", ".", ".", "f"),
        ("t/f", None, ".", "f"),
        ("t/f", "x", ".", "x"),
        ("t/f", "x/", ".", "x/f"),
        ("t", "/data/in", "/data/in", "f"),
        ("t/f", "/data/in", "/data", "in"),
        ("t/f", "/data/in/", "/data/in", "f"),
        ("t", "~/in", "~/in", "f"),
    ],
)
def test_dst_names_the_place_itself(tmp_path, look, src, dst, base, path):
    """A folder's content goes into `dst`; a file becomes it, or goes inside where it ends with a slash."""
    make(tmp_path, "t/f")
    found = look(Input(src=src, dst=dst))
    assert list(found.manifests) == [base]
    assert files(found, base) == [path]


@pytest.mark.parametrize("dst", ["..", "../x", "a/../../x", ""])
def test_dst_that_leaves_is_refused(tmp_path, look, dst):
    """A relative `dst` can't climb out of the work folder."""
    make(tmp_path, "t/f")
    with pytest.raises(ProblemsError, match=r"inputs\[0\]\.dst"):
        look(Input(src="t", dst=dst))


def test_two_inputs_for_one_place_are_refused(tmp_path, look):
    """Folders merge; two files of one name, or a file and a folder, don't."""
    make(tmp_path, "a/x", "b/y", "c/x")
    assert files(look(Input(src="a", dst="d"), Input(src="b", dst="d"))) == ["d/x", "d/y"]
    with pytest.raises(ProblemsError, match="would both become d/x"):
        look(Input(src="a", dst="d"), Input(src="c", dst="d"))


def test_devices_and_fifos_are_skipped_with_a_note(tmp_path, look):
    """What isn't a file, folder or link is named and doesn't block the pass."""
    make(tmp_path, "t/f")
    os.mkfifo(tmp_path / "t/pipe")
    found = look(Input(src="t"))
    assert files(found) == ["t/f"]
    assert "pipe" in found.notes[0]


def test_an_empty_folder_is_sent(tmp_path, look):
    """A source without files still arrives as a folder, below its parents."""
    (tmp_path / "t").mkdir()
    entries = look(Input(src="t", dst="a/b")).manifests["."].entries
    assert [(e.path, e.type) for e in entries] == [("a", "dir"), ("a/b", "dir")]


def test_recheck_sees_every_change(tmp_path, look):
    """Same size, mtime and inode: not read again; any of them different: read again."""
    make(tmp_path, "f", "g")
    one, two = look(Input(src="f"), Input(src="g")).manifests["."].entries
    assert recheck(one)
    os.utime(tmp_path / "f", ns=(1, 1))
    (tmp_path / "g").unlink()
    assert not recheck(one)
    assert not recheck(two)


def test_progress_counts_bytes_read(tmp_path, look):
    """Progress grows to exactly the bytes of all files, large ones in tasks included."""
    make(tmp_path, "a")
    (tmp_path / "big").write_bytes(bytes(17 << 20))
    seen: list[int] = []
    found = look(Input(src="a"), Input(src="big"), progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == found.bytes
