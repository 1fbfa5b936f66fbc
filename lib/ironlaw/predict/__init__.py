"""Every formula of the course, once each: pure functions on plain numbers.

Nothing here measures, draws or imports torch. Where the document's equations, tables
and algorithms are:

| in the document | here |
|---|---|
| equation 1 | `iron_law.training_seconds` |
| equation 2 | `activations.at_batch` |
| equation 3 | `optimizers.full_batch_step_seconds` |
| equation 4 | `memory.batch_memory` |
| equation 5 | `activations.per_batch_bytes` |
| equation 6 | `memory.total_bytes` |
| equation 7 | `pipeline.storage_rate` |
| equation 8 | `pipeline.preprocessing_rate` |
| equation 9 | `pipeline.training_rate` |
| equations 10, 12 | `pipeline.bottleneck_rate` |
| equation 11 | `pipeline.utilisation` |
| equation 13 | `pipeline.iteration_seconds` |
| equation 14 | `pipeline.host_buffer_bytes` |
| equation 15 | `pipeline.keeps_up` |
| equation 16 | `flash.attention` |
| equation 17 | `accumulation.accumulated_gradient` |
| equation 18 | `accumulation.update_seconds` |
| algorithm 1, Adam | `optimizers.adam` |
| algorithm 2, checkpointing | `recompute.play` |
| algorithm 3, tiled attention | `flash.steps` |
| table 4 | `optimizers.table_4` |
| table 6 | `waves.table_6` |
| table 10 | `precision.table_10` |
| table 12 | `precision.table_12` |
| table 14 | `accumulation.table_14` |
| table 15 | `recompute.table_15` |
| table 16 | `recompute.table_16` |
| table 17 | `walkthrough.table_17` |
| table 18 | `walkthrough.ladder` |
| table 19 | `walkthrough.table_19` |
| table 20 | `parallel.table_20` |
| table 22 | `plan.when_to_scale` |

Table 21 is history and holds no quantity. What PyTorch allocates, beyond the document,
is in `peak`; timelines to draw are in `schedule`.
"""
