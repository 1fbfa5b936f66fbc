"""The roofline instrument: what it counts is right; what it times, it times in turns."""

from __future__ import annotations

import json

import pytest
from ironlaw.errors import InputError
from ironlaw.predict import attention
from ironlaw.predict import roofline as predict
from ironlaw.results import RooflineMeasurement, load
from ironlaw.transformer import Shape

torch = pytest.importorskip("torch")
from ironlaw.measure import device, kernels, roofline  # noqa: E402  # after the skip

NAMES = ["QKV product", "feed-forward product", "head product", "matrix times vector", "softmax",
         "layer norm", "GELU", "attention, materialised", "attention, fused"]


@pytest.fixture(scope="module")
def measured() -> RooflineMeasurement:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roofline, "_spill_bytes", lambda here: 2e6)
        patch.setattr(roofline.host, "last_level_cache_bytes", lambda: 1.9e6)
        return roofline.measure_roofline("cpu", seconds=0.2)


def sizes(text: str) -> list[int]:
    return [int(part) for part in text.split(" x ")]


def test_work_and_traffic_are_what_the_mathematics_says(measured: RooflineMeasurement) -> None:
    assert [k.name for k in measured.kernels] == NAMES
    reference = {"matrix times vector": predict.gemv, "softmax": predict.softmax,
                 "layer norm": predict.layer_norm}
    for kernel in measured.kernels:
        shape = sizes(kernel.shape)
        if kernel.name.endswith("product"):
            want = predict.gemm(*shape, bytes_per_value=4.0)
        elif kernel.name == "GELU":
            want = predict.gelu(shape[0] * shape[1], bytes_per_value=4.0)
        elif kernel.name == "attention, materialised":
            batch, heads, seq, width = shape
            want = attention.standard(seq, width, heads, batch, 4.0)
        elif kernel.name == "attention, fused":
            batch, heads, seq, width = shape
            want = predict.Kernel("", batch * heads * attention.products_flops(seq, width),
                                  batch * heads * attention.head_tensors_bytes(seq, width))
        else:
            want = reference[kernel.name](*shape, bytes_per_value=4.0)
        assert kernel.flops == want.flops, kernel.name
        assert kernel.traffic_bytes == want.traffic_bytes, kernel.name
        assert kernel.intensity == want.intensity


def test_the_roofs_are_best_samples_and_every_kernel_a_median(
    measured: RooflineMeasurement,
) -> None:
    assert measured.bytes_per_second == max(measured.bandwidths.values())
    assert set(measured.bandwidths) == set(measured.stream_samples) == {"copy", "read", "in place"}
    for name, rate in measured.bandwidths.items():
        values = 2e6 // 4
        moved = 4 * values * (1 if name == "read" else 2)
        assert rate == pytest.approx(moved / min(measured.stream_samples[name]))
    widest = max(measured.bandwidths, key=measured.bandwidths.__getitem__)
    assert widest in measured.bytes_source
    assert measured.bytes_source in str(measured)
    for kernel in measured.kernels:
        assert min(kernel.samples) <= kernel.seconds <= max(kernel.samples)
        assert len(kernel.samples) >= 7
        assert kernel.flops_per_second == kernel.flops / kernel.seconds
        if "product" in kernel.name:
            assert kernel.flops_per_second <= measured.peak_flops_per_second


def test_a_training_step_adds_gradients_the_loss_and_the_update(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "_spill_bytes", lambda here: 1e5)
    small = Shape("small", layers=1, width=32, heads=2, context=16, vocab=128)
    with torch.inference_mode():
        made = roofline.operations(small, device.find("cpu"), torch.float32, training=True)
        for one in made:
            one.call()
    found = {one.name: one for one in made if one.name not in NAMES}
    backward, grad_w = (found[f"feed-forward, gradient of {of}"] for of in "xW")
    rows, columns, inner = sizes(backward.shape)
    assert (columns, inner) == (128, 32)
    assert sizes(grad_w.shape) == [columns, rows, inner]
    assert backward.flops == grad_w.flops == 2 * rows * columns * inner
    assert grad_w.traffic == backward.traffic == 4 * (rows * 160 + 128 * 32)
    added = found["residual addition"]
    assert added.traffic == 3 * 4 * added.flops, "two read, one written, one FLOP a value"
    rows, vocab = sizes(found["cross-entropy"].shape)
    assert found["cross-entropy"].flops == 4 * rows * vocab
    assert found["cross-entropy"].traffic == 4 * rows * vocab + 8 * rows + 4
    update = found["AdamW update"]
    assert update.traffic / update.flops == 28 / 15
    held = int(update.shape.split(" ")[0]) * 4 * 4  # weight, gradient and two moments
    assert update.footprint == held >= 1e5, "sized by what it touches, not by what it moves"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roofline.host, "last_level_cache_bytes", lambda: None)
        patch.setattr(roofline, "model", lambda name: small)
        whole = roofline.measure_roofline("cpu", seconds=0.2, training=True)
    assert [k.name for k in whole.kernels] == [*NAMES, *found]


