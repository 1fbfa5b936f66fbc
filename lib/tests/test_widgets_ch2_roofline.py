"""The roofline widget: read-outs equal the predictors, shapes and devices behave."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ironlaw import hardware, workspace
from ironlaw.errors import InputError, UnavailableError
from ironlaw.predict import attention
from ironlaw.predict import roofline as predict
from ironlaw.results import DeviceProfile, MatmulRate
from ironlaw.units import si, significant
from ironlaw.widgets import devices, roofline, sizes
from ironlaw.widgets.canvas import Canvas
from ironlaw.widgets.roofline import picture, state
from ironlaw.widgets.roofline.state import MATERIALISED, OPERATIONS, TILED
from matplotlib.text import Text
from matplotlib.transforms import Bbox

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
        assert [s.description for s in used] == [
            label[0].upper() + label[1:] for label, _ in operation.sizes]
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


def lab_points(device: str = "a laptop") -> list[dict[str, object]]:
    """Points as lab 3 keeps them, crowded as real ones are, with the roofs above them."""
    found = [("matrix times vector", 0.5, 2.4e9), ("softmax", 0.63, 4.3e9),
             ("layer norm", 1.0, 7.5e9), ("GELU", 1.1, 3.1e9),
             ("attention, materialised", 7.1, 2.7e10), ("QKV product", 47.8, 5.3e10),
             ("feed-forward product", 50.0, 5.3e10), ("head product", 59.0, 4.8e10),
             ("attention, fused", 64.0, 1.8e10)]
    return [{"name": name, "intensity": intensity, "flops_per_second": rate, "device": device,
             "dtype": "fp32", "peak_flops_per_second": 2e11, "bytes_per_second": 5.5e10}
            for name, intensity, rate in found]


def test_after_lab_3_it_opens_under_the_roof_of_the_lab() -> None:
    """No calibration was run: the lab measured the roofs in turns with its points."""
    workspace.put("labs", "lab_03", lab_points())
    panel = roofline.panel()
    now = panel.read()
    assert (panel.device.value, panel.dtype.value) == (devices.THIS_DEVICE, "fp32")
    assert (now.machine.name, now.peak, now.machine.bandwidth) == ("a laptop", 2e11, 5.5e10)
    assert "in FP32." in panel.words.value
    for point in now.measured:
        best = predict.attainable(point.intensity, now.peak, now.machine.bandwidth)
        assert point.flops_per_second < best
    panel.device.value = A100
    assert "FP32 on a laptop: this is not the roof" in panel.words.value
    panel.own.click()
    assert panel.read() == now, "one click leads back"


def test_other_formats_of_this_device_come_from_calibration_of_the_same_one() -> None:
    measured = profile()
    measured.matmul["bf16"] = MatmulRate(dtype="bf16", flops_per_second=3e11, size=1024,
                                         by_size={"1024": 3e11})
    workspace.save_profile(measured)
    workspace.put("labs", "lab_03", lab_points())
    assert state.preset().machine.peaks == {"fp32": 2e11, "bf16": 3e11}
    workspace.put("labs", "lab_03", lab_points("another machine"))
    assert state.preset().machine.peaks == {"fp32": 2e11}
    assert state.preset(A100).machine.name == A100
    assert state.preset(dtype="bf16").machine.name == A100


def test_points_of_an_earlier_release_are_shown_without_a_roof_of_their_own() -> None:
    workspace.put("labs", "lab_03", [{"name": "GELU", "intensity": 1.1, "flops_per_second": 2e9}])
    panel = roofline.panel()
    assert panel.device.value == A100
    panel.own.click()
    assert "ironlaw calibrate" in panel.words.value


def boxes(canvas: Canvas) -> tuple[dict[str, Bbox], list[Bbox]]:
    """As drawn, in pixels: every visible text inside the axes, and every marker."""
    canvas.png()
    axes = canvas.artists["axes"]
    texts = [t for t in axes.texts if t.get_visible() and t.get_text()]
    markers = []
    for point, _, _ in canvas.artists["slots"]:
        if point.get_visible():
            (x, y), = axes.transData.transform(np.column_stack(point.get_data()))
            half = point.get_markersize() * canvas.figure.dpi / 72 / 2
            markers.append(Bbox.from_extents(x - half, y - half, x + half, y + half))
    return {f"{i} {t.get_text()}": Text.get_window_extent(t) for i, t in enumerate(texts)}, markers


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("device", "dtype"), [
    (None, None), (A100, "bf16"), (A100, "fp32"), ("T4", "fp16"), ("H100 SXM", "fp8")])
def test_labels_lie_on_nothing(operation: str, device: str | None, dtype: str | None) -> None:
    """As rendered, beside all of lab 3's points: no text on a text, a marker, or the ridge."""
    workspace.put("labs", "lab_03", lab_points())
    now = state.preset(device, dtype, operation)
    outcome = state.compute(now)
    canvas = picture.make()
    picture.update(canvas, now, outcome)
    texts, markers = boxes(canvas)
    assert len(texts) >= 7 + 9 + 3
    ridge = next(box for name, box in texts.items() if "ridge" in name)
    assert ridge.y1 < canvas.artists["axes"].transData.transform((1, now.peak))[1], "by its line"
    for (one, box), (other, second) in itertools.combinations(texts.items(), 2):
        assert not overlap(box, second), f"{one} lies on {other}"
    for name, box in texts.items():
        for marker in markers:
            assert not overlap(box, marker), f"{name} lies on a marker"
        for line in ("ridge", "slope", "top"):
            path = canvas.artists[line].get_transform().transform(
                canvas.artists[line].get_xydata())
            along = np.linspace(path[0], path[-1], 400)
            assert not any(box.contains(x, y) for x, y in along), f"{name} lies on the {line}"


