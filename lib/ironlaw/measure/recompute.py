"""Memory against time: recomputation policies and accumulation on a real GPT-2.

Policies take turns on the same weights and the same batch, forward and backward without
the optimizer, because that is the time to which recomputation adds. Gradients must come
out the same whatever is kept; so must those of one batch fed in parts, if the parts are
weighed by their tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..config import RECOMPUTES, RunConfig, blocks_per_segment
from ..errors import InputError, count
from ..gpt2 import precision as formats
from ..gpt2 import step as gpt2_step
from ..gpt2.model import GPT, IGNORED, Attention
from ..results_instruments import Accumulation, RecomputeMeasurement, RecomputeTiming
from . import flops, host, matmul, memory, timing
from ._torch import torch
from .device import Device, find
from .origin import origin, relative_error, saved_bytes
from .step import own_random_state


def measure_recompute(
    config: RunConfig | None = None,
    *,
    policies: Sequence[str] = RECOMPUTES,
    accumulate: Sequence[int] = (2, 4),
    rounds: int = 5,
    device: str | Device | None = None,
) -> RecomputeMeasurement:
    """Every policy in turn, `rounds` times, after one of warm-up.

    `config` (default: nano, batch 4, materialised attention, so that "selective" has
    something to drop) gives model and batch; its own policy is not used. `accumulate`
    lists numbers of parts that divide its batch.
    """
    config = config or RunConfig(batch=4, attention="materialised")
    config = config.replace(accumulate=1, recompute="none")
    here = find(device)
    target = here.torch_device
    count("rounds", rounds)
    names = list(dict.fromkeys(["none", *policies]))
    for name in names:
        blocks_per_segment(name, config.shape.layers, "policies")  # refuses what is none
    for parts in accumulate:
        if config.batch % count("accumulate", parts):
            raise InputError("accumulate", parts, f"a divisor of the batch, {config.batch}",
                             "The parts of a batch are equally many sequences here.")
    share = timing.processor_share() if here.type == "cpu" else None
    precision = formats.of(config.precision, target)
    with (timing.on(target), own_random_state(target),
          matmul.exact_float32_products(target) as mode):
        torch.manual_seed(0)
        model: GPT = gpt2_step.build(config, target).model
        batch = gpt2_step.random_batches(config, target)[0]
        runs = _Runs(model, batch, precision)
        forward, samples = _timed(runs, names, rounds, target)
        gradients = {name: runs.gradients(name) for name in names}
        saved = {name: runs.saved(name) for name in names}
        parts_found = [runs.in_parts(parts) for parts in accumulate]
    peaks = {name: memory.measure_memory(config.replace(recompute=name), "device", here)
             for name in names}
    work = {name: flops.count(config.replace(recompute=name)) for name in names}
    plain = timing.spread(samples["none"]).median
    found = []
    for name in names:
        took = timing.spread(samples[name])
        found.append(RecomputeTiming(
            policy=name, samples=samples[name], seconds=took.median,
            spread_seconds=took.interquartile, saved_bytes=saved[name],
            peak_bytes=peaks[name].peak_bytes, overhead=took.median / plain - 1.0,
            flop_overhead=work[name].hardware / work[name].model - 1.0,
            gradient_error=relative_error(gradients[name], gradients["none"])))
    middle = timing.spread(forward).median
    notes = {**host.circumstances(here.threads, share), "float32_matmul": mode,
             "peak_bytes": peaks["none"].notes.get("backend", ""),
             "rule": "A forward pass alone over forward and backward together."}
    if config.attention == "flash":
        notes["selective"] = "Flash attention keeps no S x S matrix: there is nothing to drop."
    return RecomputeMeasurement(
        **origin(here), config=config.to_json(), forward_seconds=middle, forward_samples=forward,
        rule=middle / plain, policies=found, accumulation=parts_found, notes=notes)


class _Runs:
    """One model and one batch under whichever policy is asked for."""

    def __init__(self, model: GPT, batch: gpt2_step.Batch, precision: formats.Precision) -> None:
        self.model, self.batch, self.precision = model, batch, precision

    def policy(self, name: str) -> None:
        """Set the policy: it changes what is kept, not what the model is."""
        self.model.recompute = name
        for module in self.model.modules():
            if isinstance(module, Attention):
                module.recompute_scores = name == "selective" and not module.fused

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss in the precision of the run."""
        with self.precision.autocast():
            return self.model.loss(tokens, targets)

    def both(self, name: str) -> None:
        """Forward and backward; the gradients stay."""
        self.model.zero_grad(set_to_none=True)
        self.policy(name)
        self.loss(*self.batch).backward()

    def gradients(self, name: str) -> list[torch.Tensor]:
        """All gradients under the policy `name`, copied."""
        self.both(name)
        return self._copied()

    def saved(self, name: str) -> float:
        """Bytes left for backward under the policy `name`, parameters not counted."""
        self.policy(name)
        return saved_bytes(lambda: self.loss(*self.batch), self.model.parameters())

    def in_parts(self, parts: int) -> Accumulation:
        """Accumulate over `parts`, half of the first part's targets ignored."""
        self.policy("none")
        tokens, targets = self.batch[0], self.batch[1].clone()
        rows = tokens.shape[0] // parts
        targets[:rows, tokens.shape[1] // 2:] = IGNORED
        pieces = [(tokens[i:i + rows], targets[i:i + rows])
                  for i in range(0, tokens.shape[0], rows)]
        whole = self._accumulated([(tokens, targets)], weighted=True)
        right = self._accumulated(pieces, weighted=True)
        wrong = self._accumulated(pieces, weighted=False)
        return Accumulation(
            micro_batches=parts, tokens=[int((t != IGNORED).sum()) for _, t in pieces],
            gradient_error=relative_error(right, whole),
            mean_of_means_error=relative_error(wrong, whole),
            saved_bytes=saved_bytes(lambda: self.loss(*pieces[0]), self.model.parameters()))

    def _accumulated(self, pieces: list[gpt2_step.Batch], *, weighted: bool) -> list[torch.Tensor]:
        self.model.zero_grad(set_to_none=True)
        counts = [(targets != IGNORED).sum() for _, targets in pieces]
        everything = torch.stack(counts).sum()
        for (tokens, targets), here in zip(pieces, counts, strict=True):
            weight = here / everything if weighted else 1.0 / len(pieces)
            (self.loss(tokens, targets) * weight).backward()
        return self._copied()

    def _copied(self) -> list[torch.Tensor]:
        return [p.grad.detach().clone() for p in self.model.parameters() if p.grad is not None]


def _timed(runs: _Runs, names: list[str], rounds: int,
           device: torch.device) -> tuple[list[float], dict[str, list[float]]]:
    """Seconds of a forward pass alone and of each policy, all taking turns."""
    forward: list[float] = []
    samples: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        runs.policy("none")
        alone = timing.seconds_per_call(lambda: runs.loss(*runs.batch), device)
        for name in names:
            took = timing.seconds_per_call(partial(runs.both, name), device)
            if turn:
                samples[name].append(took)
        if turn:
            forward.append(alone)
    return forward, samples
