"""Who holds the memory: every allocation of a step, written down as PyTorch makes it.

PyTorch's own `MemTracker` gives the peak of a step but not all that this course asks:
it knows no logits and no 16-bit copies of weights. The ledger listens to the same
operations, notes when each piece of storage is born and freed, and sorts the pieces
afterwards, when their whole life is known. Both totals must agree (`memory`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..errors import InputError
from ._torch import torch

KINDS = ("parameters", "gradients", "optimizer", "cast_copies", "activations", "logits",
         "transient")


@dataclass(eq=False)
class Piece:
    """One storage: bytes, kind, and whether the forward pass left it behind.

    `forward` numbers the stretch of forward work that made it, None outside of one;
    `kept` turns true when that stretch ends and the piece is still there.
    """

    size: int
    kind: str | None
    forward: int | None
    kept: bool = False

    @property
    def final_kind(self) -> str:
        """The kind it had; a forward result that outlived its forward was an activation."""
        return self.kind or ("activations" if self.kept else "transient")


class Ledger(TorchDispatchMode):
    """Listens while active; `peak` reads the fullest moment afterwards.

    A step says where it is by `phase`. `rows` are the numbers of tokens whose logits are
    held in one piece, each `vocab` wide. `embedding` is the tied matrix: its gradient arrives
    in two parts, and each of them counts as a gradient on its way.
    """

    def __init__(self, rows: Iterable[int] = (), vocab: int = 0,
                 embedding: torch.Tensor | None = None) -> None:
        super().__init__()
        self._logits, self._vocab = {n * vocab for n in rows}, vocab
        self._embedding = None if embedding is None else (tuple(embedding.shape), embedding.dtype)
        self._pieces: dict[int, Piece] = {}  # by id of the storage, removed when it dies
        self._events: list[tuple[Piece, int, str]] = []
        self._stretch, self._in_forward = 0, False
        self.phase = ""

    def hold(self, tensors: Iterable[torch.Tensor], kind: str) -> None:
        """Name the kind of these tensors' storages, known already or not."""
        for tensor in tensors:
            self._piece(tensor).kind = kind

    def kind_of(self, tensor: torch.Tensor) -> str | None:
        """The kind of the tensor's storage, None for one that has no name (yet)."""
        found = self._pieces.get(id(tensor.untyped_storage()))
        return found.kind if found else None

    def live(self, kind: str) -> int:
        """Bytes of a named kind that are held now."""
        return sum(p.size for p in self._pieces.values() if p.kind == kind)

    def peak(self) -> tuple[dict[str, int], int, str]:
        """Bytes by kind at the fullest moment, their sum, and the phase it fell into."""
        total = most = 0
        place = -1
        for index, (_, change, _) in enumerate(self._events):
            total += change
            if total > most:
                most, place = total, index
        if place < 0:
            raise InputError("step", "nothing", "a step that allocates something")
        kinds = dict.fromkeys(KINDS, 0)
        for piece, change, _ in self._events[:place + 1]:
            kinds[piece.final_kind] += change
        return kinds, most, self._events[place][2]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._watch_for_forward(torch.is_grad_enabled())
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                piece = self._piece(tensor)
                if piece.kind is None:
                    piece.kind = self._kind(func, args, tensor)
        return result

    def _kind(self, func: Any, args: Any, made: torch.Tensor) -> str | None:
        shape = tuple(made.shape)
        if made.numel() in self._logits and shape[-1:] == (self._vocab,):
            return "logits"
        if (func.overloadpacket is torch.ops.aten._to_copy
                and self.kind_of(args[0]) == "parameters"):
            return "cast_copies"
        on_its_way = not self._in_forward and self.phase == "backward"
        return "gradients" if on_its_way and (shape, made.dtype) == self._embedding else None

    def _watch_for_forward(self, forward: bool) -> None:
        """Forward work runs with gradients enabled, the formulas of backward do not.

        That also tells a block that is computed a second time within the backward pass.
        """
        if forward and not self._in_forward:
            self._stretch += 1
        if self._in_forward and not forward:
            for piece in self._pieces.values():
                piece.kept = piece.kept or piece.forward == self._stretch
        self._in_forward = forward

    def _piece(self, tensor: torch.Tensor) -> Piece:
        storage = tensor.untyped_storage()
        key = id(storage)
        if key not in self._pieces:
            piece = Piece(storage.nbytes(), None,
                          self._stretch if self._in_forward else None)
            self._pieces[key] = piece
            self._events.append((piece, piece.size, self.phase))
            weakref.finalize(storage, self._freed, key).atexit = False
        return self._pieces[key]

    def _freed(self, key: int) -> None:
        piece = self._pieces.pop(key)
        self._events.append((piece, -piece.size, self.phase))
