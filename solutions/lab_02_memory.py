# ---
# jupyter:
#   ironlaw:
#     title: Where the bytes go
#     minutes: 80
#     blocked:
#       - ironlaw.predict.memory
#       - ironlaw.predict.peak
#       - ironlaw.predict.allocations
#       - ironlaw.predict.activations
#       - ironlaw.predict.attention
#       - ironlaw.predict.optimizers
#       - ironlaw.predict.plan
#       - ironlaw.predict.recompute
#       - ironlaw.measure.memory
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Lab 2 · Where the bytes go
#
# **What you do.** You write the memory account of a training step, from the parameters to the
# last tensor that a block keeps, commit yourself to a guess, let PyTorch account for a real GPT-2,
# and reconcile the two to within two per cent.
#
# **Why.** "CUDA out of memory" is the commonest end of a training run, and the usual answer is to
# halve the batch until it stops. Whoever can write the account knows beforehand what fits, and
# which line of it to attack when it does not.
#
# **Before you start:** chapter 2. **Time:** about 80 minutes, of which the machine needs one.
# **Points:** 20.
#
# | device | model | measured by |
# |---|---|---|
# | two CPU cores (laptop, Binder) | nano: 4 blocks, width 128 | PyTorch's memory tracker |
# | one CUDA GPU (Colab and others) | GPT-2 124M: 12, width 768 | the tracker and the GPU itself |
#
# The tracker follows a training step on tensors that have a shape and a number format but no
# contents. It counts what PyTorch would allocate, so it needs neither a GPU nor the memory.
#
# **Symbols.** *L* blocks of width *d* with *H* heads; a vocabulary of *V* tokens and a context of
# *C* positions; batches of *B* sequences of *S* tokens; *P* parameters. A GB is 10⁹ bytes.

# %%
from ironlaw.lab import Residuals, check, measure_memory

# %% [markdown]
# ## 1 · Predict
#
# ### What is there all the time
#
# GPT-2's parameters are these. Every linear layer has a bias, a number per output; every norm has
# a gain and a shift, two numbers per channel.
#
# | where | matrix | further numbers | count |
# |---|---|---|---|
# | token embedding | V × d | | once |
# | position embedding | C × d | | once |
# | queries, keys and values | d × 3d | bias 3d | each block |
# | output projection | d × d | bias d | each block |
# | feed-forward | d × 4d, then 4d × d | biases 4d and d | each block |
# | two norms | | 2d each | each block |
# | final norm | | 2d | once |
# | output head | the token embedding again | | shared |
#
# **1a (3 points).** Count them. The output head is *tied*: it is the same matrix as the token
# embedding, stored once.
#
# <details><summary>Hint</summary>One block has 12 d² numbers in matrices and 13 d in biases and
# norms. GPT-2 small has 124,439,808 parameters in all; counting its head a second time gives 163
# million, a figure that several tools print.</details>

# %% nbgrader={"grade_id": "parameter-count", "solution": true}
def parameter_count(layers, width, vocab, context):
    """Number of parameters of a GPT-2 with a tied head, as an integer."""
    ### BEGIN SOLUTION
    block = 12 * width**2 + 13 * width
    return (vocab + context) * width + layers * block + 2 * width
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-parameter-count", "grade": true, "points": 3}
def visible(student):
    count = student.call("parameter_count", 12, 768, 50_257, 1024)
    student.close("parameter_count(12, 768, 50_257, 1024), GPT-2 small", count, 124_439_808,
                  rtol=1e-12)


check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    from ironlaw.transformer import Shape

    for layers, width, vocab, context in ((4, 128, 4096, 256), (48, 1600, 50_257, 1024),
                                          (1, 96, 700, 33), (7, 320, 9_001, 640)):
        got = student.call("parameter_count", layers, width, vocab, context)
        want = Shape("unseen", layers, width, 1, context, vocab).parameters
        student.close("parameter_count of a model that you have not seen", got, want,
                      rtol=1e-12, tell=False)


check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# Training with AdamW keeps more than the weights: a gradient for each, and Adam's two moments.
# How many bytes that takes depends on the recipe:
#
# | recipe | weight | gradient | FP32 master copy | the two moments |
# |---|---|---|---|---|
# | `"autocast"`: PyTorch's mixed precision | FP32 | FP32 | none: the weights are FP32 | FP32 each |
# | `"document"`: the classic mixed precision | FP16 | FP16 | yes | FP32 each |
# | `"pure-bf16"`: everything in 16 bits | BF16 | BF16 | none | BF16 each |
#
# FP32 takes four bytes, FP16 and BF16 take two.
#
# **1b (2 points).** Return the four amounts, in bytes, in a dictionary with the keys `"weights"`,
# `"gradients"`, `"master"` and `"moments"` (both moments together). An unknown recipe raises a
# `ValueError`: a typing error must not become a plan.
#
# <details><summary>Hint</summary>Two of the three recipes come to 16 bytes per parameter, by
# different roads.</details>

