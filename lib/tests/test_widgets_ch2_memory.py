"""The Adam-memory widget: the document's budgets, PyTorch's peaks, what fits and what helps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ironlaw import document, workspace
from ironlaw.config import RunConfig
from ironlaw.errors import InputError
from ironlaw.predict import activations, flops, optimizers
from ironlaw.predict.peak import step_memory
from ironlaw.results import DeviceProfile
from ironlaw.transformer import MODELS, Shape, model
from ironlaw.units import GB, gigabytes
from ironlaw.widgets import adam_memory, devices
from ironlaw.widgets.adam_memory import accounting as bytes_of
from ironlaw.widgets.adam_memory import shell, state
from ironlaw.widgets.adam_memory.accounting import DOCUMENT_MODELS, OWN, PARTS, Step, account

# --- the document's budgets ---------------------------------------------------------------

@pytest.mark.parametrize(("preset", "part", "figure"), [
    ("GPT-2 XL, FP32", "standing", "nap12.static"),
    ("GPT-2 XL, batch 4", "peak", "nap13.peak"),
    ("GPT-2 XL, selective", "peak", "nap13.selpeak"),
    ("7B, one sequence", "standing", "def11.total"),
    ("7B, one sequence", "activations", "nap14.act"),
])
def test_presets_are_the_documents_figures(preset: str, part: str, figure: str) -> None:
    outcome = adam_memory.compute(state.preset(preset))
    found = outcome.standing if part == "standing" else getattr(outcome.now, part)
    assert found / GB == pytest.approx(document.value(figure), rel=1e-12)
    assert gigabytes(found) in adam_memory.describe(state.preset(preset), outcome) or \
        part == "activations"


def test_every_preset_is_one_click_away() -> None:
    panel = adam_memory.panel()
    for button, name in zip(panel.presets, state.PRESETS, strict=True):
        button.click()
        assert panel.read() == state.preset(name)
        assert gigabytes(account(panel.read().step).peak) in panel.words.value


def test_fp32_activations_keep_one_byte_masks() -> None:
    step = state.preset("GPT-2 XL, FP32", batch=4).step
    assert account(step).activations / GB == pytest.approx(document.value("audit.n13.fp32"))


def test_flash_in_the_documents_recipe_saves_what_selective_does() -> None:
    step = state.preset("GPT-2 XL, batch 4").step
    assert account(replace(step, attention="flash")).peak == account(
        replace(step, recompute="selective")).peak


def test_20b_is_known_by_its_parameters_alone() -> None:
    now = state.state_on("H100 SXM", model="20B", precision="document")
    outcome = adam_memory.compute(now)
    assert outcome.standing == 320e9
    assert outcome.largest is None
    assert all(fix.step is None for fix in outcome.fixes)
    assert "not counted" in adam_memory.describe(now, outcome)


# --- PyTorch's peaks ----------------------------------------------------------------------

@pytest.mark.parametrize("precision", ["fp32", "amp-bf16", "amp-fp16", "pure-bf16", "document"])
@pytest.mark.parametrize("name", MODELS)
def test_models_are_accounted_by_predict(name: str, precision: str) -> None:
    terms = {"batch": 2, "seq": 128, "precision": precision, "optimizer": "adafactor",
             "attention": "materialised", "recompute": "sqrt", "accumulate": 3}
    found = account(Step(model=name, **terms))
    assert found.peak == step_memory(RunConfig(model=name, **terms)).peak
    assert sum(getattr(found, part) for part in PARTS) == pytest.approx(found.peak)


@pytest.mark.parametrize("optimizer", shell.OPTIMIZERS)
def test_standing_state_is_weights_gradients_and_moments(optimizer: str) -> None:
    shape = model("gpt2-124m")
    step = Step(optimizer=optimizer, precision="amp-bf16")
    assert bytes_of.standing_bytes(step) == 8.0 * shape.parameters + optimizers.state_bytes(
        shape, optimizer)
    document_step = replace(step, precision="document")
    assert bytes_of.standing_bytes(document_step) == 8.0 * shape.parameters + \
        optimizers.state_bytes(shape, optimizer)


def test_a_shape_of_ones_own_may_have_a_longer_context() -> None:
    own = Shape(OWN, layers=2, width=64, heads=4, context=8192, vocab=1000)
    step = Step(model=OWN, shape=own, seq=8192, batch=1)
    small = Step(model=OWN, shape=replace(own, context=4096), seq=4096, batch=1)
    assert bytes_of.parameters_of(step) == own.parameters
    assert account(step).activations > 1.9 * account(small).activations
    with pytest.raises(InputError, match="seq"):
        Step(model=OWN, shape=replace(own, context=4096), seq=8192)


def test_what_cannot_be_counted_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="'document' or 'fp32' for 7B"):
        Step(model="7B", precision="amp-bf16")
    with pytest.raises(InputError, match="matrices"):
        Step(model="1.5B", precision="document", optimizer="galore")
    with pytest.raises(InputError, match="seq"):
        account(Step(model="7B", precision="document", seq=4096))
    with pytest.raises(InputError, match="shape"):
        Step(model=OWN)


# --- what fits, and what helps ------------------------------------------------------------

CASES = [
    ("T4", {"model": "gpt2-124m", "precision": "amp-fp16"}),
    ("V100 32GB SXM", {"model": "gpt2-350m", "precision": "fp32", "attention": "materialised"}),
    ("A100 80GB SXM", {"model": "gpt2-1558m", "precision": "pure-bf16"}),
    ("A100 80GB SXM", {"model": "1.5B", "precision": "document", "attention": "materialised"}),
    ("V100 32GB SXM", {"model": "1.5B", "precision": "document", "recompute": "every-block"}),
]


@pytest.mark.parametrize(("device", "terms"), CASES)
def test_the_largest_batch_fits_and_the_next_does_not(device: str, terms: dict[str, str]) -> None:
    now = state.state_on(device, **terms)
    largest = state.largest_batch(now)
    assert largest
    assert account(replace(now.step, batch=largest)).peak <= now.capacity
    assert account(replace(now.step, batch=largest + 1)).peak > now.capacity


def test_largest_batch_on_a_t4() -> None:
    config = RunConfig(model="gpt2-124m", precision="amp-fp16")
    largest = adam_memory.largest_batch_on_t4()
    assert step_memory(config.replace(batch=largest)).peak <= 16e9 < step_memory(
        config.replace(batch=largest + 1)).peak


def test_xl_recomputed_does_not_fit_a_t4_and_the_state_is_why() -> None:
    now = state.state_on("T4", model="gpt2-1558m", batch=1, recompute="every-block")
    outcome = adam_memory.compute(now)
    assert outcome.first_over == "optimizer"
    assert outcome.largest == 0
    words = adam_memory.describe(now, outcome)
    assert "the first thing that no longer fits is the optimizer state" in words
    assert "Not even one sequence fits" in words


def test_logits_are_the_longest_bar_of_the_small_model() -> None:
    assert adam_memory.compute(state.state_on("T4")).longest == "logits"


def test_logits_that_are_gone_by_the_fullest_moment_are_zero_not_uncounted() -> None:
    """Counted, yet none is alive while the optimizer steps; the document's models count none."""
    panel = adam_memory.panel(model="gpt2-1558m", batch=1, recompute="every-block")
    assert account(panel.read().step).logits == 0
    assert "optimizer" in account(panel.read().step).moment
    assert "0 B at this moment" in panel.picture.value
    panel.model.value = "1.5B"
    assert "0 B at this moment" not in panel.picture.value
    assert "not counted" in panel.picture.value


