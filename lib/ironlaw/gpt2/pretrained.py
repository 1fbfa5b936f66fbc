"""The original GPT-2 weights, by name or from a file: fetched only when they are asked for.

The four models that OpenAI published are known by the names of the `transformers` library
("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl") and by the presets of the same sizes. The
library looks in its own cache first, so that a second time needs no network; a folder made
by `save_pretrained`, or a `.safetensors` file, needs none at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, UnavailableError
from ..transformer import MODELS, Shape
from .model import GPT

ORIGINALS = {"gpt2": "gpt2-124m", "gpt2-medium": "gpt2-350m", "gpt2-large": "gpt2-774m",
             "gpt2-xl": "gpt2-1558m"}
"""Names of the published weights, and the presets that have their sizes."""
_REQUIRED = {"activation_function": "gelu_new", "scale_attn_by_inverse_layer_idx": False,
             "tie_word_embeddings": True, "add_cross_attention": False}


def preset_of(name: str) -> str | None:
    """The preset with the sizes of `name`, or None where a file decides."""
    if name in ORIGINALS:
        return ORIGINALS[name]
    return name if name in ORIGINALS.values() else None


def from_pretrained(name: str, shape: Shape | None = None, **switches: Any) -> GPT:
    """A GPT with the weights of `name`; `switches` as in `GPT` (attention, pad_vocab, ...).

    `name` is one of `ORIGINALS`, a preset with those sizes, a folder as `save_pretrained`
    writes it, or a `.safetensors` file (which says nothing of the number of heads: give its
    `shape`). Raises `UnavailableError` where a library, the file or the network is missing,
    and `InputError` where the sizes or the architecture differ.
    """
    found, state = read(name)
    sizes = shape or found
    if sizes is None:
        raise InputError("shape", None, f"given for the weights in {name}",
                         "A file of tensors does not tell the number of heads.")
    model = GPT(sizes, **switches)
    load_transformers(model, state)
    return model


def read(name: str) -> tuple[Shape | None, dict[str, Tensor]]:
    """The sizes (None when the source does not tell) and the tensors behind `name`."""
    place = Path(name).expanduser()
    if place.is_file():
        return None, _file(place)
    if place.is_dir():
        return _through_transformers(str(place), local=True)
    preset = preset_of(name)
    if preset is None:
        raise InputError("init", name, "one of " + ", ".join([*ORIGINALS, *ORIGINALS.values()])
                         + ", a folder that save_pretrained wrote, or a .safetensors file",
                         "There is no file or folder of that name here.")
    original = next(theirs for theirs, ours in ORIGINALS.items() if ours == preset)
    return _through_transformers(original, local=False)


def _file(place: Path) -> dict[str, Tensor]:
    try:
        from safetensors.torch import load_file
    except ImportError:
        raise UnavailableError("The library safetensors", f"it reads {place.name}.",
                               "Install it with: pip install safetensors") from None
    try:
        state: dict[str, Tensor] = load_file(place)
    except Exception as problem:  # the library raises a class of its own for a broken file
        raise InputError("init", str(place), "a whole .safetensors file",
                         f"It could not be read ({problem}).") from None
    return state


def _through_transformers(name: str, *, local: bool) -> tuple[Shape, dict[str, Tensor]]:
    try:
        from transformers import GPT2LMHeadModel
    except ImportError:
        raise UnavailableError("The library transformers", f"it reads the weights of {name}.",
                               "Install it with: pip install transformers") from None
    try:
        theirs = GPT2LMHeadModel.from_pretrained(name, local_files_only=local)
    except (OSError, ValueError) as problem:
        why = str(problem).strip().splitlines()[0] if str(problem).strip() else "no reason given"
        if local:
            raise InputError("init", name, "a folder with the weights of a GPT-2",
                             f"transformers could not read it ({why}).") from problem
        raise UnavailableError(
            f"The weights of {name}",
            f"they are not on this machine and could not be fetched ({why}).",
            "Connect to the network and try again; or, where there is one, run "
            f"GPT2LMHeadModel.from_pretrained({name!r}).save_pretrained('FOLDER'), bring the "
            "folder here and give its path instead of the name.") from problem
    config = theirs.config
    for field, wanted in _REQUIRED.items():
        if getattr(config, field, wanted) != wanted:
            raise InputError("init", name, f"a GPT-2 with {field} = {wanted!r}",
                             f"This one has {getattr(config, field)!r}: it is another model.")
    preset = MODELS[ORIGINALS[name]].name if name in ORIGINALS else Path(name).name
    shape = Shape(preset, layers=config.n_layer, width=config.n_embd, heads=config.n_head,
                  context=config.n_positions, vocab=config.vocab_size)
    return shape, theirs.state_dict()


@torch.no_grad()
def load_transformers(model: GPT, state: Mapping[str, Tensor]) -> None:
    """Copy the weights of a `transformers` GPT2LMHeadModel's `state_dict` into `model`.

    Its linear layers are `Conv1D`, which store [inputs, outputs]: those are transposed. A
    padded vocabulary keeps its rows of zeros. A missing tensor, a wrong shape or a head that
    is not the token embedding raises `InputError` before anything is changed.
    """
    table, head = _tensor(state, "wte.weight"), state.get("lm_head.weight")
    if head is not None and not (head.shape == table.shape and torch.equal(head, table)):
        raise InputError("lm_head.weight", tuple(head.shape), "the token embedding itself",
                         "The output head of GPT-2 is tied to it; these weights have another.")
    pairs: list[tuple[Tensor, Tensor]] = []
    for name, target in model.state_dict().items():
        theirs = _transformers_name(name)
        source = _tensor(state, theirs)
        if target.dim() == 2 and "embedding" not in name:
            source = source.T
        if name == "token_embedding.weight":
            target = target[:model.shape.vocab]
        if source.shape != target.shape:
            raise InputError(theirs, tuple(source.shape), f"of shape {tuple(target.shape)}",
                             "The two models must have the same sizes.")
        pairs.append((target, source))
    for target, source in pairs:
        target.copy_(source)


def _tensor(state: Mapping[str, Tensor], name: str) -> Tensor:
    found = state.get(name, state.get("transformer." + name))
    if found is None:
        raise InputError("state", name, "a tensor of the given state",
                         "Give the state_dict() of a GPT2LMHeadModel or GPT2Model.")
    return found


def _transformers_name(name: str) -> str:
    parts = (("token_embedding", "wte"), ("position_embedding", "wpe"), ("blocks", "h"),
             ("norm_1", "ln_1"), ("norm_2", "ln_2"), ("attention.qkv", "attn.c_attn"),
             ("attention.projection", "attn.c_proj"), ("feed_forward.expand", "mlp.c_fc"),
             ("feed_forward.contract", "mlp.c_proj"))
    for ours, theirs in parts:
        name = name.replace(ours, theirs)
    return "ln_f" + name[len("norm"):] if name.startswith("norm.") else name
