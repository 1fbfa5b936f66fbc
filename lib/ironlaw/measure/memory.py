"""Where the bytes of a training step go, on this device or on none at all.

`trace` runs the step of `ironlaw.gpt2` on fake tensors, which have shapes and formats
and no contents: PyTorch's own tracker then gives the peak of a model of any size, on a
laptop, in seconds to a few minutes (each operation of the step is one to track, whatever
its size: it is blocks, recomputation and micro-batches that take time). `measure_memory`
with backend "device" lets a GPU really do it and asks its allocator. `saved_tensors` lists
what one block leaves for the backward pass.
All sizes in bytes. Formats are spelled out in the model, so a CPU's trace counts what
CUDA would allocate, before rounding and fragmentation.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
from collections.abc import Iterator
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks

from ..config import RunConfig, blocks_per_segment
from ..errors import InputError, choice, positive
from ..gpt2 import optimizers
from ..gpt2 import precision as formats
from ..gpt2 import step as gpt2_step
from ..gpt2.model import GPT, recomputed
from ..gpt2.out_of_memory import memory_errors
from ..results import MemoryMeasurement, MemorySweep, SavedTensor
from . import timing
from ._torch import torch
from .device import Device, find
from .ledger import KINDS, Ledger
from .origin import software

BACKENDS = ("tracker", "device")
_CPU = torch.device("cpu")
_AGREE, _AGREE_BYTES = 1e-3, 8192  # a share, and what inputs and scalars of a tiny step take


def measure_memory(
    config: RunConfig, backend: str = "tracker", device: str | Device | None = None
) -> MemoryMeasurement:
    """The memory of one step of `config`: by "tracker" without a device, or on the "device".

    On a device without an allocator that keeps count (a CPU, MPS) the tracker stands, and
    a note says so.
    """
    if choice("backend", backend, BACKENDS) == "tracker":
        return trace(config)
    return on_device(config, find(device))


def trace(config: RunConfig) -> MemoryMeasurement:
    """One settled step (the optimizer's moments exist) of `config` on fake tensors.

    'adam', 'adamw' and 'rmsprop' run PyTorch's multi-tensor kernels, its choice on an
    accelerator. Dropout is 0 and the logits are in one piece. Raises `InputError` for a
    precision or an optimizer that PyTorch does not run.
    """
    reasons: dict[str, str] = {}
    with fake_step(config) as (run, batches):
        ledger = Ledger(_rows_of_logits(config), config.shape.vocab,
                        run.model.token_embedding.weight)
        state: dict[str, Any] = {**_run_step(run, batches, ledger, tracker := _tracker(run))}
    kinds, total, moment = ledger.peak()
    peak = total
    if tracker is None:
        reasons["tracker"] = ("This PyTorch has no MemTracker (it comes with torch.distributed); "
                              "the peak is the ledger's own.")
    else:
        peak = int(tracker.get_tracker_snapshot("peak")[_CPU]["Total"])
    split: dict[str, int | None] = {**kinds}
    if abs(total - peak) > max(_AGREE * peak, _AGREE_BYTES):
        split = dict.fromkeys(KINDS)
        reasons["memory_bytes"] = (f"The split adds up to {total} bytes, PyTorch's tracker "
                                   f"saw {peak}: no part of it is reported.")
    saved = saved_tensors(config)
    if not saved:
        reasons["saved_bytes_per_block"] = (
            f"With {config.recompute!r} only every few blocks leave something.")
    return MemoryMeasurement(
        config=config.to_json(), backend="tracker", device="fake tensors",
        parameters=config.shape.parameters, **state, memory_bytes={**split, "peak": peak},
        moment=moment, saved_tensors=saved,
        saved_bytes_per_block=sum(t.bytes for t in saved) if saved else None,
        reserved_bytes=None, context_bytes=None, **software(),
        reasons={**reasons, "reserved_bytes": "Fake tensors reserve nothing.",
                 "context_bytes": "No device was used."},
        notes={"peak": "Storage that PyTorch holds at once; not in it: the device's context, "
                       "library workspaces, the allocator's rounding and fragmentation."})


def _rows_of_logits(config: RunConfig) -> set[int]:
    """For how many tokens logits are held at once: all of a micro-batch, or slices of it."""
    rows = config.batch * config.sequence
    size = config.loss_rows or rows
    return {min(size, rows), rows % size or min(size, rows)}


def saved_tensors(config: RunConfig) -> list[SavedTensor]:
    """What one block of `config` keeps for its backward pass, one entry per storage.

    Parameters are left out, and their 16-bit copies too: they belong to the weights.
    Views of one storage (queries, keys and values) count once. Empty where several
    blocks are re-run together ('sqrt', 'every-4'): one of them alone keeps nothing.
    """
    together = blocks_per_segment(config.recompute, config.shape.layers)
    if config.recompute == "sqrt" or (together or 1) > 1:
        return []
    precision = formats.of(config.precision, _CPU)
    found: dict[int, SavedTensor] = {}
    alive: list[Any] = []  # so that no storage's id is given to another meanwhile
    where: list[str] = ["block"]
    with FakeTensorMode(allow_non_fake_inputs=True), _default_dtype(precision.parameter_dtype):
        model = GPT(config.shape.resized(layers=1), attention=config.attention,
                    recompute=config.recompute)
        block = model.blocks[0]
        ledger = Ledger()
        ledger.hold(model.parameters(), "parameters")

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if ledger.kind_of(tensor) is None and id(storage) not in found:
                alive.append(storage)
                found[id(storage)] = SavedTensor(
                    where=where[-1], shape=list(tensor.shape),
                    dtype=str(tensor.dtype).removeprefix("torch."),
                    bytes=storage.nbytes())
            return tensor

        for name, module in block.named_modules():
            if name:
                module.register_forward_pre_hook(lambda *_, name=name: where.append(name))
                module.register_forward_hook(lambda *_: where.pop() and None)
        size = (config.batch, config.sequence, config.shape.width)
        x = torch.zeros(size, requires_grad=True)
        mask = None
        if config.attention == "materialised":
            mask = torch.zeros(config.sequence, config.sequence)
            ledger.hold([mask], "transient")  # one for all blocks
        with precision.autocast(), ledger, saved_tensors_hooks(keep, lambda kept: kept):
            left = recomputed(block, 0.0, x, mask) if together == 1 else block(x, mask)
        del left
    return list(found.values())


def on_device(config: RunConfig, here: Device) -> MemoryMeasurement:
    """Three real steps on a GPU; the peak of the last as its allocator counted it.

    The split is the tracker's. `reserved_bytes` is what the allocator took from the
    driver, `context_bytes` what is in use beyond that: the context, libraries, and any
    other program on the same GPU. Raises `OutOfMemoryError` when memory runs out.
    """
    traced = trace(config)
    if here.type != "cuda":
        why = ("MPS tells what it holds now, not the most that it held" if here.type == "mps"
               else "A CPU keeps no count of its tensors")
        return _relabelled(traced, here, None, None, None,
                           f"{why}: these are the tracker's figures{_other_kernels(config, here)}.")
    target = here.torch_device
    torch.cuda.empty_cache()
    allocated_before = torch.cuda.memory_allocated(target)
    try:
        with (memory_errors(config, target), timing.on(target),
              torch.random.fork_rng(devices=[target])):
            torch.manual_seed(0)
            run = gpt2_step.build(config, target)
            batches = gpt2_step.random_batches(config, target)
            for _ in range(2):
                run(batches)
            torch.cuda.synchronize(target)
            torch.cuda.reset_peak_memory_stats(target)
            run(batches)
            torch.cuda.synchronize(target)
        peak = torch.cuda.max_memory_allocated(target) - allocated_before
        reserved = torch.cuda.memory_reserved(target)
        free, whole = torch.cuda.mem_get_info(target)
    finally:
        run = batches = None  # type: ignore[assignment]  # the step's memory is given back here
        gc.collect()
        torch.cuda.empty_cache()
    return _relabelled(traced, here, peak, reserved, whole - free - reserved,
                       "The peak is CUDA's; its split is the tracker's, which knows no rounding.")


def _other_kernels(config: RunConfig, here: Device) -> str:
    """What the tracker counts and a CPU does not take: see `trace`."""
    if here.type == "cpu" and config.optimizer in ("adam", "adamw", "rmsprop"):
        return (f", with the workspace that {config.optimizer!r} takes in an accelerator's "
                "multi-tensor kernels and not on a CPU")
    return ""


def _relabelled(traced: MemoryMeasurement, here: Device, peak: int | None,
                reserved: int | None, context: int | None, note: str) -> MemoryMeasurement:
    sizes = {**traced.memory_bytes, **({} if peak is None else {"peak": peak})}
    reasons = {k: v for k, v in traced.reasons.items()
               if k not in ("reserved_bytes", "context_bytes")}
    if peak is None:
        reasons |= dict.fromkeys(("reserved_bytes", "context_bytes"),
                                 f"{here.type} has no allocator that tells.")
    return dataclasses.replace(
        traced, backend="device", device=here.name, memory_bytes=sizes, reserved_bytes=reserved,
        context_bytes=context, tracker_peak_bytes=traced.memory_bytes["peak"], reasons=reasons,
        **software(here), notes={**traced.notes, "backend": note})


def sweep(config: RunConfig, limit_bytes: float, *, most: int = 4096) -> MemorySweep:
    """The largest micro-batch of `config` whose traced peak is at most `limit_bytes`.

    Its own `batch` is not used. Peaks grow almost in a straight line, so each trace says
    where to look next, until a batch fits and the one after it does not. Stops at `most`.
    Raises `InputError` when not even one sequence fits.
    """
    limit = positive("limit_bytes", limit_bytes, unit="B")
    peaks: dict[int, int] = {}

    def peak(batch: int) -> int:
        if batch not in peaks:
            peaks[batch] = trace(config.replace(batch=batch)).peak_bytes
        return peaks[batch]

    if peak(1) > limit:
        raise InputError("limit_bytes", limit, f"at least {peak(1)} bytes",
                         "One sequence needs that much: shorten it or take a smaller model.")
    low, high = 1, min(8, most)  # two points make the first line
    while high < most and peak(high) <= limit:
        low, high = high, _between(high + 1, most, _crossing(peaks, low, high, limit) + 1)
    while high - low > 1 and peak(high) > limit:
        middle = _between(low + 1, high - 1, _crossing(peaks, low, high, limit))
        if peak(middle) > limit:
            high = middle
        else:
            low = middle
            if low + 1 < high and peak(low + 1) > limit:
                high = low + 1
    largest = high if peak(high) <= limit else low
    return MemorySweep(config=config.to_json(), limit_bytes=limit, largest_batch=largest,
                       peaks=sorted(peaks.items()),
                       notes={"largest_batch": f"Not searched beyond {most}."}
                       if largest == most else {})


def _crossing(peaks: dict[int, int], low: int, high: int, limit: float) -> int:
    """Where the straight line through two traced batches meets the limit."""
    rise = (peaks[high] - peaks[low]) / (high - low)
    return low + int((limit - peaks[low]) / rise) if rise > 0 else high


def _between(low: int, high: int, value: int) -> int:
    return max(low, min(high, value))


@contextlib.contextmanager
def fake_step(config: RunConfig) -> Iterator[tuple[gpt2_step.TrainingStep, Any]]:
    """The trainer's step with tensors that hold nothing. CPU only: see the module's text."""
    precision = formats.of(config.precision, _CPU)
    with FakeTensorMode(allow_non_fake_inputs=True):
        with _default_dtype(precision.parameter_dtype):
            model = GPT(config.shape, attention=config.attention, recompute=config.recompute,
                        loss_rows=config.loss_rows)
        rule = optimizers.make(model, config.optimizer, 1e-3)
        for group in rule.param_groups:
            if group.get("foreach") is None and not group.get("fused"):
                group["foreach"] = True  # what PyTorch chooses on an accelerator
        size = (config.batch, config.sequence)
        batches = [(torch.zeros(size, dtype=torch.int64), torch.zeros(size, dtype=torch.int64))
                   for _ in range(config.accumulate)]
        yield gpt2_step.TrainingStep(model, rule, precision, config.accumulate), batches


def _tracker(run: gpt2_step.TrainingStep) -> Any:
    try:
        from torch.distributed._tools.mem_tracker import MemTracker
    except ImportError:
        return None
    tracker = MemTracker()
    tracker.track_external(run.model, run.optimizer)
    plain = run.model.loss

    def loss(tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        tracker.reset_mod_stats()  # it follows one forward pass at a time
        return plain(tokens, targets)

    run.model.loss = loss  # type: ignore[method-assign]  # the tracker needs the hook
    return tracker


def _run_step(run: gpt2_step.TrainingStep, batches: Any, ledger: Ledger,
              tracker: Any) -> dict[str, int]:
    """Two steps, so that the second has moments; bytes of the three kinds of state."""
    parameters = list(run.model.parameters())
    ledger.hold(parameters, "parameters")
    ledger.hold((t for pair in batches for t in pair), "transient")
    for p in parameters:
        p.register_post_accumulate_grad_hook(
            lambda p: ledger.hold([p.grad], "gradients"))
    plain = run.model.loss

    def loss(tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        ledger.phase = "forward"
        result = plain(tokens, targets)
        ledger.phase = "backward"
        return result

    run.model.loss = loss  # type: ignore[method-assign]  # as in `_tracker`
    gradients = 0
    with tracker or contextlib.nullcontext(), ledger:
        for _ in range(2):
            run.backward(batches)
            gradients = ledger.live("gradients")
            ledger.phase = "optimizer step"
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            run.optimizer.step()
            ledger.hold((t for state in run.optimizer.state.values() for t in state.values()
                         if isinstance(t, torch.Tensor)), "optimizer")
            run.optimizer.zero_grad(set_to_none=True)
    return {"parameter_bytes": ledger.live("parameters"), "gradient_bytes": gradients,
            "optimizer_bytes": ledger.live("optimizer")}


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
