"""Parts of a training step, timed on their own: the evidence for what a step consists of.

Four things take a step above the time of its matrix products: starting each operation, the
update of the parameters, the loss head over the whole vocabulary, and the rest. Here the
first three are measured. Launches are counted in a profiler's trace and multiplied by what
one tiny operation takes. The update (clipping, optimizer) runs alone, on the gradients of a
real backward pass. The loss head (final projection and cross-entropy, forward and backward)
runs alone, on features of the model itself. All shapes take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..config import RunConfig
from ..errors import InputError, count
from ..gpt2 import step as gpt2_step
from ..results_systems import StepParts
from . import host, matmul, timing, trace
from ._torch import torch
from .device import Device, find
from .origin import origin, timed
from .step import own_random_state

OPTIMIZER, HEAD, REST = "optimizer", "loss head", "rest"


def measure_parts(
    configs: Sequence[RunConfig],
    *,
    rounds: int = 5,
    device: str | Device | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> list[StepParts]:
    """The parts of a step of each of `configs`, `rounds` times in turns after one of warm-up.

    The configurations may differ only in `batch` and `seq`, and share one model. `device`
    as in `device.find`; `progress` hears what is being measured. Times in seconds.
    """
    count("number of configurations", len(configs))
    count("rounds", rounds)
    for other in configs[1:]:
        if other.replace(batch=1, seq=1) != configs[0].replace(batch=1, seq=1):
            raise InputError("configs", other.to_json(), "equal to the first but for batch and seq",
                             "Measure other settings in a call of their own.")
    here = find(device)
    target = here.torch_device
    share = timing.processor_share() if here.type == "cpu" else None
    progress("timing the optimizer and the loss head alone, and counting launches")
    with (timing.on(target), own_random_state(target),
          matmul.exact_float32_products(target) as mode):
        torch.manual_seed(seed)
        train = gpt2_step.build(configs[0], target)
        shapes = [_Shape(train, config, target, seed) for config in configs]
        for turn in range(rounds + 1):
            for shape in shapes:
                shape.take(keep=turn > 0)
        counted = [shape.launches() for shape in shapes]
    notes = {
        **host.circumstances(here.threads, share), "float32_matmul": mode,
        "launches": "Kernels and copies on the GPU." if here.type == "cuda" else
        "PyTorch's operations that call no other one; views and empty tensors are among them.",
        "launch": "One tiny operation out of many in a row; on a GPU that is the longer of "
                  "issuing it and running it."}
    return [StepParts(
        **origin(here), config=config.to_json(), launches=launches, busy_seconds=busy,
        launch=timed("launch", shape.tiny), optimizer=timed(OPTIMIZER, shape.update),
        head=timed(HEAD, shape.head),
        reasons={} if busy is not None else {
            "busy_seconds": "Only a GPU's trace tells when the device itself was running."},
        notes=notes)
        for config, shape, (launches, busy) in zip(configs, shapes, counted, strict=True)]


class _Shape:
    """One batch and sequence length of a model that several shapes share."""

    def __init__(self, train: gpt2_step.TrainingStep, config: RunConfig, device: torch.device,
                 seed: int) -> None:
        self.train, self.device = train, device
        self.accumulate = config.accumulate
        self.batches = gpt2_step.random_batches(config, device, seed)
        self.value = torch.zeros(1, device=device)
        self.tiny: list[float] = []
        self.update: list[float] = []
        self.head: list[float] = []

    def take(self, *, keep: bool) -> None:
        """One of each, in the order of a step; the backward pass gives the update its gradients."""
        self.train.backward(self.batches)
        updated = timing.seconds_per_call(self.train.update, self.device)
        head = self._prepared_head()
        headed = timing.seconds_per_call(head, self.device) * self.accumulate
        self.train.optimizer.zero_grad(set_to_none=True)
        if keep:
            self.update.append(updated)
            self.head.append(headed)
            self.tiny += timing.sample(lambda: self.value.add_(1.0), self.device,
                                       seconds=0.01, least=1, most=5)

    def launches(self) -> tuple[dict[str, int], float | None]:
        """Launches of a whole step by part, and the seconds in which a GPU ran any of them."""
        both, busy = trace.launches(lambda: self.train.backward(self.batches), self.device)
        update, updating = trace.launches(self.train.update, self.device)
        head, _ = trace.launches(self._prepared_head(), self.device)
        self.train.optimizer.zero_grad(set_to_none=True)
        head *= self.accumulate
        running = None if busy is None or updating is None else busy + updating
        return {OPTIMIZER: update, HEAD: head, REST: max(0, both - head)}, running

    def _prepared_head(self) -> Callable[[], None]:
        """The model's own loss on features that are there already, forward and backward."""
        train, (tokens, targets) = self.train, self.batches[0]
        model = train.model
        with torch.no_grad(), train.precision.autocast():
            given = model.features(tokens)
        given = given.detach().requires_grad_()

        def call() -> None:
            given.grad = None
            with train.precision.autocast():
                loss = model.loss_of_features(given, targets)
            train.scaler.scale(loss).backward()

        return call
