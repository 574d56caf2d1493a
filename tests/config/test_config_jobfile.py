"""Job files: read with limits, checked to the last key, filled from settings, written and read again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gipper import jobfile
from gipper.errors import ConfigError, GipperError, ProblemsError
from gipper.jobfile_mapping import absolute
from gipper.jobfile_rules import UNBUILT, job_checks, normalised, whole_job
from gipper.redact import Redactor, key_finder
from gipper.strict import collect
from gipper.values.jobs import Budget, Checkpoint, GpuWants, Input, Job, Output, Placement, Pod, RunTable
from gipper.values.settings import Settings

LEAST = 'name = "x"\n[run]\ncommand = "true"\n'
KEY = "0123456789abcdef-key"


@attrs.frozen(kw_only=True)
class AcmeJob:
    volume: str | None = None
    bid: Decimal | None = None


TABLES: dict[str, type | None] = {"acme": AcmeJob, "local": None}


def load(folder: Path, text: str | bytes, settings: Settings | None = None) -> jobfile.LoadedJob:
    file = folder / "job.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return jobfile.load(
        file,
        settings=settings or Settings(),
        option_tables=TABLES,
        key_names={"ACME_API_KEY"},
        contains_key=key_finder({"ACME_API_KEY": KEY}),
    )


def problems(folder: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(ProblemsError) as caught:
        load(folder, text)
    assert caught.value.exit_code == 2
    return caught.value.problems


def with_key(key: str, value: str) -> str:
    """The least job file with one more key, given by its full path."""
    *tables, last = key.split(".")
    if key == "name":
        return LEAST.replace('"x"', value)
    if not tables:
        return f"{last} = {value}\n{LEAST}"
    if tables == ["run"]:
        return f"{LEAST}{last} = {value}\n"
    return f"{LEAST}[{'.'.join(tables)}]\n{last} = {value}\n"


def test_the_least_job_is_filled_from_settings(tmp_path: Path) -> None:
    """What a job leaves open comes from the settings; what it says stays."""
    settings = Settings(cloud="SECURE", regions=("US",), cuda_versions=("12.8",), container_disk_gb=50.0)
    job = load(tmp_path, LEAST, settings).job
    assert (job.name, job.run.command, job.folder) == ("x", "true", tmp_path)
    assert (job.gpu.cloud, job.gpu.regions, job.gpu.cuda_versions) == ("SECURE", ("US",), ("12.8",))
    assert (job.pod.disk_gb, job.budget) == (50.0, Budget(max_usd=Decimal("2.0"), max_hours=3.0))
    own = load(tmp_path, with_key("budget.max_usd", "0.5"), settings).job
    assert own.budget.max_usd == Decimal("0.5")
    assert jobfile.resolved(own, Settings()) == own


def test_an_empty_list_is_not_left_open(tmp_path: Path) -> None:
    """`regions = []` means anywhere, whatever the settings say."""
    job = load(tmp_path, with_key("gpu.regions", "[]"), Settings(regions=("US",))).job
    assert job.gpu.regions == ()


def test_regions_are_capitals(tmp_path: Path) -> None:
    """Country codes are read in any case and kept in capitals, each once."""
    assert load(tmp_path, with_key("gpu.regions", '["us", "US", "cA"]')).job.gpu.regions == ("US", "CA")


def test_d_090_typos_are_named_with_table_and_nearest_key(tmp_path: Path) -> None:
    """Misspelt keys in any table are errors, all in one report, each with the key that was meant."""
    lines = problems(
        tmp_path,
        f"{LEAST}[gpuu]\ncount = 1\n[budget]\nmax_use = 1\n"
        '[[inputs]]\nsrc = "a"\n[[inputs]]\nsrc = "b"\nexclued = []\n',
    )
    assert lines == (
        "gpuu: unknown key; did you mean gpu?",
        "inputs[1].exclued: unknown key; did you mean exclude?",
        "budget.max_use: unknown key; did you mean max_usd?",
    )


def test_d_089_byte_order_mark_in_a_job_file(tmp_path: Path) -> None:
    """A job file that begins with a byte order mark is read; UTF-16 is told as such."""
    assert load(tmp_path, "\ufeff" + LEAST).job.name == "x"
    with pytest.raises(ConfigError, match="UTF-16"):
        load(tmp_path, LEAST.encode("utf-16"))


def test_d_051_windows_line_ends(tmp_path: Path) -> None:
    """A command in a file with CRLF is run with LF."""
    text = 'name = "x"\n[run]\ncommand = """\ntrue\nfalse\n"""\n'.replace("\n", "\r\n")
    assert load(tmp_path, text).job.run.command == "true\nfalse\n"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"name = \xff\n", "line 1"),
        (b"name = 'x'\nother = = 3\n", "line 2"),
        (b"name = 'x'\n\0", "NUL byte (line 2)"),
        (b"a = " + b"1" * 5000, "can't be read"),
        (b"a = " + b"[" * 5000, ""),
        (b"#" * (2 << 20), "at most 1 MiB"),
        (b"a = 2026-13-45", ""),
    ],
)
def test_files_that_are_no_toml_are_one_clear_error(tmp_path: Path, content: bytes, word: str) -> None:
    """Whatever the bytes are, the answer is one ConfigError that names the file and the place."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, content)
    assert "job.toml" in caught.value.message
    assert word in caught.value.message
    assert caught.value.hint


