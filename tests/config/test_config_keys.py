"""Paths and keys: which file counts, what a dotenv may say, and that no value is ever shown."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gipper.errors import ConfigError, KeyMissing
from gipper.keys import Keys, parse_dotenv
from gipper.paths import Paths

Write = Callable[[Path, str], Path]
VALUE = "value-of-the-key"


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def keys(home: Path, *, checkout: Path | None = None, **env: str) -> Keys:
    env = {"HOME": str(home), **env}
    return Keys.from_env(env, Paths.from_env(env), editable_checkout=checkout)


def test_default_paths_are_below_home() -> None:
    """Without any variable the XDG defaults count."""
    paths = Paths.from_env({"HOME": "/home/u"})
    assert paths.config_file == Path("/home/u/.config/gipper/config.toml")
    assert paths.keys_folder == Path("/home/u/.config/gipper")
    assert paths.data_folder == Path("/home/u/.local/share/gipper")
    assert (paths.dotenv, paths.exclusive) == (None, False)


def test_variables_win_over_xdg_and_xdg_over_home() -> None:
    """GIPPER_* first, then XDG_*; a relative XDG variable and an empty one count as not set."""
    env = {
        "HOME": "/h",
        "XDG_CONFIG_HOME": "/xc",
        "XDG_DATA_HOME": "rel",
        "GIPPER_KEYS": "",
        "GIPPER_DATA": "",
    }
    paths = Paths.from_env(env)
    assert paths.config_file == Path("/xc/gipper/config.toml")
    assert paths.keys_folder == Path("/xc/gipper")
    assert paths.data_folder == Path("/h/.local/share/gipper")
    assert Paths.from_env({**env, "GIPPER_CONFIG": "/c.toml"}).config_file == Path("/c.toml")


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative variable counts from the current folder, ~ from HOME; no `..` is left."""
    monkeypatch.chdir(tmp_path)
    paths = Paths.from_env(
        {"HOME": "/h", "GIPPER_DATA": "x/../d", "GIPPER_KEYS": "~/k", "GIPPER_ENV": ".env"}
    )
    assert paths.data_folder == tmp_path / "d"
    assert paths.keys_folder == Path("/h/k")
    assert (paths.dotenv, paths.exclusive) == (tmp_path / ".env", True)


def test_the_environment_wins_and_empty_is_not_set(tmp_path: Path) -> None:
    """A variable of the environment beats the dotenv; an empty one leaves it to the dotenv."""
    write(tmp_path / ".config/gipper/.env", "A_KEY=from-file\n")
    assert keys(tmp_path, A_KEY="from-env").get("A_KEY") == "from-env"
    assert keys(tmp_path, A_KEY="").get("A_KEY") == "from-file"
    assert keys(tmp_path).get("B_KEY") is None


def test_gipper_env_is_exclusive_also_when_missing(tmp_path: Path) -> None:
    """With GIPPER_ENV no other dotenv counts, whether its file exists or not."""
    write(tmp_path / ".config/gipper/.env", "A_KEY=beside\nB_KEY=beside\n")
    own = write(tmp_path / "own.env", "A_KEY=own\n")
    assert keys(tmp_path, GIPPER_ENV=str(own)).values_of(["A_KEY", "B_KEY"]) == {"A_KEY": "own"}
    assert keys(tmp_path, GIPPER_ENV=str(tmp_path / "missing")).get("A_KEY") is None
    assert keys(tmp_path, GIPPER_ENV="/dev/null").get("A_KEY") is None


def test_the_dotenv_beside_config_overrides_the_checkout_name_by_name(tmp_path: Path) -> None:
    """Both files count; where both have a name the one beside config.toml wins, unless it is empty."""
    write(tmp_path / "src/.env", "A_KEY=checkout\nB_KEY=checkout\nC_KEY=checkout\n")
    write(tmp_path / ".config/gipper/.env", "A_KEY=beside\nC_KEY=\n")
    got = keys(tmp_path, checkout=tmp_path / "src").values_of(["A_KEY", "B_KEY", "C_KEY"])
    assert got == {"A_KEY": "beside", "B_KEY": "checkout", "C_KEY": "checkout"}


def test_a_missing_key_is_told_with_the_settled_sentence(tmp_path: Path) -> None:
    """The sentence names the variable and where it is looked for."""
    with pytest.raises(KeyMissing) as caught:
        keys(tmp_path).require("A_KEY")
    assert caught.value.message == "A_KEY is not set (environment or configured .env; see GIPPER_ENV)"
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o602])
def test_a_dotenv_that_others_can_get_at_is_refused(tmp_path: Path, mode: int) -> None:
    """The refusal names the chmod that mends it, and not what is in the file."""
    file = write(tmp_path / "own.env", f"A_KEY={VALUE}\n", mode)
    with pytest.raises(ConfigError) as caught:
        keys(tmp_path, GIPPER_ENV=str(file)).get("A_KEY")
    assert caught.value.hint == f"chmod 600 {file}"
    assert VALUE not in str(caught.value)
    file.chmod(0o600)
    assert keys(tmp_path, GIPPER_ENV=str(file)).get("A_KEY") == VALUE