def test_what_the_sliders_move_runs_over_no_label() -> None:
    """The background is laid out once; the moving points keep to the roof, which is free."""
    workspace.put("labs", "lab_03", lab_points())
    for name, device in itertools.product(("GEMM", TILED), (None, A100)):
        panel = roofline.panel(device, operation=name)
        for _, size in panel.sizes[0].options[::3]:
            panel.sizes[0].value = size
            texts, markers = boxes(panel.canvas)
            for one, other in itertools.combinations(texts, 2):
                assert not overlap(texts[one], texts[other]), f"{one} lies on {other} at {size}"
            for text, box in texts.items():
                assert not any(overlap(box, m) for m in markers[:2]), f"{text} at {size}"
        assert panel.canvas.full_draws <= 2


def overlap(one: Bbox, other: Bbox) -> bool:
    """Whether two boxes share more than the pixel or two of a letter's side bearing."""
    shared = Bbox.intersection(one, other)
    return shared is not None and shared.width > 2 and shared.height > 6


def test_the_notes_say_what_is_counted() -> None:
    for name, flops in (("softmax", 5), ("layer norm", 8), ("GELU", 9)):
        still = roofline.still(A100, operation=name)
        point = state.compute(state.preset(A100, operation=name)).chosen
        assert point.kernel.flops == flops * point.sizes[0] * point.sizes[1]
        assert f"Counted: {flops} FLOP per value" in still.caption
    words = roofline.still(A100, operation=TILED).caption
    assert "to 114 FLOP per byte" in words
    assert "fused form of lab 3 counts every operand once" in words
    assert "512 FLOP per byte at this shape" in words


def test_where_tiling_gains_no_time_the_reason_is_the_right_one() -> None:
    assert "both are compute-bound already" in roofline.still(A100, "fp32", MATERIALISED).caption
    small = {**state.first_sizes(), TILED: (1024, 64, 96, 1), MATERIALISED: (1024, 64, 96)}
    words = roofline.still(A100, "bf16", MATERIALISED, sizes=small).caption
    assert "with tiles this small it gains nothing" in words


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
