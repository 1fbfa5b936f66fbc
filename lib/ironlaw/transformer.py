"""The shapes of the models that the course speaks of.

`Shape` describes a GPT-2 style decoder; `MODELS` holds the presets under their
command-line names; `WORKLOADS` holds training runs known only by parameters and
tokens (GPT-3, Llama-2-70B), which is all that `6 P D` needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .errors import InputError, choice, count, positive


@dataclass(frozen=True)
class Shape:
    """A decoder-only transformer with learned positions and a tied output head.

    Symbols follow the document: `layers` N_L, `width` d, `heads` H, `context` S,
    `vocab` V. Sizes are counts, not bytes.
    """

    name: str
    layers: int
    width: int
    heads: int
    context: int
    vocab: int

    def __post_init__(self) -> None:
        for field in ("layers", "width", "heads", "context", "vocab"):
            count(field, getattr(self, field))
        if self.width % self.heads:
            raise InputError(
                "heads", self.heads, f"a divisor of width = {self.width}",
                "Every head gets width / heads channels; choose numbers that divide evenly.",
            )

    @property
    def head_width(self) -> int:
        """Channels per attention head, d_head = d / H."""
        return self.width // self.heads

    @property
    def block_parameters(self) -> int:
        """Parameters of one block (see `parameter_count.block`)."""
        from . import parameter_count  # closed in the sandbox of the lab that asks for it

        return parameter_count.block(self.width)

    @property
    def parameters(self) -> int:
        """All trainable parameters, the tied output head counted once."""
        from . import parameter_count

        return parameter_count.whole(self.layers, self.width, self.vocab, self.context)

    def resized(
        self,
        *,
        layers: int | None = None,
        width: int | None = None,
        heads: int | None = None,
        context: int | None = None,
        vocab: int | None = None,
    ) -> Shape:
        """A copy with some sizes replaced; an unchanged copy keeps its name."""
        given = {"layers": layers, "width": width, "heads": heads,
                 "context": context, "vocab": vocab}
        changes = {k: v for k, v in given.items() if v is not None and v != getattr(self, k)}
        if not changes:
            return self
        suffix = "-".join(f"{k}{v}" for k, v in changes.items())
        return replace(self, name=f"{self.name}-{suffix}", **changes)


GPT2_VOCAB = 50_257

MODELS: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape("nano", layers=4, width=128, heads=4, context=256, vocab=4_096),
        Shape("gpt2-124m", layers=12, width=768, heads=12, context=1024, vocab=GPT2_VOCAB),
        Shape("gpt2-350m", layers=24, width=1024, heads=16, context=1024, vocab=GPT2_VOCAB),
        Shape("gpt2-774m", layers=36, width=1280, heads=20, context=1024, vocab=GPT2_VOCAB),
        Shape("gpt2-1558m", layers=48, width=1600, heads=25, context=1024, vocab=GPT2_VOCAB),
    )
}


def model(name: str) -> Shape:
    """The preset called `name`, or `InputError` listing the presets."""
    return MODELS[choice("model", name, MODELS)]


@dataclass(frozen=True)
class Workload:
    """A training run by its size alone: parameters P and training tokens D."""

    name: str
    parameters: float
    tokens: float
    source: str

    def __post_init__(self) -> None:
        positive("parameters", self.parameters)
        positive("tokens", self.tokens)


WORKLOADS: dict[str, Workload] = {
    w.name: w
    for w in (
        Workload(
            "GPT-2 XL", 1.5e9, 1.5e21 / (6 * 1.5e9),
            "The document's lighthouse: 1.5e9 parameters and 1.5e21 FLOP, so D = O / (6 P). "
            "OpenAI published no token count.",
        ),
        Workload("GPT-3", 174.6e9, 300e9,
                 "Brown et al. 2020, table D.1: 174,600M parameters, 300B tokens."),
        Workload("Llama-2-70B", 70e9, 2e12, "Touvron et al. 2023: 70B parameters, 2T tokens."),
    )
}


def workload(name: str) -> Workload:
    """The training run called `name`, or `InputError` listing the known ones."""
    return WORKLOADS[choice("workload", name, WORKLOADS)]