# %% nbgrader={"grade_id": "state-bytes", "solution": true}
def state_bytes(parameters, recipe):
    """Bytes of weights, gradients, master copy and moments with AdamW, as a dictionary."""
    ### BEGIN SOLUTION
    widths = {"autocast": (4, 4, 0, 8), "document": (2, 2, 4, 8), "pure-bf16": (2, 2, 0, 4)}
    if recipe not in widths:
        raise ValueError(f"recipe = {recipe!r}, but it must be one of {', '.join(widths)}")
    names = ("weights", "gradients", "master", "moments")
    return {name: parameters * width for name, width in zip(names, widths[recipe], strict=True)}
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-state-bytes", "grade": true, "points": 2}
def visible(student):
    found = student.call("state_bytes", 1000, "document")
    student.require(isinstance(found, dict) and set(found) == {
        "weights", "gradients", "master", "moments"},
        "state_bytes should return a dictionary with the keys weights, gradients, master, moments.")
    for name, want in (("weights", 2000), ("gradients", 2000), ("master", 4000),
                       ("moments", 8000)):
        student.close(f"{name} of 1,000 parameters in the document's recipe", found[name], want)


check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    recipes = {"autocast": (4, 4, 0, 8), "document": (2, 2, 4, 8), "pure-bf16": (2, 2, 0, 4)}
    for parameters in (124_439_808, 77):
        for recipe, widths in recipes.items():
            found = student.call("state_bytes", parameters, recipe)
            student.require(isinstance(found, dict), "state_bytes should return a dictionary.")
            names = ("weights", "gradients", "master", "moments")
            for name, width in zip(names, widths, strict=True):
                student.close(f"{name} in the recipe {recipe}", found.get(name),
                              parameters * width, tell=False)
    student.raises("state_bytes", 77, "fp64")


check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# ### What a block keeps for the backward pass
#
# Backpropagation keeps receipts: to compute a gradient, a layer needs what it read on the way
# forward. Under autocast the residual stream (the running sum that each half-block adds to), the
# norms and the softmax stay in FP32, and everything that a matrix product reads is in 16 bits.
# One block then keeps:
#
# | kept for | tensor | format |
# |---|---|---|
# | first norm | its input, B × S × d | FP32 |
# | first norm | mean and spread of every row, 2 × B × S | FP32 |
# | product for queries, keys, values | the norm's output, B × S × d | 16 bit |
# | attention | queries, keys and values, each B × S × d | 16 bit |
# | attention, *tiled* | one statistic for every row of every head, B × H × S | FP32 |
# | attention, *materialised* | the softmax of all scores, B × H × S × S | FP32 |
# | attention, *materialised* | its copy for the product with the values, B × H × S × S | 16 bit |
# | output projection | the result of attention, B × S × d | 16 bit |
# | second norm | its input, B × S × d | FP32 |
# | second norm | mean and spread of every row, 2 × B × S | FP32 |
# | first feed-forward product | the norm's output, B × S × d | 16 bit |
# | GELU | its input, B × S × 4d | 16 bit |
# | second feed-forward product | GELU's output, B × S × 4d | 16 bit |
#
# Dropout is off. The rows marked *tiled* and *materialised* exclude each other: tiled attention
# (FlashAttention) never writes the S × S scores, and computes them again in the backward pass.
#
# **1c (4 points).** Add it up.
#
# <details><summary>Hint 1</summary>Everything but the marked rows is a multiple of B·S·d, plus
# four FP32 numbers per row.</details>
# <details><summary>Hint 2</summary>The two FP32 tensors of B × S × d take 8 bytes for each of
# their places. The 16-bit rows are 14 times as wide as one such tensor: 28 bytes.</details>