def test_places_that_are_no_files_are_one_clear_error(tmp_path: Path) -> None:
    """Missing, folder, pipe, device and impossible names are told, and nothing waits for a pipe's writer."""
    os.mkfifo(tmp_path / "pipe")
    for path in ("missing.toml", ".", "pipe", "/dev/zero", "x" * 5000, "a\0b"):
        with pytest.raises(ConfigError) as caught:
            jobfile.load(tmp_path / path, settings=Settings(), option_tables={})
        assert caught.value.hint


def test_an_unreadable_file_is_told_to_its_user(tmp_path: Path) -> None:
    """A user without permission gets one sentence, not a traceback."""
    file = tmp_path / "job.toml"
    file.write_text(LEAST, encoding="utf-8")
    file.chmod(0)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.getuid() and not parent.stat().st_mode & 0o001:
            parent.chmod(0o711)
    tmp_path.chmod(0o711)
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom gipper import jobfile\n"
        "from gipper.errors import ConfigError\nfrom gipper.values.settings import Settings\n"
        "if os.getuid() == 0:\n    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try:\n    jobfile.load(Path(sys.argv[1]), settings=Settings(), option_tables={})\n"
        "except ConfigError as error:\n    print(error.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd="/",
    )
    assert done.stdout.strip() == f"{file} can't be read: Permission denied", done.stderr


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", '" "'),
        ("name", '"a\\nb"'),
        ("workload", '""'),
        ("gpu.count", "-1"),
        ("gpu.count", "1.0"),
        ("gpu.min_mem_gb", "-0.5"),
        ("gpu.min_mem_gb", "nan"),
        ("gpu.min_mem_gb", "inf"),
        ("gpu.min_compute_capability", '"8"'),
        ("gpu.min_compute_capability", "8.0"),
        ("gpu.max_usd_per_h", "0"),
        ("gpu.regions", '["USA"]'),
        ("gpu.regions", '"US"'),
        ("gpu.providers", "[]"),
        ("gpu.providers", '["Acme!"]'),
        ("gpu.providers", '["acme", "acme"]'),
        ("gpu.cloud", '"community"'),
        ("gpu.cuda_versions", '["latest"]'),
        ("gpu.only", "true"),
        ("pod.image", '"two words"'),
        ("pod.disk_gb", "0"),
        ("pod.ports", '["8000"]'),
        ("pod.ports", '["0/tcp"]'),
        ("pod.ports", '["65536/tcp"]'),
        ("pod.ports", '["80/TCP"]'),
        ("pod.ports", '["80/tcp", "80/tcp"]'),
        ("pod.env", '{ "A-B" = "x" }'),
        ("pod.env", "{ A = 1 }"),
        ("pod.env", '{ A = "x\\u0000" }'),
        ("pod.secrets", '["A=b"]'),
        ("pod.secrets", '["A", "A"]'),
        ("run.setup", '""'),
        ("budget.max_usd", "0"),
        ("budget.max_usd", "inf"),
        ("budget.max_hours", "0"),
        ("budget.max_hours", "1e300"),
        ("units.count", "0"),
        ("placement.setup_s", "-1"),
        ("placement.upload_gb", "nan"),
        ("placement.transfer_efficiency", "0"),
        ("placement.transfer_efficiency", "1.01"),
        ("placement.client_upload_mbps", "0"),
        ("placement.compute_s_by_gpu", '{ "RTX 4090" = -1 }'),
        ("placement.client_location", "[91, 0]"),
        ("placement.client_location", "[1]"),
        ("placement.objective", '"cheap"'),
        ("provider.acme", '{ volum = "x" }'),
        ("provider.local", "{ x = 1 }"),
        ("provider.other", "{ x = inf }"),
        ("provider", "3"),
        ("folder", '"/"'),
    ],
)
def test_values_that_make_no_sense_are_refused_with_their_key(tmp_path: Path, key: str, value: str) -> None:
    """Each wrong value gives one line that begins with the key's full path."""
    text = with_key(key, value)
    (line,) = problems(tmp_path, text)
    assert line.startswith(key)


