"""One process of the scaling instrument: `python -m ironlaw.measure.scaling_worker SPEC`.

SPEC is a JSON file; the process's place in the group comes from RANK and WORLD_SIZE, as
under torchrun. Processes meet through a file, so that no port has to be free and nothing
listens beyond this machine. Rank 0 writes the result beside SPEC.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ..config import RunConfig
from ..gpt2 import optimizers
from ..gpt2 import precision as formats
from ..gpt2 import step as gpt2_step
from ..gpt2.model import GPT
from . import timing
from ._torch import torch
from .origin import relative_error

LOOPBACK = {"linux": "lo", "darwin": "lo0"}
_COUNTER = Path("/sys/class/net/lo/statistics/tx_bytes")


class Loss(nn.Module):
    """The model's loss as a forward pass, which is where DDP and FSDP hook in."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean loss of one batch."""
        return self.model.loss(tokens, targets)


def main(spec_file: Path) -> None:
    """Join the group, measure, leave the group."""
    spec = json.loads(spec_file.read_text(encoding="utf-8"))
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = _device(spec["backend"], rank)
    # Left alone, both libraries pick an address that can be reached from outside.
    if sys.platform in LOOPBACK:
        os.environ["GLOO_SOCKET_IFNAME"] = LOOPBACK[sys.platform]
        os.environ["NCCL_SOCKET_IFNAME"] = LOOPBACK[sys.platform]
    dist.init_process_group(
        spec["backend"], init_method=spec_file.with_name("store").resolve().as_uri(),
        rank=rank, world_size=world, device_id=device if device.type == "cuda" else None,
        timeout=datetime.timedelta(seconds=spec["timeout"]))
    try:
        with timing.on(device):
            found = measure(spec, device, rank, world)
        dist.barrier()
    finally:
        dist.destroy_process_group()
    if rank == 0:
        work = spec_file.with_name("result.tmp")
        work.write_text(json.dumps(found), encoding="utf-8")
        work.replace(spec_file.with_name("result.json"))


def _device(backend: str, rank: int) -> torch.device:
    if backend != "nccl":
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)))
    torch.cuda.set_device(device)
    return device


def measure(spec: dict[str, Any], device: torch.device, rank: int, world: int) -> dict[str, Any]:
    """What `spec` asks for, as plain values."""
    config = RunConfig.from_json(spec["config"])
    reduced = [_all_reduce(int(size), spec["repeats"], device) for size in spec["message_bytes"]]
    reference = _whole_gradient(config, device, world)
    problems: dict[str, str] = {}
    ways: dict[str, _Way] = {}
    for method, build in (("alone", _alone), ("ddp", _ddp), ("fsdp2", _fsdp2)):
        try:
            ways[method] = _Way(build, config, device, rank, world)
        except (ImportError, NotImplementedError) as problem:
            problems[method] = f"This PyTorch has no {method}: {problem}"
    errors = {method: way.error(reference) if method != "alone" else None
              for method, way in ways.items()}
    samples: dict[str, list[float]] = {method: [] for method in ways}
    wire: dict[str, list[float]] = {method: [] for method in ways}
    for turn in range(spec["repeats"] + 1):  # taking turns: a busy moment hits all alike
        for method, way in ways.items():
            dist.barrier()
            before = _sent()
            took = timing.seconds_per_call(way.step, device)
            dist.barrier()  # until then another process may still be sending
            after = _sent()
            if turn:
                samples[method].append(took)
                if device.type == "cpu" and before is not None and after is not None:
                    wire[method].append(float(after - before))
    steps = {method: {"samples": samples[method], "parameter_bytes": way.parameter_bytes(),
                      "gradient_error": errors[method],
                      "wire_bytes": min(wire[method], default=None)}
             for method, way in ways.items()}
    return {"all_reduce": reduced, "steps": steps, "problems": problems}


def _all_reduce(size: int, repeats: int, device: torch.device) -> dict[str, Any]:
    message = torch.ones(max(1, size // 4), device=device)
    samples, wire = [], []
    for turn in range(repeats + 1):
        message.fill_(1.0)
        dist.barrier()
        before = _sent()
        samples.append(timing.seconds_per_call(lambda: dist.all_reduce(message), device))
        dist.barrier()
        after = _sent()
        if float(message[0]) != dist.get_world_size():
            raise RuntimeError(f"all-reduce of ones gave {float(message[0])}")
        if turn and device.type == "cpu" and before is not None and after is not None:
            wire.append(float(after - before))
    return {"message_bytes": 4.0 * message.numel(), "samples": samples[1:],
            "wire_bytes": min(wire) if wire else None}


def _sent() -> int | None:
    """Bytes sent through the loopback interface since the system started (Linux)."""
    try:
        return int(_COUNTER.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _model(config: RunConfig, device: torch.device) -> Loss:
    torch.manual_seed(0)  # the same weights in every process
    return Loss(gpt2_step.build(config, device).model)


def _alone(loss: Loss, device: torch.device) -> nn.Module:
    return loss


def _ddp(loss: Loss, device: torch.device) -> nn.Module:
    # The buckets are the gradients themselves: without the view they would be held twice.
    return DistributedDataParallel(loss, gradient_as_bucket_view=True)


def _fsdp2(loss: Loss, device: torch.device) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for block in loss.model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(loss, mesh=mesh)
    return loss


def _batch(config: RunConfig, device: torch.device, world: int) -> gpt2_step.Batch:
    """The data of all processes together."""
    return gpt2_step.random_batches(config.replace(batch=config.batch * world), device)[0]


def _whole_gradient(config: RunConfig, device: torch.device, world: int) -> dict[str, Any]:
    loss = _model(config, device)
    with formats.of(config.precision, device).autocast():
        value = loss(*_batch(config, device, world))
    value.backward()
    return {name: p.grad for name, p in loss.named_parameters()}


class _Way:
    """One way to train in parallel, with a model and an optimizer of its own."""

    def __init__(self, build: Callable[[Loss, torch.device], nn.Module], config: RunConfig,
                 device: torch.device, rank: int, world: int) -> None:
        self.module = build(_model(config, device), device)
        self.rule = optimizers.make(self.module, "adamw", 1e-4)
        self.precision = formats.of(config.precision, device)
        whole = _batch(config, device, world)
        mine = slice(rank * config.batch, (rank + 1) * config.batch)
        self.batch = whole[0][mine], whole[1][mine]

    def backward(self) -> None:
        """Forward and backward on this process's share of the data."""
        self.rule.zero_grad(set_to_none=True)
        with self.precision.autocast():
            value = self.module(*self.batch)
        value.backward()

    def step(self) -> None:
        """One optimizer step."""
        self.backward()
        self.rule.step()

    def error(self, reference: dict[str, Any]) -> float:
        """Of the gradient, before any step, against that of all the data."""
        self.backward()
        # Names carry DDP's "module." in front; a shard is gathered before it is compared.
        got = {name.removeprefix("module."): _full(p.grad)
               for name, p in self.module.named_parameters()}
        return relative_error([got[name] for name in reference], reference.values())

    def parameter_bytes(self) -> float:
        """What this process holds of the parameters between steps."""
        return float(sum(_local(p).untyped_storage().nbytes() for p in self.module.parameters()))


def _full(tensor: Any) -> torch.Tensor:
    whole: torch.Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return whole


def _local(tensor: Any) -> torch.Tensor:
    mine: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return mine


if __name__ == "__main__":
    main(Path(sys.argv[1]))
