"""A ledger of live bytes: what is held, by name and kind, and the moment when it was most."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import InputError

KINDS = ("parameters", "gradients", "optimizer", "cast_copies", "activations", "logits",
         "transient")


@dataclass
class Ledger:
    """Live bytes by name and by kind, and a picture of the moment when they were most."""

    live: dict[str, tuple[str, float]] = field(default_factory=dict)
    kinds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))
    total: float = 0.0
    peak: float = 0.0
    peak_kinds: dict[str, float] = field(default_factory=dict)
    peak_moment: str = ""
    moment: str = ""

    def hold(self, name: str, kind: str, size: float) -> None:
        """Allocate `size` bytes under a name that is not in use."""
        if name in self.live:
            raise InputError("name", name, "a name that is not held already")
        self.live[name] = (kind, size)
        self.kinds[kind] += size
        self.total += size
        if self.total > self.peak:
            self.peak, self.peak_moment = self.total, self.moment
            self.peak_kinds = self.kinds.copy()

    def free(self, *names: str) -> None:
        """Give bytes back; `KeyError` for a name that is not held, a mistake in the walk."""
        for name in names:
            kind, size = self.live.pop(name)
            self.kinds[kind] -= size
            self.total -= size

    def rename(self, old: str, new: str, kind: str | None = None) -> None:
        """The same bytes under another name, and of another kind if one is given."""
        held, size = self.live.pop(old)
        self.live[new] = (kind or held, size)
        self.kinds[held] -= size
        self.kinds[kind or held] += size