def test_first_over_is_where_the_stack_passes_the_device() -> None:
    found = account(Step())
    total = 0.0
    for part in PARTS:
        size = getattr(found, part)
        if size:
            assert state.first_over(found, total + size / 2) == part
        total += size
    assert state.first_over(found, found.peak * (1 + 1e-9)) is None


@pytest.mark.parametrize(("device", "terms"), CASES)
def test_fixes_do_what_they_say(device: str, terms: dict[str, str]) -> None:
    now = state.state_on(device, batch=6, **terms)
    outcome = adam_memory.compute(now)
    for fix in outcome.fixes:
        if fix.step is None:
            assert fix.cost
            continue
        assert fix.memory == account(fix.step)
        assert fix.saves == pytest.approx(outcome.now.peak - fix.memory.peak)
        tokens = [s.batch * s.accumulate for s in (now.step, fix.step)]
        assert tokens[0] == tokens[1], "a fix changes how the step is run, not its data"
        assert fix.extra_flops == pytest.approx(
            bytes_of.extra_flops(fix.step) - bytes_of.extra_flops(now.step))


def test_recomputation_costs_what_flops_say() -> None:
    now = state.state_on("T4", batch=4)
    fix = next(f for f in adam_memory.compute(now).fixes if f.name == "recompute")
    shape = model("gpt2-124m")
    assert fix.extra_flops == pytest.approx(
        flops.recomputed_per_step(shape, 4, 1024, "every-block", "flash")
        / flops.per_step(shape, 4, 1024))
    assert "18 % more FLOP" in fix.cost