# %% nbgrader={"grade_id": "block-bytes", "solution": true}
def block_bytes(batch, seq, width, heads, attention="tiled"):
    """Bytes that one block keeps under autocast; `attention` is "tiled" or "materialised"."""
    ### BEGIN SOLUTION
    rows = batch * seq
    linear = (2 * 4 + 14 * 2) * rows * width + 4 * 4 * rows
    if attention == "tiled":
        return linear + 4 * heads * rows
    return linear + (4 + 2) * heads * rows * seq
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-block-bytes", "grade": true, "points": 4}
def visible(student):
    kept = student.call("block_bytes", 8, 256, 128, 4, "tiled")
    student.close("block_bytes(8, 256, 128, 4, 'tiled'), a block of nano", kept, 9_502_720)
    kept = student.call("block_bytes", 8, 256, 128, 4, "materialised")
    student.close("block_bytes(8, 256, 128, 4, 'materialised')", kept, 22_052_864)


check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    from ironlaw.predict import peak

    for batch, seq, width, heads in ((12, 1024, 768, 12), (1, 96, 320, 5), (3, 700, 64, 16)):
        for name, attention in (("tiled", "flash"), ("materialised", "materialised")):
            got = student.call("block_bytes", batch, seq, width, heads, name)
            want = peak.block_bytes(batch, seq, width, heads, "amp-bf16", attention)
            student.close(f"block_bytes of a block that you have not seen, {name}", got, want,
                          tell=False)
    got = student.call("block_bytes", 2, 64, 64, 2)
    student.close("block_bytes without naming the form of attention", got,
                  peak.block_bytes(2, 64, 64, 2, "amp-bf16", "flash"), tell=False)


check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# ### The fullest moment
#
# Memory does not run out on average; it runs out at the worst moment. Two moments compete.
#
# **The start of the backward pass.** All that the forward pass kept is still there. PyTorch holds
# at once:
#
# - weights and moments. The gradients are *not* there: the last step's were freed, and this
#   step's have yet to be computed;
# - what every block keeps;
# - 16-bit copies of the weight matrices, made by autocast for the products: 12 d² numbers in every
#   block, and the V × d of the head;
# - the input of the final norm (B × S × d, FP32), its statistics (2 × B × S, FP32) and its output
#   for the head (B × S × d, 16 bit);
# - **three** FP32 tensors of B × S × V: the logarithm of the softmax over the vocabulary, and two
#   gradients on their way through it;
# - the token numbers and the targets, B × S of 8 bytes each.
#
# **The update.** Weights, gradients and moments are all there, and AdamW makes a temporary copy of
# one FP32 number per parameter. The activations have gone.
#
# **1d (3 points).** Return the larger of the two, in bytes, under autocast.
#
# <details><summary>Hint</summary>Write two sums and take `max`. Your functions `parameter_count`
# and `block_bytes` give most of the terms. At the update a parameter takes 20 bytes.</details>

# %% nbgrader={"grade_id": "step-bytes", "solution": true}
def step_bytes(layers, width, heads, vocab, context, batch, seq, attention="tiled"):
    """Bytes at the fullest moment of a training step under autocast with AdamW."""
    ### BEGIN SOLUTION
    parameters = parameter_count(layers, width, vocab, context)
    state = state_bytes(parameters, "autocast")
    rows = batch * seq
    copies = 2 * (12 * layers * width**2 + vocab * width)
    final = 4 * rows * width + 8 * rows + 2 * rows * width
    loss = 3 * 4 * rows * vocab + 16 * rows
    kept = layers * block_bytes(batch, seq, width, heads, attention)
    backward = state["weights"] + state["moments"] + kept + copies + final + loss
    update = sum(state.values()) + 4 * parameters
    return max(backward, update)
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-step-bytes", "grade": true, "points": 3}
def visible(student):
    most = student.call("step_bytes", 4, 128, 4, 4096, 256, 8, 256)
    student.close("step_bytes of nano on 8 sequences of 256 tokens", most, 159_122_432, rtol=1e-3)
    most = student.call("step_bytes", 12, 768, 12, 50_257, 1024, 1, 16)
    student.close("step_bytes of GPT-2 small on 16 tokens", most, 20 * 124_439_808, rtol=1e-3)


check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    from ironlaw.predict import peak
    from ironlaw.transformer import Shape

    for layers, width, heads, vocab, context, batch, seq in (
            (12, 768, 12, 50_257, 1024, 12, 1024), (24, 512, 8, 3_000, 512, 2, 512),
            (2, 1024, 16, 6_000, 256, 1, 256), (3, 64, 4, 5_000, 128, 30, 100)):
        shape = Shape("unseen", layers, width, heads, context, vocab)
        got = student.call("step_bytes", layers, width, heads, vocab, context, batch, seq)
        student.close("step_bytes of a step that you have not seen", got,
                      peak.closed_form(shape, batch, seq), rtol=3e-3, tell=False)
    shape = Shape("unseen", 6, 256, 8, 512, 2_000)
    scores = 6 * (peak.block_bytes(4, 512, 256, 8, "amp-bf16", "materialised")
                  - peak.block_bytes(4, 512, 256, 8, "amp-bf16", "flash"))
    got = student.call("step_bytes", 6, 256, 8, 2_000, 512, 4, 512, "materialised")
    student.close("step_bytes with materialised attention", got,
                  peak.closed_form(shape, 4, 512) + scores, rtol=3e-3, tell=False)