def test_a_kernel_that_the_cache_could_hold_is_named(measured: RooflineMeasurement) -> None:
    for kernel in measured.kernels:
        assert kernel.footprint_bytes is not None
        assert kernel.footprint_bytes <= kernel.traffic_bytes
        assert kernel.cache_resident == (kernel.footprint_bytes <= 1.9e6)
        assert kernel.cache_resident == (kernel.name in measured.notes.get("cache", ""))
    by_name = {k.name: k.cache_resident for k in measured.kernels}
    assert not by_name["softmax"]
    assert by_name["QKV product"]


def test_it_travels_as_json(measured: RooflineMeasurement) -> None:
    assert load(json.dumps(measured.to_json())) == measured
    with pytest.raises(InputError, match="softmax"):
        measured.kernel("convolution")
    assert measured.kernel("softmax").name == "softmax"


def test_both_forms_of_attention_compute_the_same() -> None:
    results = []
    for form in ("materialised", "fused"):
        make = kernels.Maker(torch.device("cpu"), torch.float32)
        results.append(getattr(make, form)(2, 3, 16, 8).call().reshape(2, 3, 16, 8))
    assert torch.allclose(*results, atol=1e-5)


def test_sizes_leave_the_cache_on_a_cpu_and_follow_the_model_on_an_accelerator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape = Shape("small", layers=1, width=32, heads=2, context=16, vocab=128)
    here = device.find("cpu")
    monkeypatch.setattr(roofline, "_spill_bytes", lambda here: 1e6)
    for one in roofline.operations(shape, here, torch.float32):
        if one.name != "head product":  # its rows stay those of a real batch
            assert one.footprint >= 0.5e6, one.name
    pair = kernels.Maker(torch.device("cpu"), torch.float32).materialised(1, 2, 64, 8)
    scores, heads = 2 * 64 * 64 * 4, 2 * 64 * 8 * 4
    assert pair.footprint == 2 * scores + 4 * heads, "scores and weights are read where they lie"
    assert pair.traffic == 4 * scores + 4 * heads
    pretended = device.Device(torch.device("meta"), "pretended", None, 1, None, {})
    monkeypatch.setattr(roofline, "_spill_bytes", lambda here: 1.0)
    shapes = {one.name: one.shape for one in roofline.operations(shape, pretended, torch.bfloat16)}
    assert shapes["QKV product"] == "128 x 32 x 96"  # 8 sequences at the least
    assert shapes["attention, fused"] == shapes["attention, materialised"] == "8 x 2 x 16 x 16"


def test_operations_share_memory_and_none_spoils_what_another_reads() -> None:
    cpu = torch.device("cpu")

    def plan(make: kernels.Maker) -> kernels.Operation:
        return make.materialised(2, 3, 16, 8)

    def larger(make: kernels.Maker) -> kernels.Operation:
        return make.gelu(512, 64)

    def kept(make: kernels.Maker) -> kernels.Operation:
        return make.softmax(16, 32)

    largest = kernels.Maker(torch.device("meta"), torch.float32)
    larger(largest)
    one, two, three = kernels.build(cpu, torch.float32, [plan, larger, kept])
    before = one.call().clone()
    first, second = two.call(), three.call()
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert first.untyped_storage().nbytes() == 4 * largest.used["outputs"]
    assert torch.equal(one.call(), before)
    assert torch.allclose(three.call().sum(-1), torch.ones(16))
    assert float(three.call().std()) > 0, "the inputs are random, and nothing has written there"


def test_a_format_that_does_not_run_here_is_refused() -> None:
    with pytest.raises(InputError, match="dtype"):
        roofline.measure_roofline("cpu", dtype="tf32", seconds=0.2)
    with pytest.raises(InputError, match="seconds"):
        roofline.measure_roofline("cpu", seconds=0)


def test_an_update_in_place_moves_as_much_as_a_copy_and_touches_half(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "_spill_bytes", lambda here: 1e5)
    probes = {p.name: p for p in roofline._probes(device.find("cpu"), torch.float32)}
    assert set(roofline.STREAMS) < set(probes)
    assert probes["in place"].traffic == probes["copy"].traffic == 2 * probes["read"].traffic
    assert probes["in place"].footprint == probes["read"].footprint == probes["read"].traffic


def test_a_recording_from_before_footprints_still_loads(measured: RooflineMeasurement) -> None:
    old = measured.to_json()
    for name in ("bytes_source", "stream_samples"):
        del old[name]
    for kernel in old["kernels"]:
        del kernel["footprint_bytes"]
    held = load(json.dumps(old))
    assert isinstance(held, RooflineMeasurement)
    assert held.kernels[0].footprint_bytes is None
    assert "of its roof" in str(held)
