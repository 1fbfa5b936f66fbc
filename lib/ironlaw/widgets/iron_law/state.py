"""What the iron-law widget knows, what follows from it, and how to say that in words.

Pure functions over `ironlaw.predict`: no drawing, no controls. Taught in chapter 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from ... import hardware, transformer, workspace
from ...errors import UnavailableError, choice, count, fraction, number, positive
from ...predict import cost, flops, iron_law
from ...units import DAY, KWH, dollars, duration, si, significant

THIS_DEVICE = "this device"
TRAINING_DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8")

# What Chowdhery et al. (2022) report for PaLM: an MFU, so it counts only the model's own
# operations, as eta_hw does. The 44-52 % of Narayanan et al. (2021) count recomputed ones.
BEST_UTILISATION = 0.462
BEST_UTILISATION_SOURCE = (
    "the MFU that Chowdhery et al. (2022) report for PaLM on 6,144 chips. (The 52 % of "
    "Narayanan et al. 2021 count recomputed work too; in model FLOP they are "
    f"{flops.mfu_from_hfu(0.52):.0%}.) That is a yardstick, not a law: a run above it has no "
    "room left by this measure, and the floor is η = 1"
)

# The document's own figures for a grid and a machine room (table 19).
DOCUMENT_PUE = 1.12
DOCUMENT_KG_PER_KWH = 0.43

MOST_ACCELERATORS = 65_536
LEVER_NAMES = {"O": "O (fewer operations)", "R_peak": "R_peak (faster silicon)",
               "eta_hw": "η (better-fed silicon)"}


@dataclass(frozen=True)
class Device:
    """One accelerator as the widget offers it; None where nothing is known.

    `peaks` are dense FLOP/s by dtype, `price` USD per accelerator-hour, `watts` W;
    the `_note`s say where a figure comes from, or why there is none.
    """

    name: str
    peaks: dict[str, float]
    price: float | None
    watts: float | None
    price_note: str = ""
    watts_note: str = ""
    peak_note: str = ""

    @property
    def usual_dtype(self) -> str:
        """The dtype that training would use here: BF16, else FP16, else the first known."""
        for dtype in ("bf16", "fp16"):
            if dtype in self.peaks:
                return dtype
        return next(iter(self.peaks))

    def peak(self, dtype: str) -> float:
        """Peak FLOP/s in `dtype`, or `InputError` naming the known ones."""
        return self.peaks[choice("dtype", dtype, self.peaks)]


def device_names() -> list[str]:
    """The catalogue from the slowest to the fastest training peak, then this device."""
    def fastest(name: str) -> float:
        entry = hardware.accelerator(name)
        return entry.peak(entry.training_dtype)

    return [*sorted(hardware.names(), key=fastest), THIS_DEVICE]


def device(name: str) -> Device:
    """The catalogue's entry, or the calibrated profile for "this device".

    Raises UnavailableError when this device has not been calibrated yet.
    """
    if name == THIS_DEVICE:
        return _this_device()
    entry = hardware.accelerator(name)
    peaks = {d: entry.peak(d) for d in TRAINING_DTYPES if d in entry.dtypes}
    return Device(
        name=entry.name, peaks=peaks, price=entry.price.value, watts=entry.power.value,
        price_note=origin(entry.price), watts_note=origin(entry.power),
        peak_note="dense peak of the data sheet",
    )


def _this_device() -> Device:
    profile = workspace.profile()
    if profile is None or not profile.matmul:
        raise UnavailableError(
            "The profile of this device",
            "its peak is measured, not looked up, and that has not been done yet.",
            "Run `ironlaw calibrate` in a terminal (or `!ironlaw calibrate` in a cell), then "
            "choose this device again.",
        )
    known = [d for d in TRAINING_DTYPES if d in profile.matmul] or list(profile.matmul)
    return Device(
        name=profile.name, peaks={d: profile.peak(d).flops_per_second for d in known},
        price=None, watts=None, price_note="a device of your own has no listed price",
        watts_note="calibration does not measure power",
        peak_note="best matrix product measured by `ironlaw calibrate`",
    )


def origin(figure: hardware.Figure) -> str:
    """Where a catalogue figure comes from, or why there is none; reads on after "Price: "."""
    if figure.value is None:
        return f"not in the catalogue. {figure.reason.rstrip('.')}"
    source = figure.source.rstrip(".")
    if source.startswith("The "):
        source = "the " + source.removeprefix("The ")
    if not figure.note:
        return f"from {source}"
    if source.endswith(")"):
        return f"from {source[:-1]}; {figure.note.rstrip('.')})"
    return f"from {source} ({figure.note.rstrip('.')})"


@cache
def fastest_training_peak() -> tuple[float, str]:
    """The highest dense BF16 or FP16 peak of the catalogue in FLOP/s, and whose it is."""
    peaks = []
    for name in hardware.names():
        entry = hardware.accelerator(name)
        peaks.append((entry.peak(entry.training_dtype), name))
    return max(peaks)


@dataclass(frozen=True, kw_only=True)
class State:
    """Everything that the learner sets. FLOP, FLOP/s, seconds, USD per hour, watts.

    `workload` and `device` are names for the words only. `spare` is the share of the
    operations that the learner could do without; `price`, `watts` and `kg_per_kwh`
    may be None: then cost, energy or carbon is None too.
    """

    workload: str
    operations: float
    device: str
    dtype: str
    peak: float
    utilisation: float = 0.40
    accelerators: int = 8
    deadline: float = 3 * DAY
    price: float | None = None
    watts: float | None = None
    pue: float = DOCUMENT_PUE
    kg_per_kwh: float | None = DOCUMENT_KG_PER_KWH
    spare: float = 0.0

    def __post_init__(self) -> None:
        positive("operations", self.operations, unit="FLOP")
        positive("peak", self.peak, unit="FLOP/s")
        fraction("utilisation", self.utilisation)
        count("accelerators", self.accelerators)
        positive("deadline", self.deadline, unit="s")
        number("spare", self.spare, low=0.0, high=0.95)
        number("pue", self.pue, low=1.0, high=10.0,
               next_step="1.0 is a building that spends nothing on cooling.")
        for name in ("price", "watts", "kg_per_kwh"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), low=0.0)


def preset(
    workload: str = "GPT-2 XL", accelerator: str = "H100 SXM", dtype: str | None = None,
    **changes: float | int | None,
) -> State:
    """A state from a known workload and a catalogue entry, with `changes` to other fields.

    O = 6 P D of the workload; price and power are the catalogue's.
    """
    run = transformer.workload(workload)
    chip = device(accelerator)
    chosen = dtype or chip.usual_dtype
    values: dict[str, float | int | None] = {"price": chip.price, "watts": chip.watts, **changes}
    return State(
        workload=run.name, operations=iron_law.training_flops(run.parameters, run.tokens),
        device=chip.name, dtype=chosen, peak=chip.peak(chosen),
        **values,  # type: ignore[arg-type]  # checked by State itself
    )


@dataclass(frozen=True)
class Outcome:
    """What follows from a state. Seconds, USD, joules, kg CO2; None where unknown.

    `floor` is the time at eta = 1. `levers` come strongest first; `strongest` are the
    terms that share the first place (all three when none has headroom).
    """

    seconds: float
    floor: float
    needed: int
    seconds_if_needed: float
    accelerator_hours: float
    cost: float | None
    joules: float | None
    carbon_kg: float | None
    levers: tuple[iron_law.Lever, ...]
    strongest: tuple[str, ...]
    best_peak_name: str
    in_time: bool

    def speedup(self, term: str) -> float:
        """Old time over new when only `term` ("O", "R_peak", "eta_hw") goes to its limit."""
        return next(lever.speedup for lever in self.levers if lever.term == term)


def compute(state: State) -> Outcome:
    """Apply the iron law, the cost model and the three levers to `state`."""
    seconds = iron_law.training_seconds(
        state.operations, state.peak, state.utilisation, state.accelerators)
    needed = iron_law.accelerators_for_deadline(
        state.operations, state.peak, state.utilisation, state.deadline)
    best_peak, best_name = fastest_training_peak()
    levers = iron_law.levers(
        state.operations, state.peak, state.utilisation,
        least_operations=state.operations * (1 - state.spare),
        best_peak_flops_per_second=best_peak, best_utilisation=BEST_UTILISATION)
    joules = None
    if state.watts is not None and state.watts > 0:
        joules = cost.energy_joules(state.accelerators, state.watts, seconds, pue=state.pue)
    carbon = None
    if joules is not None and state.kg_per_kwh is not None:
        carbon = cost.carbon_kg(joules, state.kg_per_kwh)
    return Outcome(
        seconds=seconds,
        floor=iron_law.training_seconds(state.operations, state.peak, 1.0, state.accelerators),
        needed=needed,
        seconds_if_needed=iron_law.training_seconds(
            state.operations, state.peak, state.utilisation, needed),
        accelerator_hours=cost.accelerator_hours(state.accelerators, seconds),
        cost=None if state.price is None
        else cost.rent(state.accelerators, seconds, state.price),
        joules=joules, carbon_kg=carbon, levers=tuple(levers),
        strongest=tuple(lever.term for lever in levers
                        if lever.speedup >= levers[0].speedup * (1 - 1e-9)),
        best_peak_name=best_name, in_time=state.accelerators >= needed,
    )


def flop(operations: float) -> str:
    """Operations as the document writes them: ``flop(1.5e21) == "1.50 × 10²¹ FLOP"``."""
    mantissa, exponent = f"{operations:.2e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa} × 10{raised} FLOP"


def plain_duration(seconds: float) -> str:
    """A duration that somebody typed: "3 days" rather than "3.00 days"."""
    return re.sub(r"\.?0+ ", " ", text) if "." in (text := duration(seconds)) else text


def mass(kilograms: float) -> str:
    """Kilograms, or tonnes from a thousand up."""
    if kilograms >= 1000:
        return f"{significant(kilograms / 1000)} t"
    return f"{significant(kilograms)} kg"


def energy(joules: float) -> str:
    """Joules as watt-hours with a prefix (kWh, MWh, GWh)."""
    return si(joules / KWH * 1000, "Wh")


def eta(utilisation: float) -> str:
    """A utilisation with two decimals, or with more if more were typed."""
    text = f"{utilisation:.2f}"
    return text if float(text) == utilisation else f"{utilisation:.6g}"


def describe(state: State, outcome: Outcome) -> str:
    """The whole outcome in a few plain sentences: what a screen reader announces."""
    chips = f"{state.accelerators:,} × {state.device}"
    words = [f"{state.workload} on {chips} in {state.dtype.upper()} at η = "
             f"{eta(state.utilisation)} takes {duration(outcome.seconds)}."]
    due = plain_duration(state.deadline)
    if outcome.in_time:
        words.append(f"That meets the deadline of {due}; {outcome.needed:,} would be enough."
                     if outcome.needed < state.accelerators
                     else f"That meets the deadline of {due}, with none to spare.")
    else:
        words.append(f"That misses the deadline of {due}: it needs {outcome.needed:,}.")
    words.append("The cost is not known: type a price." if outcome.cost is None
                 else f"It costs {dollars(outcome.cost)}.")
    if outcome.joules is None:
        words.append("Energy and carbon are not known: type a power.")
    elif outcome.carbon_kg is None:
        words.append(f"It uses {energy(outcome.joules)}; carbon is not known: type a grid figure.")
    else:
        words.append(f"It uses {energy(outcome.joules)} and emits {mass(outcome.carbon_kg)} "
                     "of CO2.")
    words.append(_strongest_in_words(outcome))
    return " ".join(words)


def _strongest_in_words(outcome: Outcome) -> str:
    first = outcome.levers[0]
    if first.speedup <= 1 + 1e-9:
        return "Within the stated limits no lever has room left."
    names = " and ".join(LEVER_NAMES[term] for term in outcome.strongest)
    verb = "have" if len(outcome.strongest) > 1 else "has"
    return f"{names} {verb} the most room: up to {significant(first.speedup)} times as fast."

