"""The roofline widget: read-outs equal the predictors, shapes and devices behave."""

from __future__ import annotations

import pytest
from ironlaw import hardware, workspace
from ironlaw.errors import InputError, UnavailableError
from ironlaw.predict import attention
from ironlaw.predict import roofline as predict
from ironlaw.results import DeviceProfile, MatmulRate
from ironlaw.units import si, significant
from ironlaw.widgets import devices, roofline, sizes
from ironlaw.widgets.roofline import picture, state
from ironlaw.widgets.roofline.state import MATERIALISED, OPERATIONS, TILED

A100 = "A100 80GB SXM"


def profile(copy: float | None = 2e10) -> DeviceProfile:
    """A small measured device."""
    return DeviceProfile(
        name="a laptop", device_type="cpu", threads=2, memory_bytes=8e9,
        matmul={"fp32": MatmulRate(dtype="fp32", flops_per_second=1e11, size=1024,
                                   by_size={"1024": 1e11})},
        copy_bytes_per_second=copy, launch_seconds=1e-6, host_to_device_bytes_per_second=None,
        catalogue_name=None, versions={}, measured_on="2025-01-01T00:00:00+00:00")


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_points_are_predicted(name: str, dtype: str) -> None:
    now = state.preset(A100, dtype, name)
    outcome = state.compute(now)
    chip = hardware.accelerator(A100)
    size = 2.0 if dtype == "bf16" else 4.0
    kernels = {
        "GEMM": predict.gemm(4096, 4096, 4096, size), "GEMV": predict.gemv(4096, 4096, size),
        "softmax": predict.softmax(98_304, 1024, bytes_per_value=size),
        "layer norm": predict.layer_norm(8192, 768, bytes_per_value=size),
        "GELU": predict.gelu(8192 * 3072, bytes_per_value=size),
        MATERIALISED: attention.standard(1024, 64, 96, bytes_per_value=size),
        TILED: attention.tiled(1024, 64, 128, 96, bytes_per_value=size),
    }
    ceilings = chip.peak(dtype), chip.value("bandwidth")
    here = outcome.chosen
    assert here.operation == name
    assert here.intensity == kernels[name].intensity
    assert here.attainable == predict.attainable(here.intensity, *ceilings)
    assert here.bound == predict.bound(here.intensity, *ceilings)
    assert here.seconds == kernels[name].seconds(*ceilings)
    assert outcome.ridge == predict.ridge_point(*ceilings)
    words = state.describe(now, outcome)
    assert significant(here.intensity) in words
    assert si(here.attainable, "FLOP/s") in words
    assert f"{here.bound}-bound" in words


def test_a_narrower_format_moves_the_ridge_right() -> None:
    ridges = [state.compute(state.preset(A100, d)).ridge for d in ("fp32", "tf32", "bf16")]
    assert ridges == sorted(ridges)
    assert len(set(ridges)) == 3


def test_materialised_attention_changes_sides_with_the_format() -> None:
    for dtype, bound in (("bf16", "memory"), ("fp32", "compute")):
        outcome = state.compute(state.preset(A100, dtype))
        assert outcome.points[MATERIALISED].bound == bound


def test_panel_offers_each_operations_own_sizes() -> None:
    panel = roofline.panel(A100)
    for name, operation in OPERATIONS.items():
        panel.operation.value = name
        used = [s for s in panel.sizes if s.layout.display != "none"]
        assert [s.description.lower() for s in used] == [
            label.lower() for label, _ in operation.sizes]
        assert panel.read().sizes[name] == tuple(v for _, v in operation.sizes)


def test_one_token_makes_a_gemm_wait_for_memory() -> None:
    panel = roofline.panel(A100)
    assert "compute-bound" in panel.words.value
    before = panel.picture.value
    panel.sizes[0].value = 1
    expected = predict.gemm(1, 4096, 4096)
    assert "memory-bound" in panel.words.value
    assert significant(expected.intensity) in panel.words.value
    assert panel.picture.value != before


def test_sizes_stay_when_another_operation_was_looked_at() -> None:
    panel = roofline.panel(A100)
    panel.sizes[0].value = 64
    panel.operation.value = "GELU"
    panel.operation.value = "GEMM"
    assert panel.read().sizes["GEMM"] == (64, 4096, 4096)


def test_both_attentions_share_their_shape() -> None:
    panel = roofline.panel(A100, operation=MATERIALISED)
    panel.sizes[0].value = 4096
    panel.operation.value = TILED
    assert panel.read().sizes[TILED] == (4096, 64, 96, 128)
    panel.sizes[3].value = 256
    panel.sizes[1].value = 128
    assert panel.read().sizes[MATERIALISED] == (4096, 128, 96)
    outcome = state.compute(panel.read())
    assert f"{significant(outcome.tiling_gain)} times as fast" in panel.words.value


def test_kept_points_stay_and_can_be_cleared() -> None:
    panel = roofline.panel(A100)
    for rows in (1, 2, 4, 8, 16, 32, 64):
        panel.sizes[0].value = rows
        panel.keep.click()
    kept = [sizes[0] for _, sizes in panel.read().kept]
    assert kept == [2, 4, 8, 16, 32, 64], "the oldest goes when the picture is full"
    panel.keep.click()
    assert len(panel.read().kept) == 6, "the same point is kept once"
    assert "kept: GEMM 64×4096×4096 at 62.1" in panel.picture.value
    panel.clear.click()
    assert panel.read().kept == ()


