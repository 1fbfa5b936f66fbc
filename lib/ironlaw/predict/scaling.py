"""More than one accelerator: how many there are, and what they exchange."""

from __future__ import annotations

from ..errors import count


def total_chips(pods: int, chips_per_pod: int) -> int:
    """Chips of a machine built from equal pods."""
    return count("pods", pods) * count("chips_per_pod", chips_per_pod)
