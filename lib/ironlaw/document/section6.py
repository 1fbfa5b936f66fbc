"""Section 6: communication, hard limits, energy and carbon."""

from __future__ import annotations

from ..predict import cost, iron_law, memory, scaling
from ..units import DAY, GB, GIGA, HOUR, KWH, YEAR
from .common import B7, B15, B70, GPT2_XL, PERCENT, weights
from .rows import From, Row, by_id

_TONNE = 1e3  # kg
_RUN = {"operations": From("nap111.O"), "flops_per_second": 156e12, "accelerators": 1024}
_FLEET = {"accelerators": 1024, "watts": 400.0, "seconds": From("nap111.hours"), "hosts": 128,
          "host_watts": 200.0}

ROWS = by_id(
    Row("70b.w", memory.parameter_bytes, weights(B70, 2), GB),
    # Napkin math 1.10
    Row("nap110.grad", memory.parameter_bytes, weights(B7, 2), GB),
    Row("nap110.factor", scaling.ring_factor, {"workers": 8}),
    Row("nap110.vol", scaling.ring_bytes, {"tensor_bytes": From("nap110.grad"), "workers": 8},
        GB),
    Row("nap110.bw", scaling.link_bytes_per_second,
        {"bits_per_second": 100e9, "bits_per_byte": 8.0}, GIGA),
    Row("nap110.t", scaling.ring_all_reduce_seconds,
        {"tensor_bytes": From("nap110.grad"), "workers": 8,
         "bytes_per_second": From("nap110.bw")}),
    Row("nap110.eta", scaling.efficiency,
        {"compute_seconds": 1.0, "communication_seconds": From("nap110.t")}, PERCENT),
    # Hard limits and Napkin math 1.11
    Row("phys.32y", iron_law.seconds_at_rate,
        {"operations": 1e24, "flops_per_second": 1e15}, YEAR),
    Row("nap111.O", iron_law.training_flops, {"parameters": B7, "tokens": 1e12}),
    Row("nap111.days", iron_law.seconds_at_rate, {**_RUN}, DAY),
    Row("nap111.hours", iron_law.seconds_at_rate, {**_RUN}, HOUR),
    Row("nap111.E", cost.energy_joules, {**_FLEET}, KWH),
    Row("nap111.half", cost.energy_saved_by_utilisation,
        {"joules": From("nap111.E"), "factor": 2.0}, KWH),
    Row("nap111.co2", cost.carbon_kg,
        {"joules": From("nap111.half"), "kg_per_kwh": 0.43}, _TONNE),
    Row("nap111.home", cost.household_months,
        {"joules": From("nap111.E"), "kwh_per_month": 900.0}),
    # Self-check 6.1, option B
    Row("sc6.layers", scaling.layers_per_stage, {"layers": 48, "stages": 8}),
)

AUDIT = by_id(
    Row("audit.sc61.mem", memory.decoder_total,
        {"parameters": B15, "layers": 48, "batch": 16, **GPT2_XL, "heads": 25}, GB),
    Row("audit.n111.co2", cost.carbon_kg,
        {"joules": From("nap111.E"), "kg_per_kwh": 0.43}, _TONNE),
    Row("audit.n111.pue", cost.energy_joules, {**_FLEET, "pue": 1.12}, KWH),
)