def test_mistakes_of_every_kind_are_in_one_report(tmp_path: Path) -> None:
    """Wrong types, unknown keys, ranges, patterns and plugins' options are told at once."""
    lines = problems(
        tmp_path,
        'name = 3\n[gpu]\ncount = -1\n[[inputs]]\nsrc = "a"\nexclude = ["{a,b}"]\n[run]\n'
        "[provider.acme]\nbid = true\n",
    )
    assert {line.partition(": ")[0] for line in lines} == {
        "name", "gpu.count", "inputs[0].exclude[0]", "run.command", "provider.acme.bid",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        with_key("run.stall_minutes", "5"),
        with_key("run.on_stall", '"stop"'),
    ],
)
def test_keys_whose_feature_is_not_built_are_refused(tmp_path: Path, text: str) -> None:
    """What can't be done yet is told as such, never silently ignored."""
    (line,) = problems(tmp_path, text)
    assert "can't do that yet" in line


def test_asking_for_nothing_that_is_not_built_is_fine(tmp_path: Path) -> None:
    """The defaults of such keys may be written down."""
    load(tmp_path, with_key("hooks", "[]"))
    assert load(tmp_path, with_key("gpu.interruptible", "true")).job.gpu.interruptible
    load(tmp_path, with_key("run.on_stall", '"warn"'))


def test_a_probe_is_read(tmp_path: Path) -> None:
    """Either floor may stand alone; the other one is 0, and nothing is measured for it."""
    probe = load(tmp_path, with_key("placement.probe", "{ min_up_mbps = 10 }")).job.placement.probe
    assert probe is not None
    assert (probe.min_up_mbps, probe.min_down_mbps) == (10, 0)


def test_every_unbuilt_key_exists() -> None:
    """The table of what isn't built names fields that the classes have."""
    assert all(entry.field in {f.name for f in attrs.fields(entry.cls)} for entry in UNBUILT)


def test_d_048_a_providers_key_is_refused_by_name(tmp_path: Path) -> None:
    """A provider's key can't be handed to a machine, as a variable or as a secret."""
    for text in (with_key("pod.secrets", '["ACME_API_KEY"]'), with_key("pod.env", '{ ACME_API_KEY = "x" }')):
        (line,) = problems(tmp_path, text)
        assert "ACME_API_KEY is a provider's key" in line


@pytest.mark.parametrize(
    "text",
    [
        with_key("pod.env", f'{{ TOKEN = "x{KEY}y" }}'),
        f'name = "x"\n[run]\ncommand = "curl -H {KEY} u"\n',
        with_key("run.setup", f'"echo {KEY}"'),
        with_key("provider.acme", f'{{ volume = "{KEY}" }}'),
        with_key("gpu.count", f'"{KEY}"'),
        with_key("gpu.prefer", f'[["{KEY}"]]'),
        with_key("pod.env", f'{{ "{KEY}" = "x" }}'),
        with_key("provider.acme", f'{{ "{KEY}" = "x" }}'),
    ],
)
def test_d_050_a_providers_key_is_refused_by_value(tmp_path: Path, text: str) -> None:
    """Wherever in the file a key's value stands, it is refused; its name is told, its value never."""
    lines = problems(tmp_path, text)
    assert any("the value of ACME_API_KEY" in line for line in lines)
    assert not any(KEY[:8] in line for line in lines)


