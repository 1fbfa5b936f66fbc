"""What 16 bit cost and save: rounding, gradients that vanish, and real steps in each format.

Three looks at the same question. Single numbers and one matrix product, rounded to each
format. The gradients of a real step on real text, sorted by size: which share of them a
format cannot hold, with and without loss scaling. And a few training steps per precision,
from the same weights on the same batches: speed, loss, values that are not finite.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..config import RunConfig
from ..errors import InputError, UnavailableError, choice, count, positive
from ..gpt2 import corpus, tokens
from ..gpt2 import step as gpt2_step
from ..gpt2.settings import STANDARD_LIBRARY
from ..results_instruments import (
    FormatError,
    GradientTally,
    PrecisionMeasurement,
    PrecisionRun,
    Underflow,
)
from . import host, matmul, timing
from ._torch import torch
from .device import Device, find, obstacle
from .origin import origin, refusal
from .step import own_random_state

FORMATS: dict[str, torch.dtype] = {
    "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
    "fp8-e4m3": torch.float8_e4m3fn, "fp8-e5m2": torch.float8_e5m2,
}
LOSS_SCALES = (1.0, 2.0**8, 2.0**16)
"""No scaling, a modest scale, and the one that PyTorch's GradScaler starts with."""
RUNS = ("fp32", "amp-bf16", "amp-fp16", "amp-fp16 unscaled", "pure-bf16")
_VALUES = 1 << 16


def measure_precision(
    config: RunConfig | None = None,
    *,
    runs: Sequence[str] = RUNS,
    steps: int = 6,
    learning_rate: float = 1e-3,
    device: str | Device | None = None,
    text: str = STANDARD_LIBRARY,
) -> PrecisionMeasurement:
    """All three looks, for the model and batch of `config` (its own precision is not used).

    `runs` are precisions, "amp-fp16 unscaled" being FP16 without loss scaling. `steps`
    is how many steps each run takes after one of warm-up. `text` as for a corpus.
    """
    config = (config or RunConfig(batch=2, seq=128)).replace(accumulate=1, precision="fp32")
    here = find(device)
    count("steps", steps)
    positive("learning_rate", learning_rate)
    for name in runs:
        choice("runs", name, RUNS)
    target = here.torch_device
    share = timing.processor_share() if here.type == "cpu" else None
    reasons: dict[str, str] = {}
    batches = _batches(config, target, text, steps + 1)
    with (timing.on(target), own_random_state(target),
          matmul.exact_float32_products(target) as mode):
        formats = format_errors(here, reasons)
        tallies, underflow = gradient_underflow(config, batches[0], target)
        done = []
        for name in runs:
            why = _unsupported(name, target)
            if why:
                reasons[f"runs.{name}"] = why
                continue
            try:
                done.append(_run(name, config, batches, target, learning_rate))
            except (UnavailableError, RuntimeError) as problem:
                reasons[f"runs.{name}"] = refusal(problem)
    return PrecisionMeasurement(
        **origin(here), config=config.to_json(), formats=formats, gradients=tallies,
        underflow=underflow, runs=done, reasons=reasons,
        notes={**host.circumstances(here.threads, share), "float32_matmul": mode,
               "gradients": "Of the mean loss of one batch, after no step: freshly initialised "
                            "weights. They shrink as training goes on."})


def _unsupported(run: str, device: torch.device) -> str:
    """Why `device` has no matrix products in the format of `run`, or "" if it has."""
    format_ = {"amp-bf16": "bf16", "pure-bf16": "bf16", "amp-fp16": "fp16"}.get(
        run.removesuffix(" unscaled"), "fp32")
    return obstacle(device, format_)


def format_errors(here: Device, reasons: dict[str, str]) -> list[FormatError]:
    """Rounding of `FORMATS`, on values of both signs between 2^-3 and 2^4, and of a product."""
    generator = torch.Generator().manual_seed(0)
    exponents = torch.rand(_VALUES, generator=generator, dtype=torch.float64) * 7.0 - 3.0
    signs = torch.randint(0, 2, (_VALUES,), generator=generator) * 2.0 - 1.0
    values = signs * torch.exp2(exponents)
    found = []
    for name, dtype in FORMATS.items():
        error = ((values.to(dtype).double() - values) / values).abs()
        found.append(FormatError(
            format=name, values=_VALUES, largest=float(error.max()),
            rms=float(error.square().mean().sqrt()),
            product=_product_error(here, name, reasons)))
    return found


def _product_error(here: Device, name: str, reasons: dict[str, str]) -> float | None:
    """Of a 256 x 256 product with operands and result in the format, against float64."""
    key = f"formats.{name}.product"
    if name.startswith("fp8"):
        reasons[key] = "A product in FP8 needs a scale per tensor; PyTorch's `@` does not take it."
        return None
    why = obstacle(here.torch_device, name)
    if why:
        reasons[key] = why
        return None
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(256, 256, generator=generator, dtype=torch.float64) for _ in range(2))
    try:
        with matmul.float32_mode("highest"):
            got = a.to(FORMATS[name]).to(here.torch_device) @ b.to(FORMATS[name]).to(
                here.torch_device)
    except RuntimeError as problem:
        reasons[key] = refusal(problem)
        return None
    exact = a @ b
    return float((got.cpu().double() - exact).norm() / exact.norm())


