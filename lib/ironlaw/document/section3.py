"""Section 3: data pipeline, wave quantisation, memory of real models, rent or buy."""

from __future__ import annotations

from ..predict import (
    activations,
    convnet,
    cost,
    flops,
    iron_law,
    memory,
    optimizers,
    pipeline,
    waves,
)
from ..units import DAY, GB, GIGA, KB, MB, MEGA, TERA, YEAR
from .common import B70, B175, H100_BF16, PERCENT, V100_FP16, weights
from .rows import From, Row, by_id

_MS = 1e-3
_RESNET = {"forward_activations": 8e9, "backward_workspace": 4e9,
           "parameter_bytes": From("resnet.params")}
_LLAMA = {"operations": From("nap15.O"), "peak_flops_per_second": H100_BF16, "utilisation": 0.5}

ROWS = by_id(
    # Example 1.1
    Row("ex11.tokens", pipeline.tokens_per_batch, {"batch": 32, "seq": 1024}),
    Row("ex11.tokenize", pipeline.processing_seconds,
        {"items": From("ex11.tokens"), "items_per_second": 500e3, "workers": 1}, _MS),
    Row("ex11.tok8", pipeline.processing_seconds,
        {"items": From("ex11.tokens"), "items_per_second": 500e3, "workers": 8}, _MS),
    Row("ex11.bytes", pipeline.batch_bytes,
        {"batch": 32, "seq": 1024, "bytes_per_token": 8.0}, KB),
    Row("ex11.pcie", pipeline.transfer_seconds,
        {"transfer_bytes": From("ex11.bytes"), "bytes_per_second": 15.75e9}, _MS),
    Row("ex11.nvme_rand", pipeline.effective_storage_rate,
        {"bytes_per_second": 7e9, "access_factor": 0.1}, GIGA),
    Row("ex11.read", pipeline.read_seconds,
        {"items": From("ex11.tokens"), "bytes_per_item": 2.0,
         "bytes_per_second": From("ex11.nvme_rand")}, _MS),
    Row("ex11.prep", pipeline.serial_seconds,
        {"stage_seconds": (From("ex11.read"), From("ex11.tokenize"))}, _MS),
    Row("ex11.step", iron_law.training_seconds,
        {"operations": From("nap11.step"), "peak_flops_per_second": V100_FP16,
         "utilisation": 0.95, "accelerators": 32}, _MS),
    Row("ex11.serial_eta", pipeline.serial_utilisation,
        {"compute_seconds": From("ex11.step"), "waiting_seconds": From("ex11.prep")}, PERCENT),
    Row("ex11.throughput", pipeline.samples_per_second,
        {"samples_per_step": 32, "step_seconds": From("ex11.step")}),
    # Bandwidths, utilisation, workers
    Row("bw.dram_nvme", pipeline.bandwidth_ratio, {"fast": 50e9, "slow": 7e9}),
    Row("bw.hbm_dram", pipeline.bandwidth_ratio, {"fast": 900e9, "slow": 50e9}),
    Row("bw.orders", pipeline.orders_of_magnitude, {"fast": 900e9, "slow": 7e9}),
    Row("nvme.half", pipeline.effective_storage_rate,
        {"bytes_per_second": 7e9, "access_factor": 0.5}, GIGA),
    Row("util.resnet200", pipeline.utilisation,
        {"pipeline_rate": 200.0, "compute_rate": 1000.0}, PERCENT),
    Row("util.resnet200b", pipeline.utilisation,
        {"pipeline_rate": 200.0, "compute_rate": 2000.0}, PERCENT),
    Row("util.idle", pipeline.idle_share,
        {"pipeline_rate": 200.0, "compute_rate": 1000.0}, PERCENT),
    Row("workers40", pipeline.workers_needed,
        {"preprocessing_seconds": 0.040, "compute_seconds": 0.010}),
    Row("pipe.save", pipeline.stage_saving,
        {"stage_seconds": 0.100, "reduction": 0.2, "hidden_seconds": 0.050}, _MS,
        {"hidden_seconds": "Loading stays hidden as long as it is shorter than compute."}),
    # Work of layers, warps
    Row("mac.512", flops.macs, {"rows": 64, "inner": 512, "columns": 1024}, MEGA),
    Row("flop.512", flops.matmul, {"rows": 64, "inner": 512, "columns": 1024}, MEGA),
    Row("conv.mac", flops.convolution_macs_per_output, {"kernel": 7, "channels": 3}),
    Row("conv.out", flops.convolution_output_side,
        {"side": 224, "kernel": 7, "stride": 1, "padding": 0}),
    Row("tab6.32", waves.lane_utilisation, {"items": 32, "unit": 32}, PERCENT),
    Row("tab6.33", waves.lane_utilisation, {"items": 33, "unit": 32}, PERCENT),
    Row("tab6.64", waves.lane_utilisation, {"items": 64, "unit": 32}, PERCENT),
    Row("tab6.65", waves.lane_utilisation, {"items": 65, "unit": 32}, PERCENT),
    Row("tab6.t33", waves.relative_time, {"items": 33, "unit": 32}),
    Row("tab6.t65", waves.relative_time, {"items": 65, "unit": 32}),
    # Napkin math 1.4 and image models
    Row("nap14.act", activations.document_bytes,
        {"layers": 32, "batch": 1, "seq": 2048, "width": 4096, "heads": 32,
         "token_factor": 34.0, "score_factor": 5.0}, GB),
    Row("nap14.factor", activations.factor,
        {"seq": 2048, "width": 4096, "heads": 32, "bytes_per_value": 2.0}),
    Row("resnet.params", memory.parameter_bytes, weights(25.6e6, 4), MB),
    Row("resnet.first", activations.feature_map_bytes,
        {"height": 112, "width": 112, "channels": 64, "batch": 1, "bytes_per_value": 4.0}, MB),
    Row("resnet.total", memory.image_model_bytes, {**_RESNET}, GB),
    Row("resnet.pct", memory.share_of_device,
        {"used_bytes": From("resnet.total"), "device_bytes": 80e9}, PERCENT),
    Row("resnet.fwd64", activations.at_batch,
        {"activation_bytes": 8e9, "reference_batch": 32, "batch": 64}, GB),
    Row("resnet.bwd64", activations.at_batch,
        {"activation_bytes": 4e9, "reference_batch": 32, "batch": 64}, GB),
    Row("resnet.b64", memory.image_model_bytes,
        {"forward_activations": From("resnet.fwd64"), "backward_workspace": From("resnet.bwd64"),
         "parameter_bytes": From("resnet.params")}, GB),
    Row("gpt3.fp32", memory.parameter_bytes, weights(B175, 4), GB),
    Row("gpt3.fp16", memory.parameter_bytes, weights(B175, 2), GB),
    # Napkin math 1.5
    Row("nap15.O", iron_law.training_flops, {"parameters": B70, "tokens": 2e12}),
    Row("nap15.rate", iron_law.sustained_flops_per_second,
        {"peak_flops_per_second": H100_BF16, "utilisation": 0.5}, TERA),
    Row("nap15.seconds", iron_law.training_seconds, {**_LLAMA}),
    Row("nap15.years", iron_law.training_seconds, {**_LLAMA}, YEAR),
    Row("nap15.days", iron_law.training_seconds, {**_LLAMA, "accelerators": 1024}, DAY),
    Row("nap15.rent", cost.rent,
        {"accelerators": 1024, "seconds": From("nap15.days"), "price_per_hour": 3.0}),
    Row("nap15.buy", cost.buy, {"accelerators": 1024, "price_each": 30_000.0}),
    Row("nap15.ratio", cost.cost_ratio, {"dear": From("nap15.buy"), "cheap": From("nap15.rent")}),
    # Self-check 3
    Row("sc3.avg", pipeline.mean_rate, {"rates": (4e9, 32e9, 12e9)}, GIGA),
    Row("sc3.min", pipeline.bottleneck_rate, {"rates": (4e9, 32e9, 12e9)}, GIGA),
    Row("sc3.util", pipeline.serial_utilisation,
        {"compute_seconds": 0.080, "waiting_seconds": 0.065}, PERCENT),
    Row("sc3.batch", optimizers.batch_ratio, {"batch": 4096, "reference_batch": 512}),
)

AUDIT = by_id(
    Row("audit.ex11.eta", pipeline.share_of_peak,
        {"busy_share": From("ex11.serial_eta"), "share_while_busy": 0.95}, PERCENT),
    Row("audit.resnet", convnet.resnet50_saved_bytes,
        {"batch": 32, "image_side": 224, "bytes_per_value": 4.0}, GB),
)