def test_a_device_keeps_the_format_where_it_has_it() -> None:
    panel = roofline.panel(A100, "tf32")
    panel.device.value = "H100 SXM"
    assert panel.dtype.value == "tf32"
    panel.device.value = "T4"
    assert panel.dtype.value == "fp16"
    assert "T4 in FP16" in panel.words.value


def test_this_device_says_how_to_be_measured() -> None:
    panel = roofline.panel(A100)
    before = panel.picture.value
    panel.device.value = devices.THIS_DEVICE
    assert "ironlaw calibrate" in panel.words.value
    assert panel.picture.value == before
    workspace.save_profile(profile())
    panel.device.value = A100
    panel.device.value = devices.THIS_DEVICE
    assert "a laptop in FP32 the ridge is at 5.00" in panel.words.value


def test_a_profile_without_bandwidth_is_refused_in_words() -> None:
    workspace.save_profile(profile(copy=None))
    with pytest.raises(UnavailableError, match="bandwidth"):
        devices.machine(devices.THIS_DEVICE)


def test_lab_points_appear_and_what_is_no_point_is_passed_over() -> None:
    workspace.put("labs", "lab_03", [
        {"name": "GELU here", "intensity": 1.1, "flops_per_second": 2e10}, {"name": "half"},
        "noise", {"name": "negative", "intensity": -1, "flops_per_second": 1.0}])
    panel = roofline.panel(A100)
    assert [m.name for m in panel.read().measured] == ["GELU here"]
    assert "GELU here" in panel.picture.value
    assert "lab 3" in panel.words.value
    low, high = panel.canvas.artists["axes"].get_ylim()
    assert low < 2e10 < high
    workspace.put("labs", "lab_03", [{"name": "a slow copy", "intensity": 0.1,
                                      "flops_per_second": 1e6}])
    slow = roofline.panel(A100)
    assert slow.canvas.artists["axes"].get_ylim()[0] < 1e6, "a slow device is drawn too"
    workspace.put("labs", "lab_03", {"not": "a list"})
    assert state.measured_points() == ()


def test_labels_never_lie_on_each_other() -> None:
    """Also where points crowd: every operation at intensities within a factor of two."""
    for dtype in ("bf16", "fp32"):
        taken: list[tuple[float, float, float]] = []
        outcome = state.compute(state.preset(A100, dtype))
        for point in outcome.points.values():
            picture._free_place(point.operation, picture._across(point.intensity), 0.5, False,
                                taken)
        for i, (left, right, height) in enumerate(taken):
            for other_left, other_right, other in taken[i + 1:]:
                apart = abs(height - other) >= 0.9 * picture._LINE
                assert apart or right <= other_left or other_right <= left


def test_every_catalogue_entry_has_a_roof() -> None:
    canvas = picture.make()
    for name in devices.machine_names()[:-1]:
        now = state.preset(name)
        picture.update(canvas, now, state.compute(now))
        low, high = canvas.artists["axes"].get_ylim()
        assert low < picture.LEFT * now.machine.bandwidth
        assert now.peak < high


def test_moving_a_size_keeps_the_background() -> None:
    panel = roofline.panel(A100)
    drawn = panel.canvas.full_draws
    for value in (1, 768, 8192):
        panel.sizes[1].value = value
    assert panel.canvas.full_draws == drawn
    panel.operation.value = "softmax"
    assert panel.canvas.full_draws == drawn + 1


def test_states_refuse_what_they_cannot_show() -> None:
    with pytest.raises(InputError, match="bf16"):
        state.preset("T4", "bf16")
    with pytest.raises(InputError, match="operation"):
        state.preset(A100, operation="FFT")
    with pytest.raises(InputError, match="GEMV, rows"):
        state.preset(A100, sizes={**state.first_sizes(), "GEMV": (0, 5)})


def test_memory_of_devices() -> None:
    assert devices.memory_bytes("T4") == 16e9
    with pytest.raises(UnavailableError, match="calibrate"):
        devices.memory_bytes(devices.THIS_DEVICE)
    workspace.save_profile(profile())
    assert devices.memory_bytes(devices.THIS_DEVICE) == 8e9
    sizes = [devices.memory_bytes(name) for name in devices.memory_names()[:-1]]
    assert sizes == sorted(sizes)


def test_sizes_are_offered_as_they_are() -> None:
    """GPT-2's widths are no powers of two; a slider that rounds them would lie."""
    offered = {size for _, size in sizes.size_slider(
        "", "key", sizes.around_powers(1, state.LARGEST), 1).options}
    for operation in OPERATIONS.values():
        assert {value for _, value in operation.sizes} <= offered
    slider = sizes.size_slider("", "key", [1, 2], 7)
    assert [size for _, size in slider.options] == [1, 2, 7]
    sizes.put(slider, 5)
    assert slider.value == 5
    assert [label for label, _ in slider.options] == ["1", "2", "5", "7"]