@pytest.mark.parametrize(
    "dst",
    [
        *("/", "//", "/root", "/root/", "~", "~/", "~/.ssh", "~/.ssh/authorized_keys", "/root/.ssh", "/etc"),
        *("/etc/cron.d/x", "/home/me", "/home/me/.ssh", "..", "../x", "a/../../x", "~/../x", "~me/x", "/usr"),
        *(
            "/usr/bin/x",
            "/workspace/../etc",
            "/proc/1",
            "/dev/sda",
            "~/gipper",
            "~/gipper/run",
            "~/.bashrc",
            "",
        ),
        *("a\nb", "/var", "/tmp", "/tmp/..", "//etc/x", "/root/x/../.ssh"),
    ],
)
def test_inputs_may_not_land_on_the_system(tmp_path: Path, dst: str) -> None:
    """Places of the system, of logins and of gipper itself are refused, in every spelling."""
    text = f'{LEAST}[[inputs]]\nsrc = "a"\ndst = {json.dumps(dst)}\n'
    (line,) = problems(tmp_path, text)
    assert line.startswith("inputs[0].dst: ")


@pytest.mark.parametrize(
    "dst",
    [
        "data",
        "a/b/../c",
        ".",
        "/workspace",
        "/workspace/data",
        "/root/data",
        "~/data",
        "/dev/shm/x",
        "/tmp/x",
        "..x",
    ],
)
def test_inputs_may_land_elsewhere(tmp_path: Path, dst: str) -> None:
    """The work folder, the home folder's own names and volumes are fine."""
    job = load(tmp_path, f'{LEAST}[[inputs]]\nsrc = "a"\ndst = "{dst}"\n').job
    assert job.inputs == (Input(src="a", dst=dst),)


@pytest.mark.parametrize("pair", [("data", "data/"), (None, "a"), ("x/../y", "y"), (None, None)])
def test_two_inputs_may_not_land_in_one_place(tmp_path: Path, pair: tuple[str | None, str | None]) -> None:
    """The same target in two spellings, or by the source's own name, is refused."""
    blocks = "".join(
        f'[[inputs]]\nsrc = "some{n}/a"\n' + (f'dst = "{dst}"\n' if dst else "") for n, dst in enumerate(pair)
    )
    (line,) = problems(tmp_path, LEAST + blocks)
    assert line.startswith("inputs[1].dst: lands in ")


@pytest.mark.parametrize(
    "src", ["", "..", "../x", "a/../..", "~/../x", "/", "/proc/cpuinfo", "/dev/zero", "a\\u0000"]
)
def test_outputs_that_leave_the_work_folder_are_refused(tmp_path: Path, src: str) -> None:
    """An output names something in the work folder, in the home folder or an absolute place."""
    (line,) = problems(tmp_path, f'{LEAST}[[outputs]]\nsrc = "{src}"\n')
    assert line.startswith("outputs[0].src: ")


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "",
            "/",
            "!",
            "#note",
            "{a,b}",
            "*.{png,jpg}",
            "a\\\\b",
            "[a",
            "./x",
            "../x",
            "a/../b",
            "~/x",
            "a//b",
        ),
        *("[[:alpha:]]*", "@(a|b)", "x\\u0000", "a\\nb", "end\\\\", "[z-a]"),
    ],
)
def test_d_043_unsupported_patterns_are_errors(tmp_path: Path, pattern: str) -> None:
    """A pattern that gitignore would silently not understand is refused with its position."""
    (line,) = problems(tmp_path, f'{LEAST}[[inputs]]\nsrc = "a"\nexclude = ["ok", "{pattern}"]\n')
    assert line.startswith("inputs[0].exclude[1]: ")


@pytest.mark.parametrize(
    "pattern",
    [
        "dataset/*",
        "*.log",
        "!keep.log",
        "runs/",
        "/top",
        "**/x",
        "a/**/b",
        "[a-z]?",
        "[!a]",
        "\\\\#x",
        "a b",
        "x(1).png",
    ],
)
def test_gitignore_patterns_pass(tmp_path: Path, pattern: str) -> None:
    """What gitignore understands is accepted as it is."""
    job = load(tmp_path, f'{LEAST}[[inputs]]\nsrc = "a"\nexclude = ["{pattern}"]\n').job
    assert len(job.inputs[0].exclude) == 1


