"""Launching a run: check everything here, ask the markets, then hand over to the supervisor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from gipper import __version__
from gipper.core import Gipper, require_sound_ledger
from gipper.core_credit import Credits
from gipper.errors import CapRefused, ConfigError, NoOffer, ProblemsError, ProviderError, Stopped
from gipper.filters import WORDS
from gipper.history import LedgerHistory, open_history
from gipper.installation import owner_of_this_process
from gipper.jobfile import LoadedJob, for_receipt, to_mapping
from gipper.jobhooks import JobHooks, load_hooks
from gipper.lifecycle.arming import guarded_plan
from gipper.lifecycle.attempt import PreflightFn, Work
from gipper.lifecycle.bringing import checkpoint_place
from gipper.lifecycle.checks import run_checks
from gipper.lifecycle.results import RunResult
from gipper.lifecycle.runfolder import RunFolder
from gipper.lifecycle.services import Interrupts, Reporter, Services, SilentReporter
from gipper.lifecycle.supervisor import Supervisor
from gipper.outcomes import Outcome
from gipper.planning import plan
from gipper.planning_markets import taking_part
from gipper.planning_values import Plan
from gipper.plugins.handle import Provider
from gipper.redact import KeyScanner
from gipper.takeover import door
from gipper.transfer.earlier import with_earlier
from gipper.transfer.inputs import Survey, survey
from gipper.transfer.staging import PREFIX
from gipper.values.jobs import Input, Job
from gipper.values.receipts import RunEnd, RunStart
from gipper.wording import counted

# Names in a message, of however many there are.
_SHOWN: Final = 5
_FLAGS_SHOWN: Final = 10


@attrs.frozen(kw_only=True)
class Choice:
    """What the command line says about where to run."""

    provider: str | None = None
    gpu: str | None = None
    throughput: float | None = None


@attrs.define(kw_only=True)
class Launch:
    """One run to be launched. `running` is the supervisor once there is one, for whoever must tell
    which machine may still cost money. Making it loads the job's own hooks (ConfigError); `allow_hooks`
    allows them for this launch."""

    gipper: Gipper
    loaded: LoadedJob
    choice: Choice = Choice()
    reporter: Reporter = attrs.field(factory=SilentReporter)
    preflight: PreflightFn = run_checks
    leave: bool = False
    allow_hooks: bool = False
    running: Supervisor | None = None
    hooks: JobHooks = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.hooks = load_hooks(
            self.job, self.gipper.paths.data_folder, allow=self.allow_hooks, redact=self.gipper.redactor.text
        )
        self.gipper = self.gipper.with_job_hooks(self.hooks.modules)

    @property
    def job(self) -> Job:
        """The job as it will run."""
        return self.loaded.job

    def survey(self, interrupts: Interrupts | None = None) -> Survey:
        """The one pass over all inputs. Raises ConfigError, and Stopped when asked; nothing was rented."""
        values = self.gipper.key_values()

        def progress(done: int) -> None:
            if interrupts is not None and interrupts.level:
                raise Stopped("asked to stop while inputs were read; nothing was rented")
            self.reporter.progress("inputs", done, None)

        def classify(path: str, head: bytes) -> str | None:
            return "; ".join(self.gipper.common.classify_upload(path, head)) or None

        def look(inputs: Sequence[Input], label: str) -> Survey:
            return survey(
                inputs, self.job.folder, scanner=KeyScanner(values).fresh if values else None,
                classify=classify, progress=progress, runtime=self.gipper.runtime, label=label,
            )  # fmt: skip

        found = self._with_checkpoint(look(self.job.inputs, "inputs"), look)
        self._tell_flagged(flagged(found))
        return found

    def _tell_flagged(self, files: Sequence[str]) -> None:
        """Say which inputs look sensitive. Raises ConfigError where the settings refuse them."""
        if files and self.gipper.settings.custody.refuse_sensitive:
            raise ProblemsError(
                "These inputs look sensitive, and [custody] refuse_sensitive is set:",
                tuple(files),
                hint="exclude them, or hand values over by pod.secrets",
            )
        for text in files[:_FLAGS_SHOWN]:
            self.reporter.warn(f"looks sensitive, goes up all the same: {text}")
        if len(files) > _FLAGS_SHOWN:
            self.reporter.warn(f"and {len(files) - _FLAGS_SHOWN} more inputs that look sensitive")

    def _with_checkpoint(self, inputs: Survey, look: Callable[[Sequence[Input], str], Survey]) -> Survey:
        """What an earlier run of this job left of its checkpoint goes up, too, for this one to go on from."""
        place = checkpoint_place(self.job, self.gipper.settings.checkpoint_every_s)
        if place is None or not place.place.is_dir():
            return inputs
        one = Input(src=str(place.place), dst=place.source, exclude=(f"{PREFIX}*",))
        earlier = look([one], "run.checkpoint")
        if not earlier.files:
            return inputs
        both, lost = with_earlier(inputs, earlier)
        self.reporter.step(
            f"going on from the checkpoint in {place.place}: {counted(earlier.files - len(lost), 'file')}, "
            f"{earlier.bytes:,} bytes go up first"
        )
        if lost:
            more = ", ..." if len(lost) > _SHOWN else ""
            self.reporter.warn(f"inputs win over the checkpoint for {', '.join(lost[:_SHOWN])}{more}")
        return both

    def plan(self, upload_bytes: int) -> Plan:
        """Ask the markets. Raises ConfigError, PluginError, ProviderError (all fail), NoOffer, CapRefused."""
        found = self._asked(upload_bytes)
        found = guarded_plan(
            found, {name: self.gipper.provider(name) for name in found.asked},
            required=self.gipper.settings.safety.require_watchdog,
        )  # fmt: skip
        for note in found.notes:
            self.reporter.warn(self.gipper.redactor.text(note))
        if not found.asked:
            raise no_market()
        if found.all_failed:
            raise ProviderError(
                f"no market could be asked ({', '.join(found.failed)})", hint="see the notes above; try again"
            )
        if not found.ranked:
            raise NoOffer(none_fits(found), hint="ask for less; the notes above say why nothing fits")
        return found

    def look(self, upload_bytes: int | None) -> Plan:
        """As `plan`, for who only looks: markets that list without a key take part too, nothing is written,
        and that markets failed or nothing fits is left to the caller. Raises the other errors of `plan`."""
        found = self._asked(upload_bytes, keyless=True)
        if not self.gipper.settings.safety.require_watchdog:
            return found
        return guarded_plan(found, {name: self.gipper.provider(name) for name in found.asked}, required=True)

    def _asked(self, upload_bytes: int | None, *, keyless: bool = False) -> Plan:
        markets = self._markets()
        return plan(
            self._job_for_planning(), markets, settings=self.gipper.settings, history=self.history(),
            upload_bytes=upload_bytes, runtime=self.gipper.runtime, throughput=self.choice.throughput,
            gpu_override=self.choice.gpu, keyless=keyless, credit=Credits(markets, self.gipper.runtime),
            options=lambda market, _job: self._options(market.name),
        )  # fmt: skip

    def history(self) -> LedgerHistory:
        """What the ledger has taught so far. Raises LedgerError."""
        return open_history(
            self.gipper.ledger, self.gipper.paths.data_folder, now=self.gipper.runtime.now(),
            days=self.gipper.settings.history_days,
        )  # fmt: skip

    def run(self, interrupts: Interrupts) -> RunResult:
        """The whole run. Raises ConfigError and other GipperErrors before anything is rented."""
        require_sound_ledger(self.gipper.ledger)
        self._require_market()
        secrets = self._secrets()
        surveyed = self.survey(interrupts)
        for note in surveyed.notes:
            self.reporter.warn(note)
        services = self.gipper.services(self.reporter)
        folder = RunFolder.create(self.gipper.paths.data_folder, self.gipper.runtime.now())
        lock = folder.lock()
        assert lock is not None
        try:
            folder.save_job(to_mapping(self.job))
            self._write_start(services, folder)
            return self._planned(services, folder, surveyed, secrets, interrupts)
        finally:
            lock.release()

    def _require_market(self) -> None:
        """A name that isn't installed, or nobody to ask, is told before there is a run."""
        markets, notes = taking_part(self._job_for_planning(), self.gipper.settings, self._markets())
        if not markets:
            for note in notes:
                self.reporter.warn(note)
            raise no_market()

    def _planned(
        self, services: Services, folder: RunFolder, surveyed: Survey, secrets: Mapping[str, str],
        interrupts: Interrupts,
    ) -> RunResult:  # fmt: skip
        try:
            found = self.plan(surveyed.bytes)
        except CapRefused as error:
            return self._nothing(services, folder, Outcome.REFUSED, error.message, error.hint)
        except NoOffer as error:
            return self._nothing(services, folder, Outcome.NO_OFFER, error.message, error.hint)
        except (ConfigError, ProviderError) as error:
            self._nothing(services, folder, Outcome.FAILED, error.message, error.hint)
            raise
        for rtt in found.rtts:
            services.ledger.append(rtt, run=folder.run, refs={"name": self.job.name})
        self.running = Supervisor(
            services, self._work(folder, surveyed, secrets), found, self.gipper.installation.inst,
            self.gipper.provider, self._options, interrupts, leave=self.leave,
        )  # fmt: skip
        return self.running.run()

    def _work(self, folder: RunFolder, surveyed: Survey, secrets: Mapping[str, str]) -> Work:
        return Work(
            job=self.job, folder=folder, manifests=surveyed.manifests, secrets=secrets,
            door=door(self.gipper, folder), bad_twice=self.history().bad_twice,
            preflight=self.preflight, stream_redactor=self.gipper.redactor.stream,
        )  # fmt: skip

    def _nothing(
        self, services: Services, folder: RunFolder, outcome: Outcome, reason: str, hint: str | None
    ) -> RunResult:
        text = services.redact(reason)
        services.ledger.append_or_spill(
            RunEnd(outcome=outcome.value, reason=text), run=folder.run, refs={"name": self.job.name}
        )
        return RunResult(run=folder.run, outcome=outcome, reason=text, hint=hint)

    def _write_start(self, services: Services, folder: RunFolder) -> None:
        # A team's plugin may bear the name of a provider, which then stands for both.
        named = {
            **{m.name: m.origin for m in self.gipper.registry.load_team_plugins()},
            **{p.name: p.origin for p in self.gipper.providers()},
        }
        plugins = {name: f"{o.distribution} {o.version}".strip() for name, o in named.items()}
        start = RunStart(
            job=for_receipt(self.job, self.gipper.redactor), owner=owner_of_this_process(),
            client=f"gipper-core {__version__}", plugins=plugins, hooks=self.hooks.for_receipt(),
        )  # fmt: skip
        services.ledger.append(start, run=folder.run, refs={"name": self.job.name})

    def _secrets(self) -> dict[str, str]:
        values: dict[str, str] = {}
        for name in self.job.pod.secrets:
            value = self.gipper.keys.get(name)
            if value is None:
                raise ConfigError(
                    f"the secret {name} (pod.secrets) is not set in the environment or in a dotenv",
                    hint=f"export {name}=... and run again",
                )
            self.gipper.redactor.add(value, name)
            values[name] = value
        return values

    def _job_for_planning(self) -> Job:
        if self.choice.provider is None:
            return self.job
        gpu = attrs.evolve(self.job.gpu, providers=(self.choice.provider,))
        return attrs.evolve(self.job, gpu=gpu)

    def _markets(self) -> Sequence[Provider]:
        named = self._job_for_planning().gpu.providers or self.gipper.settings.providers
        return self.gipper.providers(named)

    def _options(self, provider: str) -> Any:
        table = self.gipper.provider(provider).info.job_table
        return self.loaded.options.get(provider, table() if table is not None else None)