check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# **1e (2 points).** And the question that started it: the largest batch, a whole number, whose
# step stays within `limit` bytes (tiled attention). When not even one sequence fits, it is 0.
#
# <details><summary>Hint</summary>Try 1, 2, 3 … until it no longer fits. `step_bytes` never shrinks
# when the batch grows.</details>

# %% nbgrader={"grade_id": "largest-batch", "solution": true}
def largest_batch(limit, layers, width, heads, vocab, context, seq):
    """The most sequences of `seq` tokens per batch that `limit` bytes allow."""
    ### BEGIN SOLUTION
    batch = 0
    while step_bytes(layers, width, heads, vocab, context, batch + 1, seq) <= limit:
        batch += 1
    return batch
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-largest-batch", "grade": true, "points": 2}
def visible(student):
    most = student.call("largest_batch", 1e9, 4, 128, 4, 4096, 256, 256)
    student.close("largest_batch(1e9, ...) of nano", most, 55)


check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    from ironlaw.predict import peak
    from ironlaw.transformer import Shape

    for sizes, seq, batch in (((12, 768, 12, 50_257, 1024), 1024, 13), ((2, 64, 2, 900, 64), 64, 1),
                              ((4, 128, 4, 4096, 256), 128, 37)):
        layers, width, heads, vocab, context = sizes
        shape = Shape("unseen", layers, width, heads, context, vocab)
        between = [peak.closed_form(shape, size, seq) for size in (batch, batch + 1)]
        limit = sum(between) / 2
        got = student.call("largest_batch", limit, *sizes, seq)
        student.close("largest_batch within a limit that you have not seen", got, batch, tell=False)
    got = student.call("largest_batch", 1e6, 12, 768, 12, 50_257, 1024, 1024)
    student.close("largest_batch where nothing fits", got, 0, atol=1e-9, tell=False)


check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# ### Commit yourself
#
# **1f (1 point).** Without running your functions on it: at the fullest moment of a step of *your*
# model (nano on 8 sequences of 256 tokens on a CPU, GPT-2 124M on 4 of 1,024 on a GPU), how many
# bytes are held, and which is the largest of `"state"` (weights, gradients, moments),
# `"activations"` (what the blocks keep) and `"logits"` (the tensors of B × S × V)? Any guess
# earns the point.

# %% nbgrader={"grade_id": "guess", "solution": true}
# Set guess_peak_bytes and guess_largest.
### BEGIN SOLUTION
guess_peak_bytes = 100e6
guess_largest = "activations"
### END SOLUTION

# %% nbgrader={"grade_id": "check-guess", "grade": true, "points": 1}
def visible(student):
    student.number("guess_peak_bytes", student.value("guess_peak_bytes"), low=1e6, high=1e12)
    student.require(student.value("guess_largest") in ("state", "activations", "logits"),
                    "guess_largest should be 'state', 'activations' or 'logits'.")


check(visible)

# %% [markdown]
# ## 2 · Measure
#
# **2 (1 point).** Run the next cell once. It lets PyTorch account for one training step of a real
# GPT-2 with both forms of attention, and then looks for the largest batch within a limit: one GB
# on a CPU, nine tenths of a GPU's memory. When it is done, the cell fills itself with what it
# measured: **save the notebook**.

# %% nbgrader={"grade_id": "measure", "locked": false}
measured = measure_memory(r"""
""")
print(measured)

# %% nbgrader={"grade_id": "check-measure", "grade": true, "points": 1}
def visible(student):
    run = student.record("measured", "MemoryRun")
    kinds = ("parameters", "gradients", "optimizer", "cast_copies", "activations", "logits",
             "transient")
    for step in (run.flash, run.materialised):
        peak = student.number("the measured peak", step.memory_bytes["peak"], low=1)
        if step.backend == "tracker" and step.memory_bytes["logits"] is not None:
            parts = sum(student.number(kind, step.memory_bytes[kind], low=0) for kind in kinds)
            student.close("the sum of the parts", parts, peak, rtol=2e-3)
        listed = sum(student.number("a saved tensor", t.bytes, low=1) for t in step.saved_tensors)
        student.close("the sum of the tensors that a block keeps", listed,
                      step.saved_bytes_per_block, rtol=1e-6)
    student.require(run.materialised.saved_bytes_per_block > run.flash.saved_bytes_per_block,
                    "Materialised attention should keep more than tiled attention.")


