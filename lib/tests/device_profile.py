"""A learner's device that has been measured, for tests of what then becomes possible."""

from __future__ import annotations

from ironlaw import workspace
from ironlaw.results import DeviceProfile, MatmulRate


def save_profile(rate: float = 2e11) -> None:
    """Keep a profile of a CPU with this FP32 rate in FLOP/s as the device's own."""
    workspace.save_profile(DeviceProfile(
        name="Test CPU", device_type="cpu", threads=2, memory_bytes=8e9,
        matmul={"fp32": MatmulRate(dtype="fp32", flops_per_second=rate, size=1024,
                                   by_size={"1024": rate})},
        copy_bytes_per_second=1e10, launch_seconds=None, host_to_device_bytes_per_second=None,
        catalogue_name=None, versions={}, measured_on="2020-01-01"))