def test_precision_fix_knows_what_the_device_can() -> None:
    def fix(device: str, precision: str) -> state.Fix:
        outcome = adam_memory.compute(state.state_on(device, precision=precision))
        return outcome.fixes[3]

    assert fix("T4", "fp32").step.precision == "amp-fp16"
    assert fix("A100 80GB SXM", "fp32").step.precision == "amp-bf16"
    assert fix("T4", "amp-fp16").step is None
    assert fix("H100 SXM", "amp-bf16").step.precision == "pure-bf16"
    words = adam_memory.panel(precision="amp-bf16").words.value
    assert "T4 has no BF16" in words


# --- the panel ----------------------------------------------------------------------------

def test_readout_follows_every_control() -> None:
    panel = adam_memory.panel()
    changes = [(panel.batch, 3), (panel.seq, 512), (panel.precision, "fp32"),
               (panel.optimizer, "adam-8bit"), (panel.attention, "materialised"),
               (panel.recompute, "every-block"), (panel.accumulate, 2), (panel.model, "nano")]
    for control, value in changes:
        control.value = value
    config = RunConfig(model="nano", batch=3, seq=256, precision="fp32", optimizer="adam-8bit",
                       attention="materialised", recompute="every-block", accumulate=2)
    assert panel.read().step.config() == config, "nano's context bounds the sequence"
    assert gigabytes(step_memory(config).peak) in panel.words.value


def test_a_fix_is_applied_by_its_button() -> None:
    panel = adam_memory.panel("GPT-2 XL, batch 4")
    panel.fixes["flash"].click()
    assert panel.attention.value == "flash"
    assert gigabytes(document.value("nap13.selpeak") * GB) in panel.words.value
    assert panel.fixes["flash"].disabled
    panel.fixes["accumulate"].click()
    assert (panel.batch.value, panel.accumulate.value) == (2, 2)
    assert "fits V100" in panel.words.value
    assert panel.fixes["precision"].disabled


def test_the_table_prices_every_fix() -> None:
    panel = adam_memory.panel("GPT-2 XL, batch 4")
    act = activations.document_bytes(48, 4, 1024, 1600, 25)
    assert gigabytes(act / 2) in panel.table.value, "half the batch, half the activations"
    assert "23 % more FLOP" in panel.table.value
    assert "mixed already" in panel.table.value


def test_own_shape_is_typed_and_slips_are_told() -> None:
    panel = adam_memory.panel()
    assert panel.own.layout.display == "none"
    panel.model.value = OWN
    assert panel.own.layout.display is None
    panel.shape["layers"].value = "6"
    assert "own shape" in panel.words.value
    before = panel.picture.value
    panel.shape["heads"].value = "7"
    assert "divisor of width" in panel.words.value
    panel.shape["heads"].value = "many"
    assert "Heads" in panel.words.value
    assert panel.picture.value == before
    panel.shape["heads"].value = "12"
    assert panel.picture.value == before
    assert "own shape, adamw" in panel.words.value


@pytest.mark.parametrize("name", [*MODELS, *DOCUMENT_MODELS])
def test_every_model_is_drawn_on_every_end_of_the_catalogue(name: str) -> None:
    panel = adam_memory.panel()
    panel.model.value = name
    for device in (devices.memory_names()[0], devices.memory_names()[-2]):
        panel.device.value = device
        assert f"{device} (" in panel.words.value


def test_this_device_needs_a_profile() -> None:
    panel = adam_memory.panel()
    panel.device.value = devices.THIS_DEVICE
    assert "ironlaw calibrate" in panel.words.value
    workspace.save_profile(DeviceProfile(
        name="a laptop", device_type="cpu", threads=2, memory_bytes=8e9, matmul={},
        copy_bytes_per_second=None, launch_seconds=None, host_to_device_bytes_per_second=None,
        catalogue_name=None, versions={}, measured_on="2025-01-01T00:00:00+00:00"))
    panel.batch.value = 1
    assert "this device (8.00 GB)" in panel.words.value


def test_moving_the_batch_keeps_the_background() -> None:
    panel = adam_memory.panel()
    drawn = panel.canvas.full_draws
    for batch in (4, 6, 10, 12):
        panel.batch.value = batch
    assert panel.canvas.full_draws == drawn


def test_batch_end_is_round_and_enough() -> None:
    for batch in range(1, 400):
        end = state.batch_end(batch)
        assert batch <= end <= max(4, 2 * batch)
        assert end % 4 == 0 or end == 6