check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    import itertools

    from ironlaw.config import RunConfig
    from ironlaw.predict import peak

    run = student.record("measured", "MemoryRun")
    for step in (run.flash, run.materialised):
        config = RunConfig.from_json(step.config)
        p = config.shape.parameters
        student.close("the parameters in the record", step.parameters, p, tell=False)
        student.close("the weights in the record", step.parameter_bytes, 4 * p, tell=False)
        student.close("the gradients in the record", step.gradient_bytes, 4 * p, tell=False)
        student.close("the moments in the record", step.optimizer_bytes, 8 * p, rtol=1e-3,
                      tell=False)
        kept = peak.block_bytes(config.batch, config.sequence, config.shape.width,
                                config.shape.heads, config.precision, config.attention)
        student.close("what a block keeps in the record", step.saved_bytes_per_block, kept,
                      rtol=0.05, tell=False)
        tracked = step.memory_bytes["peak"] if step.backend == "tracker" else (
            step.tracker_peak_bytes)
        student.close("the peak in the record", tracked, peak.step_memory(config).peak, rtol=0.1,
                      tell=False)
    student.require(run.flash.config["model"] == run.materialised.config["model"]
                    == run.sweep.config["model"], "The record mixes different models.")
    peaks = [(int(batch), student.number("a peak of the sweep", size, low=1))
             for batch, size in run.sweep.peaks]
    limit = student.number("the sweep's limit", run.sweep.limit_bytes, low=1)
    student.require(all(a[1] < b[1] for a, b in itertools.pairwise(peaks)),
                    "In the record a larger batch takes less memory.")
    fitting = [batch for batch, size in peaks if size <= limit]
    student.require(bool(fitting) and max(fitting) == run.sweep.largest_batch,
                    "The record's largest batch is not the largest that fits.")


check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 · Compare
#
# First the tensors themselves: what PyTorch found in one block, in the order in which the block
# kept them. Find each of them in the table of 1c.

# %%
for tensor in measured.flash.saved_tensors:
    print(f"{tensor.where:24} {tensor.shape!s:22} {tensor.dtype:10} {tensor.bytes:14,.0f} B")

# %% [markdown]
# Now the residuals. The first column is what you guessed, the second what your functions say, the
# third what PyTorch counted. Bytes can be counted, so nothing here is noise: a residual of more
# than two per cent is a mistake in the account, and it can be found. (The few bytes that remain
# have names too: Adam keeps a step counter of 4 bytes for every tensor, the model numbers its
# positions, and the tracker overlooks one tensor of token numbers.)

# %%
step, config = measured.flash, measured.flash.config
sizes = {"nano": (4, 128, 4, 4096, 256),
         "gpt2-124m": (12, 768, 12, 50_257, 1024)}[config["model"]]
layers, width, heads, vocab, context = sizes
state = state_bytes(parameter_count(layers, width, vocab, context), "autocast")
table = Residuals()
table.add("parameters", "", predicted=parameter_count(layers, width, vocab, context),
          measured=step.parameters)
table.add("weights", "B", predicted=state["weights"], measured=step.parameter_bytes)
table.add("gradients", "B", predicted=state["gradients"], measured=step.gradient_bytes)
table.add("moments", "B", predicted=state["moments"], measured=step.optimizer_bytes)
for name, found in (("tiled", measured.flash), ("materialised", measured.materialised)):
    table.add(f"kept by one block, {name}", "B", measured=found.saved_bytes_per_block,
              predicted=block_bytes(config["batch"], context, width, heads, name))
table.add("peak, tiled", "B", guess=guess_peak_bytes, measured=measured.peak_bytes,
          predicted=step_bytes(*sizes, config["batch"], context))
table.add("peak, materialised", "B", measured=measured.materialised.peak_bytes,
          predicted=step_bytes(*sizes, config["batch"], context, "materialised"))
table.add("largest batch within the limit", "", measured=measured.sweep.largest_batch,
          predicted=largest_batch(measured.sweep.limit_bytes, *sizes, context))
