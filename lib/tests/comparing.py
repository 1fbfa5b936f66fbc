"""Measurements made up for tests of a comparison: what they say is known beforehand."""

from __future__ import annotations

from ironlaw import compare
from ironlaw.config import RunConfig
from ironlaw.predict import flops
from ironlaw.predict.peak import step_memory
from ironlaw.results import DeviceProfile, MatmulRate, MemoryMeasurement, Peak, StepMeasurement
from ironlaw.results_instruments import Timing
from ironlaw.results_systems import StepParts

CONFIG = RunConfig(batch=8, seq=128)
PEAK = 1e12


def measurement(config: RunConfig = CONFIG, seconds: float = 0.1,
                samples: list[float] | None = None, peak: float | None = PEAK,
                spread: float = 0.0) -> StepMeasurement:
    per_token = flops.per_token(config.shape, config.sequence)
    work = per_token * config.tokens_per_step
    return StepMeasurement(
        config=config.to_json(), device="Some CPU", parameters=config.shape.parameters,
        tokens_per_step=config.tokens_per_step, flops_per_token=per_token, flops_per_step=work,
        hardware_flops_per_step=work, step_seconds=seconds, spread_seconds=spread,
        samples=samples or [seconds] * 10, tokens_per_second=config.tokens_per_step / seconds,
        peak=Peak(flops_per_second=peak, source="calibrated on Some CPU") if peak else None,
        mfu=work / seconds / peak if peak else None,
        reasons={} if peak else {"mfu": "There is no peak to divide by."})


def profile(bandwidth: float | None = 20e9) -> DeviceProfile:
    rate = MatmulRate(dtype="fp32", flops_per_second=PEAK, size=512, by_size={"512": PEAK})
    return DeviceProfile(
        name="Some CPU", device_type="cpu", threads=2, memory_bytes=None, matmul={"fp32": rate},
        copy_bytes_per_second=bandwidth, launch_seconds=2e-6,
        host_to_device_bytes_per_second=None, catalogue_name=None, versions={}, measured_on="")


def anchors(alpha: float, beta: float, config: RunConfig = CONFIG) -> tuple[StepMeasurement,
                                                                              StepMeasurement]:
    few, more = (measurement(c, alpha + beta * c.tokens_per_step)
                 for c in compare.anchor_configs(config))
    return few, more


def timing(name: str, seconds: float) -> Timing:
    return Timing(name=name, samples=[seconds], seconds=seconds, spread_seconds=0.0)


def parts_of(config: RunConfig = CONFIG, launch: float = 2e-6, update: float = 0.01,
             head: float = 0.03, busy: float | None = None) -> StepParts:
    return StepParts(
        device="Some CPU", device_type="cpu", threads=2, versions={}, measured_on="",
        config=config.to_json(), launches={"optimizer": 900, "loss head": 35, "rest": 800},
        launch=timing("launch", launch), optimizer=timing("optimizer", update),
        head=timing("head", head), busy_seconds=busy)


def memory_of(config: RunConfig = CONFIG, beyond: float = 0, **more: float) -> MemoryMeasurement:
    """As predicted, but for `more` bytes by kind, and `beyond` that no kind explains."""
    forecast = step_memory(config)
    kinds = {k: round(v + more.get(k, 0)) for k, v in forecast.to_json().items() if k != "peak"}
    peak = sum(kinds.values()) + round(beyond)
    return MemoryMeasurement(
        config=config.to_json(), backend="tracker", device="fake tensors", parameters=1,
        parameter_bytes=1, gradient_bytes=1, optimizer_bytes=1,
        memory_bytes={**kinds, "peak": peak}, moment=forecast.moment, saved_tensors=[],
        saved_bytes_per_block=None, reserved_bytes=peak if beyond else None, context_bytes=None)
