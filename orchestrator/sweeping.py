"""One launch at work: what is to run, whether the machines can, and the runs."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.failures import settle_lost
from orchestrator.lock import StoreLock
from orchestrator.options import Options, data_root
from orchestrator.plan import Plan, make_plan
from orchestrator.progress import Silent, Tally
from orchestrator.resources import Slots
from orchestrator.running import TRAINING, Event, Halt, Job, Outcome, Runner
from orchestrator.stopping import Stop
from orchestrator.store import Store, open_store
from search_spaces.cards import TaskCard
from search_spaces.errors import StoreError, UsageError
from search_spaces.models import MODELS
from search_spaces.space import Space
from search_spaces.tasks import task_card
from search_spaces.trial import TrialConfig


@dataclass(frozen=True)
class Todo:
    """What a launch has to do: the plan, the trials to run in order, earlier attempts, and the counts to start from.

    ``attempts`` maps a trial to the number of its last failed attempt.
    """

    plan: Plan
    trials: tuple[TrialConfig, ...]
    attempts: Mapping[str, int]
    tally: Tally


def survey(space: Space, store: Store, kinds: Sequence[str] = ()) -> Todo:
    """What is pending or, given ``kinds``, what failed with one of these; those are then all that is counted."""
    plan = make_plan(space, store)
    failures = store.latest_failures()
    attempts = {trial_id: failure.attempt for trial_id, failure in failures.items()}
    names: dict[str, set[str]] = {}
    for cell in plan.expansion.cells:
        names.setdefault(cell.trial_id, set()).add(cell.loss)
    if kinds:
        again = {key for key, failure in failures.items() if failure.kind in kinds and key not in plan.done}
        trials = tuple(trial for key, trial in plan.expansion.trials.items() if key in again)
        tally = Tally(len(trials), 0, names=names)
    else:
        trials = plan.pending
        tally = Tally(len(plan.expansion.trials), len(plan.done), names=names)
        tally.failed.update(plan.failed)
    for trial_id, auc in plan.best_val_auc.items():
        tally.reached(trial_id, auc)
    return Todo(plan, trials, attempts, tally)


@dataclass(frozen=True)
class Sweep:
    """One launch at work on a store that is locked for it."""

    space: Space
    store: Store
    settings: Options
    todo: Todo
    lock: StoreLock
    stop: Stop
    shown: Silent

    def run(self, runner: Runner, fingerprints: Mapping[str, str]) -> None:
        """Run the trials on the machines ``runner`` has claimed; ``fingerprints`` are what ``check_nodes`` gave."""
        left = len(self.todo.trials)
        self.shown.note(f"{left} trial{'' if left == 1 else 's'} to run, {runner.slots.describe()}")
        jobs = {job.trial_id: job for job in self._jobs(runner.slots, fingerprints)}
        for _ in range(1 + self.settings["retries"]):
            self._run(runner, jobs)
            jobs = {
                key: dataclasses.replace(job, attempt=job.attempt + 1)
                for key, job in jobs.items()
                if self.todo.tally.failed.get(key) == "lost"
            }
            if not jobs or self.stop() is not Halt.NO:
                break

    def _run(self, runner: Runner, jobs: Mapping[str, Job]) -> None:
        tally = self.todo.tally

        def on_event(event: Event) -> None:
            if isinstance(event, Outcome) and event.status == "lost":
                event = settle_lost(event, jobs[event.trial_id], self.store)
            tally.add(event)
            self.shown.update(event, tally)
            self.lock.report(
                running=tally.running,
                wanted=tally.wanted,
                done=tally.done,
                failed=len(tally.failed),
            )
            if isinstance(event, Outcome) and event.status != "done" and self.settings["fail_fast"]:
                self.stop.now(f"stopped at the first failure (trial {event.trial_id}, {event.kind})", early=False)

        runner.run(jobs.values(), on_event=on_event, should_stop=self.stop)

    def _jobs(self, slots: Slots, fingerprints: Mapping[str, str]) -> Iterator[Job]:
        for config in self.todo.trials:
            yield Job(
                config=config,
                store_uri=self.store.uri,
                data_root=data_root(self.settings),
                device=slots.device,
                threads=slots.threads,
                # Texts are tokenised once and kept by the trial's own process, which loaders would do without.
                loaders=slots.loaders if MODELS[config.model].modality == "image" else 0,
                eval_batch_size=self.todo.plan.expansion.eval_batch_sizes[config.trial_id],
                timeout=self.settings["trial_timeout"],
                attempt=self.todo.attempts.get(config.trial_id, 0) + 1,
                cards=self.space.cards,
                fingerprints=fingerprints,
                body=self.settings["body"],
                save_scores=bool(self.settings["save_scores"]),
                channels_last=bool(self.settings["channels_last"]),
                compiled=bool(self.settings["compiled"]),
                loss_files=self.space.loss_files,
            )

    def check_nodes(self, runner: Runner) -> dict[str, str]:
        """The fingerprint of each task's data, where known, once the machines were looked at.

        Raises ``UsageError`` naming the problems of every node when trials cannot run there.
        """
        names = dict.fromkeys(trial.task for trial in self.todo.trials)
        cards = [task_card(name, self.space.cards) for name in names] if self.settings["body"] == TRAINING else []
        recorded = self.store.fingerprints()
        if not runner.remote and not cards:
            return recorded
        probe = functools.partial(check_node, self.store.uri, sweep_digest(self.store), cards, data_root(self.settings))
        problems: list[str] = []
        for node, (found, fingerprints) in runner.on_every_node(probe).items():
            problems += [f"{node}: {problem}" for problem in found]
            for task, fingerprint in fingerprints.items():
                if recorded.setdefault(task, fingerprint) != fingerprint:
                    problems.append(
                        f"{node}: the data of task {task} have fingerprint {fingerprint}, not {recorded[task]} as in "
                        "this store or on another node: use the same data, or another store"
                    )
        if problems:
            raise UsageError("nothing was started:\n" + "\n".join(f"  - {problem}" for problem in problems))
        return recorded


def check_node(store_uri: str, digest: str, cards: Sequence[TaskCard], root: Path) -> tuple[list[str], dict[str, str]]:
    """Whether trials can run on this machine: the problems found, and the fingerprint of each task's data.

    Called once on every machine of the cluster, in a worker process, since it imports torch to read the data.
    """
    problems: list[str] = []
    fingerprints: dict[str, str] = {}
    try:
        if sweep_digest(open_store(store_uri)) != digest:
            problems.append(f"{store_uri} is another folder there than here: the store must be shared by all nodes")
    except (StoreError, OSError) as error:
        problems.append(f"the store is not to be seen there: {error}")
    for card in cards:
        from trainables.data import check_task

        check = check_task(card, root)
        if not check.ok:
            problems.append(f"task {card.name} cannot be trained:\n    " + "\n    ".join(check.lines))
        if check.fingerprint is not None:
            fingerprints[card.name] = check.fingerprint
    return problems, fingerprints


def sweep_digest(store: Store) -> str:
    """What tells this store from another at the same path of another machine."""
    return hashlib.sha256(store.files.read("sweep.json")).hexdigest()