if step.backend == "device" and step.reserved_bytes is not None:
    table.add("peak by the GPU's allocator", "B", predicted=measured.peak_bytes,
              measured=step.peak_bytes)
    table.add("reserved and context", "B", predicted=measured.peak_bytes,
              measured=step.reserved_bytes + step.context_bytes)
table

# %%
for kind, size in sorted(step.memory_bytes.items(), key=lambda item: -(item[1] or 0)):
    print(f"{kind:14} {size or 0:16,.0f} B")
print("your guess was that the largest would be:", guess_largest)

# %% [markdown]
# **3a (1 point).** Set `predicted_peak` to what your account gives for the measured step with tiled
# attention. The point is for agreement with PyTorch to within two per cent.

# %% nbgrader={"grade_id": "predicted-peak", "solution": true}
# Set predicted_peak, in bytes.
### BEGIN SOLUTION
predicted_peak = step_bytes(*sizes, config["batch"], context)
### END SOLUTION

# %% nbgrader={"grade_id": "check-predicted-peak", "grade": true, "points": 1}
def visible(student):
    run = student.record("measured", "MemoryRun")
    peak = run.flash.tracker_peak_bytes or run.flash.memory_bytes["peak"]
    found = student.number("predicted_peak", student.value("predicted_peak"), low=1)
    student.close("predicted_peak", found, peak, rtol=0.02)


check(visible)

# %% [markdown]
# **3b (1 point).** Set `bytes_per_sequence`: the bytes that one more sequence in the batch adds to
# the peak. Take it from two *measured* batches of the sweep, `measured.sweep.peaks`, a list of
# pairs (batch, bytes).
#
# <details><summary>Hint</summary>A difference of bytes over a difference of batches. Take the two
# largest: at very small batches another moment may be the fullest, and the line has a bend.
# </details>

# %% nbgrader={"grade_id": "bytes-per-sequence", "solution": true}
# Set bytes_per_sequence from measured.sweep.peaks.
### BEGIN SOLUTION
(small, less), (large, more) = measured.sweep.peaks[-2:]
bytes_per_sequence = (more - less) / (large - small)
### END SOLUTION

# %% nbgrader={"grade_id": "check-bytes-per-sequence", "grade": true, "points": 1}
def visible(student):
    run = student.record("measured", "MemoryRun")
    (small, less), (large, more) = run.sweep.peaks[-2:]
    found = student.number("bytes_per_sequence", student.value("bytes_per_sequence"), low=1)
    student.close("bytes_per_sequence", found, (more - less) / (large - small), rtol=0.03)


check(visible)

# %% [markdown]
# ## 4 · Explain
#
# **4 (2 points).** In four to six sentences: which part of your step is the largest, and which
# *one* change would you make first to fit a batch twice as large into the same memory? Give the
# bytes that the change saves, from this notebook, and say what it costs. Then name a change that
# sounds helpful and would save next to nothing here, with its number.

# %% [markdown] nbgrader={"grade_id": "explain", "grade": true, "solution": true, "points": 2}
# The logits are the largest part: three FP32 tensors of 8 × 256 × 4,096 numbers are 100.7 MB, 63 %
# of the peak of 159.1 MB, while all four blocks together keep 38 MB. A batch of 16 would add
# 8 · 17.9 = 143 MB, of which 101 MB are logits. So I would compute the loss in slices: with an
# eighth of the tokens at a time, the 201 MB of logits of the larger batch become 25 MB, which saves
# 176 MB, more than the batch adds. The price is the head's product once more in the backward pass.
# What sounds helpful and is not: a leaner optimizer. Both moments are 10.8 MB, 7 % of the peak.

# %% [markdown] nbgrader={"grade_id": "rubric-explain", "locked": true}
# ### BEGIN MARK SCHEME
# **How 4 is marked**
#
# - 1 point: names the largest part of the student's own record with its bytes or its share, and a
#   change that acts on that part (the loss in slices, a shorter sequence, tiled attention where the
#   scores are largest), with the bytes saved and the price in work, time or noise.
# - 1 point: names a change that acts on a small part (a leaner optimizer, 16-bit moments,
#   recomputation where the logits dominate), with that part's number from the notebook.
#
# "Use a smaller batch" is no answer to how a larger one would fit, and a saving without a number
# from the notebook earns nothing.
# ### END MARK SCHEME

# %% [markdown]
# ## Hand in
#
# Run all cells once more (nothing is measured again), press **Validate**, save, and hand in this
# file. Validate says which checks still fail; an unanswered question costs only its own points.
