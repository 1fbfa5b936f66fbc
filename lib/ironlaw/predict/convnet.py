"""ResNet-50 counted layer by layer: parameters and what the backward pass needs.

Used to audit the document's round figures for it (section 1.3.3). He et al. 2016:
a 7 x 7 stem, four stages of 3, 4, 6 and 3 bottleneck blocks, global pooling, 1,000
classes; the stride sits on each stage's first 3 x 3 convolution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import InputError, count, positive
from .flops import convolution_output_side

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Inner width, number of blocks and stride of each stage."""
EXPANSION = 4


@dataclass(frozen=True)
class Convolution:
    """One convolution with its batch norm: channels, kernel and sides of input and output."""

    inputs: int
    outputs: int
    kernel: int
    side_in: int
    side_out: int
    shares_input: bool = False

    @property
    def parameters(self) -> int:
        """Weights, and gain and bias of the norm behind it."""
        return self.inputs * self.outputs * self.kernel**2 + 2 * self.outputs

    @property
    def saved_values(self) -> int:
        """Values per image kept for backward: this input, and the norm's input.

        A shortcut's convolution reads the tensor that its block already keeps.
        """
        own = 0 if self.shares_input else self.inputs * self.side_in**2
        return own + self.outputs * self.side_out**2


def resnet50(image_side: int = 224) -> list[Convolution]:
    """Its 53 convolutions for square images of that side (a multiple of 32)."""
    side = count("image_side", image_side, low=32)
    if side % 32:
        raise InputError("image_side", image_side, "a multiple of 32",
                         "The network halves the picture five times.")
    return list(_layers(side))


def _layers(image_side: int) -> Iterator[Convolution]:
    side = convolution_output_side(image_side, 7, 2, 3)
    yield Convolution(3, 64, 7, image_side, side)
    side = convolution_output_side(side, 3, 2, 1)
    width = 64
    for inner, blocks, stride in STAGES:
        for block in range(blocks):
            step = stride if block == 0 else 1
            out = convolution_output_side(side, 3, step, 1)
            yield Convolution(width, inner, 1, side, side)
            yield Convolution(inner, inner, 3, side, out)
            yield Convolution(inner, inner * EXPANSION, 1, out, out)
            if block == 0:
                yield Convolution(width, inner * EXPANSION, 1, side, out, shares_input=True)
            side, width = out, inner * EXPANSION


def resnet50_parameters(classes: int = 1000) -> int:
    """25,557,032 for 1,000 classes."""
    features = STAGES[-1][0] * EXPANSION
    head = (features + 1) * count("classes", classes)
    return sum(layer.parameters for layer in resnet50()) + head


def resnet50_saved_values(image_side: int = 224) -> int:
    """Values per image that the backward pass needs, each tensor once.

    Inputs of every convolution and every norm; each ReLU works in place and keeps
    its result, which is the next convolution's input, except for two: the stem's,
    which max pooling reads, and the last, which global pooling reads.
    """
    layers = resnet50(image_side)
    stem, last = layers[0], layers[-1]
    relus = stem.outputs * stem.side_out**2 + last.outputs * last.side_out**2
    return sum(layer.saved_values for layer in layers) + relus


def resnet50_saved_bytes(
    batch: int, image_side: int = 224, bytes_per_value: float = 4.0
) -> float:
    """Bytes kept for the backward pass: 2.70 GB for a batch of 32 in FP32."""
    return (float(count("batch", batch)) * resnet50_saved_values(image_side)
            * positive("bytes_per_value", bytes_per_value))