class Tally:
    """Sorts gradients by size as they come, so that none has to be kept."""

    def __init__(self, of: str) -> None:
        self.of = of
        self.values = self.zeros = 0
        self.largest = 0.0
        self.exponents: Counter[int] = Counter()
        self._stored: dict[tuple[str, float], list[int]] = {
            (name, scale): [0, 0, 0] for name in FORMATS if name != "fp32"
            for scale in LOSS_SCALES}

    @torch.no_grad()
    def add(self, gradient: torch.Tensor) -> None:
        """Count the finite float32 values of `gradient` (any shape, any device)."""
        values = gradient.detach().flatten().float()
        if values.device.type == "mps":
            values = values.cpu()  # MPS has no FP8
        size = values.abs()
        present = size[size > 0]
        self.values += size.numel()
        self.zeros += size.numel() - present.numel()
        if not present.numel():
            return
        self.largest = max(self.largest, float(present.max()))
        exponents = torch.frexp(present).exponent - 1  # frexp's mantissa is in [0.5, 1)
        kinds, counts = torch.unique(exponents, return_counts=True)
        self.exponents.update(dict(zip(kinds.tolist(), counts.tolist(), strict=True)))
        for (name, scale), row in self._stored.items():
            dtype = FORMATS[name]
            info = torch.finfo(dtype)
            scaled = present * scale
            stored = scaled.to(dtype).float()
            row[0] += int((stored == 0).sum())
            row[1] += int(((stored > 0) & (stored < info.smallest_normal)).sum())
            row[2] += int((scaled > info.max).sum())

    def result(self) -> GradientTally:
        """The values by size."""
        return GradientTally(
            of=self.of, values=self.values, zeros=self.zeros, largest=self.largest,
            exponents={str(e): n for e, n in sorted(self.exponents.items())})

    def underflow(self) -> list[Underflow]:
        """What each format would keep of them, per loss scale."""
        present = max(1, self.values - self.zeros)
        return [Underflow(of=self.of, format=name, loss_scale=scale, lost=lost / present,
                          subnormal=subnormal / present, overflowed=over)
                for (name, scale), (lost, subnormal, over) in self._stored.items()]


def gradient_underflow(
    config: RunConfig, batch: gpt2_step.Batch, device: torch.device
) -> tuple[list[GradientTally], list[Underflow]]:
    """Sort the float32 gradients of one step: of parameters, and of linear layers' outputs."""
    torch.manual_seed(0)
    model = gpt2_step.build(config.replace(precision="fp32"), device).model
    outputs, parameters = Tally("outputs"), Tally("parameters")
    hooks = []
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            hooks.append(module.register_forward_hook(
                lambda _module, _inputs, output: output.register_hook(outputs.add) and None))
    model.loss(*batch).backward()
    for hook in hooks:
        hook.remove()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameters.add(parameter.grad)
    return ([parameters.result(), outputs.result()],
            parameters.underflow() + outputs.underflow())


def _run(name: str, config: RunConfig, batches: list[gpt2_step.Batch], device: torch.device,
         learning_rate: float) -> PrecisionRun:
    precision = name.removesuffix(" unscaled")
    scaled = name == "amp-fp16"
    torch.manual_seed(0)
    step = gpt2_step.build(config.replace(precision=precision), device,
                           learning_rate=learning_rate)
    if not scaled:
        step.scaler = torch.amp.GradScaler(device.type, enabled=False)
    losses: list[torch.Tensor] = []
    samples: list[float] = []
    bad: list[int] = []
    zeros: list[float] = []
    scales: list[float] = []
    skipped = 0
    for batch in batches:
        timing.synchronise(device)
        began = time.perf_counter()
        losses.append(step.backward([batch]))
        timing.synchronise(device)
        halfway = time.perf_counter()
        scales.append(float(step.scaler.get_scale()) if scaled else 1.0)
        infinite, zero = _inspect(step.model)
        bad.append(infinite)
        zeros.append(zero)
        timing.synchronise(device)
        resumed = time.perf_counter()
        step.update()
        timing.synchronise(device)
        samples.append(halfway - began + time.perf_counter() - resumed)
        skipped += scaled and float(step.scaler.get_scale()) < scales[-1]
    # The first step allocates and, on CUDA, picks algorithms: it is watched but not timed.
    took = timing.spread(samples[1:])
    return PrecisionRun(
        precision=precision, loss_scaling=scaled, losses=_finite(losses), samples=samples[1:],
        seconds=took.median, spread_seconds=took.interquartile, non_finite=bad,
        zero_share=zeros, loss_scale=scales, skipped=int(skipped))


@torch.no_grad()
def _inspect(model: torch.nn.Module) -> tuple[int, float]:
    """How many gradient values are not finite, and which share is exactly zero."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    bad = torch.stack([(~torch.isfinite(g)).sum() for g in gradients]).sum()
    zero = torch.stack([(g == 0).sum() for g in gradients]).sum()
    return int(bad), float(zero) / sum(g.numel() for g in gradients)


def _finite(losses: list[torch.Tensor]) -> list[float]:
    """The losses as numbers, up to the first that is none: JSON has no NaN."""
    found: list[float] = []
    for loss in losses:
        value = float(loss)
        if value != value or abs(value) == float("inf"):
            break
        found.append(value)
    return found


def _batches(config: RunConfig, device: torch.device, text: str,
             wanted: int) -> list[gpt2_step.Batch]:
    """Real text, tokenised: the same batches for every run."""
    tokenizer = tokens.for_vocab(config.shape.vocab)
    need = config.batch * (config.sequence + 1)
    kept: list[int] = []
    found: list[Any] = []
    for piece in corpus.documents(text):
        kept.extend(tokenizer.encode(piece))
        while len(kept) >= need and len(found) < wanted:
            rows = torch.tensor(kept[:need]).view(config.batch, config.sequence + 1).to(device)
            found.append((rows[:, :-1], rows[:, 1:]))
            del kept[:need]
        if len(found) == wanted:
            return found
    raise InputError("text", text, f"at least {wanted * need} tokens long",
                     "Give a longer text, or fewer or smaller steps.")
