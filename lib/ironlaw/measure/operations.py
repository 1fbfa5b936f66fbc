"""Every operation of a training step, counted without running it: FLOP and bytes of each.

The step runs on fake tensors, which have shapes and no contents, so a model of any size is
counted in seconds on any machine. Each operation is written down with its products' FLOP
and with the bytes that it reads and writes at the least: each input once, each output once.
From these and a device's calibrated rates `predict.step_time.from_operations` adds up what
a step should take, operation by operation.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from ..config import RunConfig
from ..results_systems import OperationCount, StepOperations
from . import memory
from ._torch import torch

_MAKES_ROOM = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided",
               "detach", "lift_fresh", "_local_scalar_dense")
"""Operations that read and write nothing worth counting."""


def count_operations(config: RunConfig) -> StepOperations:
    """The operations of one settled step of `config` (the optimizer's moments exist).

    Equal ones are one entry with their number. As `memory.trace`, it takes PyTorch's
    multi-tensor kernels for 'adam', 'adamw' and 'rmsprop', its choice on an accelerator.
    """
    with memory.fake_step(config) as (run, batches):
        run.backward(batches)  # makes the moments with the update below
        _update(run)
        with _Counter() as counter:
            run.backward(batches)
            _update(run)
    return StepOperations(
        config=config.to_json(),
        operations=[OperationCount(name=name, calls=calls, flops=flops, traffic_bytes=moved)
                    for (name, flops, moved), calls in counter.found.items()],
        notes={"traffic": "Stated: each input read once, each output written once."})


def _update(run: Any) -> None:
    """As `TrainingStep.update`, without the loss scaler, which would ask for a value."""
    if run.clip is not None:
        torch.nn.utils.clip_grad_norm_(run.model.parameters(), run.clip)
    run.optimizer.step()
    run.optimizer.zero_grad(set_to_none=True)


class _Counter(TorchDispatchMode):
    """Listens to operations while active; `found` counts them by name, FLOP and bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[tuple[str, float, float]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if name not in _MAKES_ROOM:
            moved = traffic(func, args, kwargs, result)
            if moved:
                self.found[name, flops(func, args, kwargs, result), moved] += 1
        return result


def traffic(func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> float:
    """Bytes that `func` reads and writes at the least; 0 for a view, which moves nothing."""
    read = {id(t.untyped_storage()): _size(t) for t in _tensors((args, kwargs))}
    written = _written(func, args, kwargs)
    for tensor in _tensors(result):
        key = id(tensor.untyped_storage())
        if key not in read:
            written[key] = _size(tensor)
    return sum(read.values()) + sum(written.values()) if written else 0.0


def flops(func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> float:
    """FLOP of the matrix products in `func`, by PyTorch's own formulas."""
    packet = func.overloadpacket
    # A product that adds to its first argument has the formula of the one that does not.
    plain = getattr(torch.ops.aten, packet.__name__.removesuffix("_"), packet)
    if plain in flop_registry:
        return float(flop_registry[plain](*args, **kwargs, out_val=result))
    if packet.__name__ == "_scaled_dot_product_flash_attention_for_cpu":
        return float(sdpa_flop_count(*(t.shape for t in args[:3])))
    if packet.__name__ == "_scaled_dot_product_flash_attention_for_cpu_backward":
        return float(sdpa_backward_flop_count(*(t.shape for t in args[:4])))
    return 0.0


def _written(func: Any, args: Any, kwargs: dict[str, Any]) -> dict[int, float]:
    """Storages among the arguments that `func` changes, by its own schema."""
    found: dict[int, float] = {}
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[place] if place < len(args) else kwargs.get(argument.name)
        for tensor in _tensors(value):
            found[id(tensor.untyped_storage())] = _size(tensor)
    return found


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _size(tensor: torch.Tensor) -> float:
    """Bytes of the values that a tensor shows; one that repeats a value shows it once."""
    distinct = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        distinct *= size if stride else 1
    return float(distinct * tensor.element_size())