def test_a_checkpoint_lies_in_an_output() -> None:
    """What is synced while the job runs must belong to an output."""

    def job(src: str, *outputs: str) -> Job:
        run = RunTable(command="x", checkpoint=Checkpoint(src=src))
        return Job(name="x", folder=Path("/"), run=run, outputs=tuple(Output(src=o) for o in outputs))

    assert not whole_job(job("out/ckpt", "other", "out/"))
    assert not whole_job(job("ckpt", "."))
    for wrong in (job("ckpt"), job("output", "out"), job("/abs", "."), job("out/../x", "out")):
        assert [m.line.partition(": ")[0] for m in whole_job(wrong)] == ["run.checkpoint.src"]


def test_checkpoint_seconds_come_from_settings() -> None:
    """`every_s` that is left out is the settings'."""
    run = RunTable(command="x", checkpoint=Checkpoint(src="out"))
    job = jobfile.resolved(Job(name="x", folder=Path("/"), run=run), Settings(checkpoint_every_s=7.0))
    assert job.run.checkpoint == Checkpoint(src="out", every_s=7.0)


def test_latency_and_interactive_set_each_other() -> None:
    """Either of both means both."""
    for placement in (Placement(objective="latency"), Placement(profile="interactive")):
        job = normalised(Job(name="x", folder=Path("/"), run=RunTable(command="x"), placement=placement))
        assert (job.placement.objective, job.placement.profile) == ("latency", "interactive")


def test_a_name_is_variable_or_secret(tmp_path: Path) -> None:
    """A name in pod.env and pod.secrets would be ambiguous."""
    (line,) = problems(tmp_path, LEAST + '[pod]\nsecrets = ["A"]\nenv = { A = "x" }\n')
    assert line.startswith("pod.secrets[0]: A is in pod.env too")


def test_provider_options_are_structured_and_strangers_noted(tmp_path: Path) -> None:
    """Options of installed providers come as their classes; those of others are one note each."""
    loaded = load(
        tmp_path,
        LEAST + '[gpu]\nproviders = ["nowhere"]\n[provider.acme]\nbid = 0.3\n[provider.other]\nx = 1\n',
    )
    assert loaded.options == {"acme": AcmeJob(bid=Decimal("0.3"))}
    assert loaded.job.provider == {"acme": {"bid": 0.3}, "other": {"x": 1}}
    assert [note.partition(":")[0] for note in loaded.notes] == ["[provider.other]", "gpu.providers"]


def whole(folder: Path) -> Job:
    return Job(
        name="größe-01",
        workload="w",
        folder=folder,
        gpu=GpuWants(count=2, prefer=("RTX 4090",), max_usd_per_h=Decimal("0.123456789"), regions=("US",)),
        pod=Pod(env={"A": "hunter22hunter"}, secrets=("HF_TOKEN",), ports=("80/tcp",)),
        inputs=(Input(src="data/../x", exclude=("*.log",)), Input(src="~/y", dst="z")),
        outputs=(Output(src="out", dst="here"), Output(src="log")),
        run=RunTable(command="python t.py --token abcdefgh\n", setup="echo hf_abcdefghijkl"),
        budget=Budget(max_usd=Decimal("1.10"), max_hours=0.5),
        placement=Placement(compute_s_by_gpu={"L4": 3.0}, client_location=(1.0, 2.0)),
        provider={"acme": {"until": datetime(2026, 1, 2, tzinfo=UTC), "list": [1, "x", {"y": 2.5}]}},
    )