def test_a_dotenv_is_not_read_while_the_environment_has_the_key(tmp_path: Path) -> None:
    """Who needs no dotenv isn't stopped by a bad one."""
    file = write(tmp_path / "own.env", "A_KEY=x\n", 0o644)
    assert keys(tmp_path, GIPPER_ENV=str(file), A_KEY="env").get("A_KEY") == "env"


def test_bad_dotenvs_are_one_clear_error(tmp_path: Path) -> None:
    """A folder, a huge file and one that isn't UTF-8 are ConfigErrors without the content."""
    (tmp_path / "folder").mkdir()
    huge = write(tmp_path / "huge", "x" * (2 << 20))
    odd = tmp_path / "odd"
    odd.write_bytes(b"A_KEY=\xff" + VALUE.encode())
    odd.chmod(0o600)
    for file in (tmp_path / "folder", huge, odd):
        with pytest.raises(ConfigError) as caught:
            keys(tmp_path, GIPPER_ENV=str(file)).get("A_KEY")
        assert VALUE not in str(caught.value)
        assert caught.value.__cause__ is None or VALUE not in repr(caught.value.__cause__)


def test_repr_shows_no_values(tmp_path: Path) -> None:
    """Neither names nor values are in a repr, before and after reading."""
    made = keys(tmp_path, A_KEY=VALUE)
    made.get("other")
    assert VALUE not in repr(made)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("K=v", "v"),
        ("  K = v  ", "v"),
        ("export K=v", "v"),
        ("K='v w'", "v w"),
        ('K="v#w" # why', "v#w"),
        ("K=v # why", "v"),
        ("K=v#w", "v#w"),
        ("K=$HOME", "$HOME"),
        ("K=a=b==", "a=b=="),
        ("K=", ""),
        ("K='open", "'open"),
        ("K=1\r\nK=2\r\n", "2"),
        ("\ufeffK=v", "v"),
        ("#K=x\nK=v\nnonsense\n=\n1K=2", "v"),
    ],
)
def test_dotenv_lines(text: str, value: str) -> None:
    """Quotes and comments go, nothing is expanded, the last of a name wins, other lines are passed over."""
    assert parse_dotenv(text) == {"K": value}


@given(st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True), st.text(max_size=20)))
def test_quoted_values_come_back_as_written(values: dict[str, str]) -> None:
    """Any value without line ends and without its quote survives in quotes."""
    safe = {k: v for k, v in values.items() if "\n" not in v and '"' not in v and "\r" not in v}
    assert parse_dotenv("".join(f'{k}="{v}"\n' for k, v in safe.items())) == safe


@given(st.text())
def test_any_text_is_a_dotenv(text: str) -> None:
    """Parsing never fails, and never invents a name."""
    assert all(name in text for name in parse_dotenv(text))


def test_an_unreadable_dotenv_is_told_to_its_user(tmp_path: Path) -> None:
    """For a user who may not read the file it is a ConfigError that names it, not a traceback."""
    file = write(tmp_path / "own.env", f"A_KEY={VALUE}\n", 0o600)
    out = run_unprivileged(
        "from gipper.keys import Keys\nfrom gipper.paths import Paths\n"
        "from gipper.errors import ConfigError\n"
        f"paths = Paths.from_env({{'HOME': '/', 'GIPPER_ENV': {str(file)!r}}})\n"
        "drop()\n"
        "try:\n    Keys.from_env({}, paths, editable_checkout=None).get('A_KEY')\n"
        "except ConfigError as error:\n    print(error.message)\n",
        tmp_path,
    )
    assert out.strip() == f"{file} can't be read: Permission denied"


def run_unprivileged(code: str, folder: Path) -> str:
    """Run `code`, in which `drop()` gives up root, and return what it printed."""
    for parent in [folder, *folder.parents]:
        if parent.stat().st_uid == os.getuid() and parent.stat().st_mode & 0o001 == 0:
            parent.chmod(0o711)
    if os.getuid() != 0:
        (folder / "own.env").chmod(0)
    drop = (
        "import os\ndef drop():\n    if os.getuid() == 0:\n"
        "        os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", drop + code], capture_output=True, text=True, check=False, timeout=60, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
