"""Nothing in a step makes the host wait for the device, on a stand-in for one.

A CPU-only PyTorch cannot run CUDA tensors. What would make the host wait can be seen anyway:
reading a value goes through `aten::_local_scalar_dense` on every device, results whose size
depends on contents through a handful of operations, whole tensors through a few methods; and
on the meta device there is no content to copy to the host at all.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from ironlaw.config import RunConfig
from ironlaw.gpt2 import optimizers, precision
from ironlaw.gpt2.model import GPT, IGNORED
from ironlaw.gpt2.settings import TrainSettings
from ironlaw.gpt2.step import TrainingStep, build, random_batches
from ironlaw.gpt2.train import Trainer
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.usefixtures("one_thread")

TINY = RunConfig(layers=2, width=32, heads=2, vocab=300, batch=2, seq=16, accumulate=2,
                 optimizer="adamw-fused")
_WAITS = {torch.ops.aten._local_scalar_dense, torch.ops.aten.nonzero, torch.ops.aten.equal,
          torch.ops.aten.is_nonzero, torch.ops.aten.masked_select, torch.ops.aten.unique_dim,
          torch.ops.aten._unique2, torch.ops.aten.bincount}


class WaitedError(Exception):
    """The host would have had to wait."""


def _waited(tensor: torch.Tensor, *rest: object) -> None:
    raise WaitedError("a tensor is read as a whole")


class NoWaiting(TorchDispatchMode):
    """Raises where a CUDA device would have to finish before the host can go on."""

    def __enter__(self) -> NoWaiting:
        self.patch = pytest.MonkeyPatch()
        for name in ("tolist", "cpu", "numpy", "__repr__", "__format__"):
            self.patch.setattr(torch.Tensor, name, _waited)
        entered: NoWaiting = super().__enter__()
        return entered

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.patch.undo()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func.overloadpacket in _WAITS:
            raise WaitedError(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("look", [
    lambda t: t.item(), lambda t: float(t), lambda t: bool(t > 0), lambda t: t[t > 0],
    lambda t: t.nonzero(), lambda t: print(t.sum()), lambda t: t.tolist()])
def test_the_guard_sees_every_way_to_wait(look: object) -> None:
    with NoWaiting(), pytest.raises(WaitedError):
        look(torch.ones(()))  # type: ignore[operator]


@pytest.mark.parametrize("changes", [
    {}, {"precision": "amp-bf16"}, {"precision": "pure-bf16"}, {"loss_rows": 8},
    {"loss_rows": 8, "precision": "amp-bf16"}, {"attention": "materialised"},
    {"attention": "materialised", "recompute": "selective"}, {"recompute": "every-2"},
    {"precision": "amp-fp16"}, {"attention": "tiled"}, {"optimizer": "sgd"},
    {"optimizer": "momentum"},
], ids=str)
def test_no_step_waits(changes: dict[str, object]) -> None:
    config = TINY.replace(**changes)
    step = build(config, pad_vocab=True)
    batches = random_batches(config)
    batches[0][1][0, :5] = IGNORED
    with NoWaiting():
        for _ in range(2):
            step(batches)


def test_loss_scaling_waits_with_unfused_rules_only() -> None:
    """A fused kernel is told of an overflow by a tensor; other rules are not called at all then."""
    config = TINY.replace(precision="amp-fp16", optimizer="momentum")
    step = build(config)
    batches = random_batches(config)
    with NoWaiting():
        step.backward(batches)
    with NoWaiting(), pytest.raises(WaitedError):
        step.update()


def test_the_trainer_waits_only_where_it_settles(tmp_path: Path, text: Path) -> None:
    run = RunConfig(layers=1, width=32, heads=2, batch=2, seq=32, optimizer="adamw-fused",
                    loss_rows=16)
    trainer = Trainer(TrainSettings(run=run, steps=4, corpus=str(text)), tmp_path)
    with NoWaiting():
        for _ in range(3):
            trainer._one_step()
    with NoWaiting(), pytest.raises(WaitedError):
        trainer._settle(0.0)


@pytest.mark.parametrize("changes", [
    {}, {"attention": "materialised", "recompute": "selective"}, {"recompute": "every-block"},
    {"attention": "materialised", "loss_rows": 8}, {"precision": "pure-bf16", "loss_rows": 8},
], ids=str)
def test_a_step_without_contents_runs_to_its_end(changes: dict[str, object]) -> None:
    """On the meta device: every tensor of the step is made there, none goes to the host."""
    config = TINY.replace(**{"optimizer": "sgd", **changes})
    formats = precision.of(config.precision, "cpu")
    with torch.device("meta"):
        model = formats.prepare(GPT(config.shape, attention=config.attention,
                                    recompute=config.recompute, loss_rows=config.loss_rows))
        batches = [(torch.zeros(2, 16, dtype=torch.int64),) * 2 for _ in range(2)]
    step = TrainingStep(model, optimizers.make(model, config.optimizer, 0.1),  # type: ignore[arg-type]
                        formats, config.accumulate)
    loss = step(batches)
    assert loss.device.type == "meta"
    assert step.gradient_norm is not None
    assert step.gradient_norm.device.type == "meta"