def test_a_job_survives_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`from_mapping` is the inverse of `to_mapping`, with local paths made absolute."""
    monkeypatch.setenv("HOME", "/home/u")
    mapping = json.loads(json.dumps(jobfile.to_mapping(whole(tmp_path))))
    back = jobfile.from_mapping(mapping)
    assert back == absolute(whole(tmp_path))
    assert [i.src for i in back.inputs] == [str(tmp_path / "x"), "/home/u/y"]
    assert back.outputs[0].dst == str(tmp_path / "here")
    assert jobfile.to_mapping(back) == mapping
    assert mapping["schema"] == 1


def test_another_schema_or_a_damaged_copy_is_refused(tmp_path: Path) -> None:
    """A newer copy is refused with its number, a damaged one with what is wrong."""
    mapping = jobfile.to_mapping(whole(tmp_path))
    with pytest.raises(ConfigError, match="schema 2"):
        jobfile.from_mapping({**mapping, "schema": 2})
    with pytest.raises(ProblemsError, match=r"budget\.max_usd"):
        jobfile.from_mapping({**mapping, "budget": {"max_usd": "much"}})
    with pytest.raises(ConfigError):
        jobfile.from_mapping({})


def test_d_050_a_receipt_shows_no_secret(tmp_path: Path) -> None:
    """In the mapping for receipts values of variables, token shapes and known values are gone."""
    redactor = Redactor()
    redactor.add("größe-01", "NAME")
    shown = json.dumps(jobfile.for_receipt(whole(tmp_path), redactor), ensure_ascii=False)
    for gone in ("hunter22hunter", "abcdefgh", "hf_abc", "größe"):
        assert gone not in shown
    assert '"A": "<redacted>"' in shown
    assert "HF_TOKEN" in shown


TEXT = st.text(max_size=12)
VALUES = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats()
    | TEXT
    | st.sampled_from(["..", "/", "80/tcp", "8.0", "[", "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
TABLE_OF = {f.name: f.type for f in attrs.fields(Job)}
TREE = st.fixed_dictionaries(
    {},
    optional={
        name: (
            st.dictionaries(st.sampled_from([f.name for f in attrs.fields(kind)]), VALUES, max_size=4)
            if isinstance(kind, type) and attrs.has(kind)
            else VALUES
        )
        for name, kind in TABLE_OF.items()
    }
    | {
        "inputs": st.lists(
            st.fixed_dictionaries({"src": TEXT}, optional={"dst": TEXT, "exclude": st.lists(TEXT)})
        ),
        "outputs": st.lists(st.fixed_dictionaries({"src": TEXT}, optional={"dst": TEXT})),
    },
)


# The tree is large, and the first draw compiles its strategies: on a busy machine that alone takes seconds.
@hypothesis_settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(TREE)
def test_no_job_file_ends_in_a_traceback(tree: Any) -> None:
    """Whatever stands under known keys, the rules answer with mistakes; a good job survives JSON."""
    tree.pop("folder", None)
    try:
        found = collect(Job, tree, given={"folder": Path("/job")}, checks=job_checks(()))
        if not found.mistakes and not whole_job(found.value):
            job = jobfile.resolved(normalised(found.value), Settings())
            assert jobfile.from_mapping(json.loads(json.dumps(jobfile.to_mapping(job)))) == absolute(job)
    except GipperError:
        pass


def test_the_public_load_reads_this_users_settings(own_folders: Path, tmp_path: Path) -> None:
    """`gipper.job.load` fills what a job leaves open from the settings file of the environment."""
    from gipper.job import load as public_load

    config = own_folders / "config" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text("default_max_hours = 7\n[provider.acme]\nx = 1\n", encoding="utf-8")
    (tmp_path / "job.toml").write_text(LEAST + "[provider.acme]\ny = 1\n", encoding="utf-8")
    job = public_load(str(tmp_path / "job.toml"))
    assert job.budget.max_hours == 7.0
    assert job.provider == {"acme": {"y": 1}}


def test_d_091_c_locale(tmp_path: Path) -> None:
    """In the C locale without UTF-8 mode a job called "größe-01" is read and written as UTF-8."""
    (tmp_path / "job.toml").write_bytes('name = "größe-01"\n[run]\ncommand = "echo 日本"\n'.encode())
    code = (
        "import json, sys\nfrom gipper.job import load\nfrom gipper.jobfile import to_mapping\n"
        "sys.stdout.write(json.dumps(to_mapping(load(sys.argv[1]))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "job.toml")],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 0, done.stderr
    mapping = json.loads(done.stdout)
    assert (mapping["name"], mapping["run"]["command"]) == ("größe-01", "echo 日本")