def flagged(found: Survey) -> list[str]:
    """The inputs that look sensitive, as the machine will name them, each with the reason."""
    return [
        f"{entry.path if base == '.' else f'{base}/{entry.path}'}: {entry.flag}"
        for base, manifest in found.manifests.items()
        for entry in manifest.entries
        if entry.flag
    ]


def none_fits(found: Plan) -> str:
    """Why nothing is left of what was offered, in one line."""
    why = ", ".join(f"{n} x {_meant(reason)}" for reason, n in sorted(found.left_out.items()))
    if not found.seen:
        return f"nothing is offered by {', '.join(found.asked)} for this"
    whose = f" of {', '.join(found.asked)}" if found.asked else ""
    return f"none of {counted(found.seen, 'offer')}{whose} fits" + (f": {why}" if why else "")


def _meant(reason: str) -> str:
    """A reason with what it means; a plugin's own reasons are words already."""
    return f"{reason} ({WORDS[reason]})" if reason in WORDS else reason


def no_market() -> ConfigError:
    """Nobody takes part, whatever the job asks for."""
    return ConfigError(
        "no market takes part: none is installed with its key set (`local` only when it is named)",
        hint="install a market's plugin and set its key (`gipper doctor` says which are set), or name local: "
        '--provider local, or gpu.providers = ["local"] in the job file',
    )


def log_copy(folder: RunFolder, log_dir: Path | None) -> Path:
    """Where the log is for the user: the run folder's, or a copy in `log_dir`."""
    import shutil

    if log_dir is None:
        return folder.log
    log_dir.mkdir(parents=True, exist_ok=True)
    place = log_dir / f"{folder.run}.log"
    if folder.log.exists():
        shutil.copyfile(folder.log, place)
    return place
