"""The training loop: warm-up and cosine, checkpoints, and exact resumption.

A run is decided by its `TrainSettings` alone. Killed at any moment and resumed, it ends
with the weights and losses of an unbroken one, bit for bit on a CPU with the same number
of threads (a checkpoint records and restores that number; sums in another order round
differently).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, IronlawError
from ..results import TrainingResult
from . import checkpoint, corpus, precision, pretrained, random_state, step, tokens
from .feed import Feed
from .lock import RunLock
from .out_of_memory import memory_errors
from .runtime import Interruption
from .settings import TrainSettings
from .watch import SAFE_DISTANCE, WINDOW, LossWatch, Rewind, SpikeError

WARMUP_WINDOWS = 2
RECENT = 20
VALIDATION_BATCHES, VALIDATION_TOKENS = 8, 16_384
"""Held-back text to average over: as many batches, or as many tokens if that is less."""


class InterruptedRunError(IronlawError):
    """The run was asked to stop and has saved itself. `checkpoint` is where."""

    def __init__(self, saved: Path, at: int, of: int) -> None:
        self.checkpoint = saved
        super().__init__(f"Stopped at step {at} of {of}; everything is saved in {saved}.")


@dataclass(frozen=True)
class Progress:
    """What is known after some steps: the latest loss (nats), its rate, the speed.

    One batch's loss depends much on which text it holds; `recent_loss` is the mean over
    the last `RECENT` steps.
    """

    step: int
    steps: int
    loss: float
    recent_loss: float
    learning_rate: float
    tokens_per_second: float


class Trainer:
    """One run: builds or restores everything, trains, and saves.

    `out` is the run's folder. With `resume` it continues from the newest whole
    checkpoint there (or starts, when there is none yet). Two runs in one folder at a time are
    refused. `loader_workers` processes cut batches ahead; which batches come, and in which
    order, does not depend on it.
    """

    def __init__(
        self,
        settings: TrainSettings,
        out: Path,
        *,
        resume: bool = False,
        device: torch.device | str = "cpu",
        threads: int | None = None,
        loader_workers: int = 0,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.settings, self.out, self.say = settings, out, say
        self.device = torch.device(device)
        self.lock = RunLock(out)
        self.lock.check()
        found = _to_resume(out, resume, say)
        if found is not None:
            settings.refuse_other(TrainSettings.from_json(found["settings"]))
            threads = _restored_threads(threads, int(found["threads"]))
        if threads is not None:
            torch.set_num_threads(threads)
        run = settings.run
        precision.of(run.precision, self.device)  # refused before any text is encoded
        # Read before the seed is set: a library may draw random numbers of its own.
        weights = pretrained.read(settings.init)[1] if settings.init and found is None else None
        self.tokenizer = tokens.for_vocab(run.shape.vocab)
        self.corpus = corpus.load(settings.corpus, self.tokenizer)
        self.batches = Feed(
            corpus.Batches(self.corpus.train, run.batch, run.sequence, settings.seed),
            self.device, loader_workers)
        torch.manual_seed(settings.seed)
        with memory_errors(run, self.device):
            self.train_step = step.build(
                run, self.device, learning_rate=settings.peak_rate, dropout=settings.dropout,
                weight_decay=settings.weight_decay, clip=settings.clip or None,
                pad_vocab=settings.pad_vocab, compile=settings.compile)
            if weights is not None:
                pretrained.load_transformers(self.train_step.model, weights)
        self._told_not_compiled = False
        self._tell_not_compiled()
        self.watch = LossWatch(settings)
        self.step = 0
        self.seconds = 0.0
        self.losses: list[tuple[int, float]] = []
        self.rates: list[float] = []
        self._pending: list[tuple[int, Tensor, Tensor | None]] = []
        if found is not None:
            self._restore(found)
        checkpoint.save_settings(out, settings)

    def run(self, on_progress: Callable[[Progress], None] = lambda progress: None) -> Path:
        """Train to the last step; returns the final checkpoint.

        `on_progress` is called after every step on a CPU and after every tenth elsewhere:
        reading a loss makes the host wait for the device. Ctrl-C ends in `InterruptedRunError`.
        """
        with self.lock, self.batches:
            checkpoint.save_settings(self.out, self.settings)  # those of whoever holds the lock
            return self._run(on_progress)

    def _run(self, on_progress: Callable[[Progress], None]) -> Path:
        last = self._newest()
        if last is None and self.settings.rewinds:
            self.save()  # a spike before the first checkpoint needs a place to go back to
        # A CPU has nothing queued, so each step is its own window of time.
        window = 1 if self.device.type == "cpu" else 10
        with Interruption() as interruption, memory_errors(self.settings.run, self.device):
            began = time.perf_counter()
            while self.step < self.settings.steps:
                self._one_step()
                due = self._checkpoint_due()
                if due or interruption.requested or len(self._pending) >= window:
                    try:
                        progress = self._settle(began)
                    except SpikeError as spike:
                        self._rewind(spike)
                        began = time.perf_counter()
                        continue
                    on_progress(progress)
                    stop = interruption.requested and self.step < self.settings.steps
                    if due or stop:
                        last = self.save()
                    if stop:
                        raise InterruptedRunError(self.out, self.step, self.settings.steps)
                    began = time.perf_counter()
        return last if last is not None else self.save()

    def save(self) -> Path:
        """Write a checkpoint of this moment."""
        train_step = self.train_step
        random, random_on_device = random_state.get(self.device)
        state = {
            "settings": self.settings.to_json(),
            "step": self.step,
            "position": self.batches.position,
            "model": train_step.model.state_dict(),
            "optimizer": train_step.optimizer.state_dict(),
            "scaler": train_step.scaler.state_dict(),
            "random": random,
            "random_on_device": random_on_device,
            "threads": torch.get_num_threads(),
            "torch": str(torch.__version__),
            "corpus_sha256": self.corpus.sha256,
            "losses": [list(pair) for pair in self.losses],
            "seconds": self.seconds,
            "rewinds": [rewind.to_json() for rewind in self.watch.rewinds],
        }
        return checkpoint.save(self.out, self.step, state,
                               self._is_regular if self.settings.rewinds else None)

    @torch.no_grad()
    def validation_loss(self) -> float | None:
        """Mean loss on text that training never sees, or None when the corpus is too short."""
        run, model = self.settings.run, self.train_step.model
        try:
            held_out = corpus.Batches(self.corpus.validation, run.batch, run.sequence, seed=0)
        except InputError:
            return None
        model.eval()
        feed = Feed(held_out, self.device)
        enough = math.ceil(VALIDATION_TOKENS / (run.batch * run.sequence))
        batches = min(VALIDATION_BATCHES, enough)
        total = torch.zeros((), device=self.device)
        with memory_errors(run, self.device):
            for _ in range(batches):
                with self.train_step.precision.autocast():
                    total += model.loss(*feed.next())
        model.train()
        return float(total) / batches

    def result(self, saved: Path) -> TrainingResult:
        """What the run came to, `saved` being its checkpoint.

        `seconds` is time spent in steps, without saving and start-up; `tokens_per_second`
        the median over windows of steps after the first two, or, where none was timed (a
        finished run that was resumed), all tokens over all `seconds`. MFU needs a peak, which is
        not known here.
        """
        settings = self.settings
        tokens_done = settings.run.tokens_per_step * self.step
        rates = self.rates[WARMUP_WINDOWS:] or self.rates
        validation = self.validation_loss()
        config = {**settings.to_json(), "corpus": self.corpus.name}
        return TrainingResult(
            config=config, device=str(self.device), corpus=self.corpus.name,
            corpus_sha256=self.corpus.sha256, steps=self.step, final_loss=self.losses[-1][1],
            losses=self.losses, validation_loss=validation, seconds=self.seconds,
            tokens_per_second=statistics.median(rates) if rates else tokens_done / self.seconds,
            peak=None, mfu=None, threads=torch.get_num_threads(), checkpoint=str(saved),
            reasons={"mfu": "No peak was given to divide by.",
                     **({} if validation is not None else
                        {"validation_loss": "The corpus is too short to hold any text back."})},
            notes={"corpus": f"{self.corpus.documents} documents, {self.corpus.text_bytes} bytes, "
                             f"{len(self.corpus.train)} tokens to train on, "
                             f"{len(self.corpus.validation)} held back",
                   **({} if rates else {"tokens_per_second": "No window of steps was timed now: "
                                        "all tokens over all seconds in steps."}),
                   **({"rewinds": self.watch.note()} if settings.rewinds else {}),
                   **({"compile": self.train_step.not_compiled}
                      if self.train_step.not_compiled else {})},
        )

    def _one_step(self) -> None:
        train_step, rate = self.train_step, self.settings.rate(self.step)
        for group in train_step.optimizer.param_groups:
            group["lr"] = rate
        batches = [self.batches.next() for _ in range(train_step.accumulate)]
        loss = train_step(batches)
        self._tell_not_compiled()  # the compiler may have failed just now
        self.step += 1
        if self.device.type != "cpu" and self.step < self.settings.steps:
            # The host has only queued that step. Before it waits for anything it sees to it
            # that the next one's text is on its way.
            self.batches.prepare(train_step.accumulate)
        self._pending.append((self.step, loss, train_step.gradient_norm))

    def _tell_not_compiled(self) -> None:
        if self.train_step.not_compiled and not self._told_not_compiled:
            self._told_not_compiled = True
            self.say(f"Not compiled: {self.train_step.not_compiled}. Steps run as they stand.")

    def _settle(self, began: float) -> Progress:
        """Wait for the steps since `began`, check their losses, and account for their time."""
        # One transfer for all of them: each `float` of its own would wait once more.
        losses = torch.stack([loss for _, loss, _ in self._pending]).tolist()
        measured = [norm for _, _, norm in self._pending if norm is not None]
        norms = torch.stack(measured).tolist() if measured else [0.0] * len(losses)
        values = list(zip((at for at, _, _ in self._pending), losses, norms, strict=True))
        spent = time.perf_counter() - began
        self.seconds += spent
        self._pending.clear()
        for at, loss, norm in values:
            self.watch.check(at, loss, norm, [value for _, value in self.losses[-WINDOW:]])
            self.losses.append((at, loss))
        rate = len(values) * self.settings.run.tokens_per_step / spent
        self.rates.append(rate)
        recent = statistics.fmean(loss for _, loss in self.losses[-RECENT:])
        return Progress(self.step, self.settings.steps, values[-1][1], recent,
                        self.settings.rate(self.step - 1), rate)

    def _rewind(self, spike: SpikeError) -> None:
        """Go back to a checkpoint before `spike` and leave out the text from there on.

        Left out is all that the steps after the checkpoint have read, the spike's included,
        and `skip_batches` more. What is decided here depends only on the run so far and on
        its regular checkpoints, and is saved at once: killed before that, a resumed run meets
        the spike again and decides the same.
        """
        state = checkpoint.before(self.out, spike.at, SAFE_DISTANCE, self._is_regular)
        per_step = self.settings.run.batch * self.settings.run.accumulate
        read_up_to_spike = self.batches.position - (self.step - spike.at) * per_step
        skipped = spike.at - state["step"] + self.settings.skip_batches
        made = Rewind(at=spike.at, to=state["step"], skipped=skipped, why=spike.what)
        self.watch.rewinds.append(made)
        self._load(state)
        self.batches.position = read_up_to_spike + self.settings.skip_batches * per_step
        checkpoint.remove_after(self.out, self.save())
        self.say(f"{made}.")

    def _is_regular(self, step: int) -> bool:
        """Whether an unbroken run, too, saves a checkpoint at `step` to go back to."""
        every = self.settings.checkpoint_every
        return bool(every and step % every == 0)

    def _checkpoint_due(self) -> bool:
        return self.step == self.settings.steps or self._is_regular(self.step)

    def _newest(self) -> Path | None:
        found = checkpoint.saved(self.out)
        return found[0] if found and self.step else None

    def _restore(self, state: dict[str, Any]) -> None:
        if state["corpus_sha256"] != self.corpus.sha256:
            raise InputError("corpus", self.settings.corpus,
                             "the text of the run that is resumed, unchanged",
                             "Its content differs now. Bring the old text back, or start a new "
                             "run with --out.")
        self._load(state)
        self.batches.position = state["position"]
        self.seconds = state["seconds"]
        self.watch.rewinds = [Rewind(**values) for values in state.get("rewinds", [])]
        if state["torch"] != str(torch.__version__):
            self.say(f"The run began under PyTorch {state['torch']}; this is {torch.__version__}. "
                     "It goes on, but its last digits may differ from an unbroken run's.")

    def _load(self, state: dict[str, Any]) -> None:
        """Weights, optimizer, scaler, random numbers and losses of a checkpoint."""
        train_step = self.train_step
        train_step.model.load_state_dict(state["model"])
        train_step.optimizer.load_state_dict(state["optimizer"])
        train_step.scaler.load_state_dict(state["scaler"])
        random_state.restore(self.device, (state["random"], state["random_on_device"]))
        self.step = state["step"]
        self.losses = [(int(at), float(loss)) for at, loss in state["losses"]]


def train(
    settings: TrainSettings,
    out: str | Path,
    *,
    resume: bool = False,
    device: torch.device | str = "cpu",
    threads: int | None = None,
    loader_workers: int = 0,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda line: None,
) -> TrainingResult:
    """Train as `settings` say, in folder `out`; see `Trainer` and `Trainer.run`.

    The result's MFU is None: `ironlaw.measure.training.train` knows the peaks.
    """
    trainer = Trainer(settings, Path(out), resume=resume, device=device, threads=threads,
                      loader_workers=loader_workers, say=say)
    return trainer.result(trainer.run(on_progress))


def _to_resume(out: Path, resume: bool, say: Callable[[str], None]) -> dict[str, Any] | None:
    if not resume:
        if checkpoint.saved(out):
            raise InputError("out", str(out), "a folder without checkpoints",
                             "Add --resume to continue that run, or name another --out.")
        return None
    found = checkpoint.newest_whole(out)
    if found is None:
        say(f"There is no checkpoint in {out} yet: starting from the beginning.")
        return None
    path, state, damaged = found
    for problem in damaged:
        say(f"{problem} Using the one before it.")
    say(f"Resuming from {path}.")
    return state


def _restored_threads(wanted: int | None, saved: int) -> int:
    if wanted is not None and wanted != saved:
        raise InputError("threads", wanted, f"{saved}, as in the run that is resumed",
                         "Another number of threads adds in another order and rounds "
                         "differently. Leave --threads out.")
    return saved
