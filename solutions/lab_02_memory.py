# ---
# jupyter:
#   ironlaw:
#     title: Where the bytes go
#     minutes: 80
#     blocked: [ironlaw.predict.memory, ironlaw.predict.peak, ironlaw.predict.allocations,
#       ironlaw.predict.activations, ironlaw.predict.attention, ironlaw.predict.optimizers,
#       ironlaw.predict.plan, ironlaw.predict.recompute, ironlaw.measure.memory,
#       ironlaw.parameter_count]
# ---

# %% [markdown]
# # Lab 2 · Where the bytes go
#
# **What you do.** You write the memory account of a training step, commit yourself to a guess, let
# PyTorch account for a real GPT-2, and reconcile the two to within two per cent.
#
# **Why.** Many a run ends with "CUDA out of memory" and a batch halved until it fits. Whoever can
# write the account knows beforehand what fits, and which line to attack when it does not.
#
# **Before you start:** chapter 2. **Time:** about 80 minutes, of which the machine needs one.
# **Points:** 20.
#
# | device | model | measured by |
# |---|---|---|
# | two CPU cores (laptop, Binder) | nano: 4 blocks, width 128 | PyTorch's memory tracker |
# | one CUDA GPU (Colab and others) | GPT-2 124M: 12, width 768 | the tracker and the GPU itself |
#
# The tracker follows a step on tensors without contents: it needs neither a GPU nor the memory.
#
# **Symbols.** *L* blocks of width *d* with *H* heads; a vocabulary of *V* tokens and a context of
# *C* positions; batches of *B* sequences of *S* tokens; *P* parameters. A GB is 10⁹ bytes.

# %%
from ironlaw.lab import check, measure_memory

# %% [markdown]
# ## 1 · Predict
#
# ### What is there all the time
#
# GPT-2's parameters are these. A linear layer has a bias, a norm has a gain and a shift.
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
# **1a (3 points).** Count them. The output head is *tied*: it is the token embedding once more.
#
# <details><summary>Hint</summary>Start with one block: how many d² are in its matrices, how many d
# in its biases and norms? GPT-2 small has 124 million; 163 million counts the head twice.</details>

# %% nbgrader={"grade_id": "parameter-count", "solution": true}
def parameter_count(layers, width, vocab, context):
    """Number of parameters of a GPT-2 with a tied head, as an integer."""
    ### BEGIN SOLUTION
    return (vocab + context + 2) * width + layers * (12 * width**2 + 13 * width)
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-parameter-count", "grade": true, "points": 3}
def visible(student):
    count = student.call("parameter_count", 12, 768, 50_257, 1024)
    student.close("parameter_count of GPT-2 small", count, 124_439_808, rtol=1e-12)
check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    from ironlaw.transformer import Shape
    for layers, width, vocab, context in ((48, 1600, 50_257, 1024), (1, 96, 700, 33)):
        got = student.call("parameter_count", layers, width, vocab, context)
        want = Shape("unseen", layers, width, 1, context, vocab).parameters
        student.close("parameter_count of an unseen model", got, want, rtol=1e-12, tell=False)
check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# Training with AdamW also keeps a gradient for each weight, and two moments. The recipe decides:
#
# | recipe | weight | gradient | FP32 master copy | the two moments |
# |---|---|---|---|---|
# | `"autocast"`: PyTorch's mixed precision | FP32 | FP32 | none: the weights are FP32 | FP32 each |
# | `"document"`: the classic mixed precision | FP16 | FP16 | yes | FP32 each |
# | `"pure-bf16"`: everything in 16 bits | BF16 | BF16 | none | BF16 each |
#
# FP32 takes four bytes, FP16 and BF16 take two.
#
# **1b (2 points).** Return the bytes in a dictionary with the keys `"weights"`, `"gradients"`,
# `"master"` and `"moments"` (both together). An unknown recipe raises a `ValueError`.
#
# <details><summary>Hint</summary>Two of the recipes come to 16 bytes per parameter.</details>

# %% nbgrader={"grade_id": "state-bytes", "solution": true}
def state_bytes(parameters, recipe):
    """Bytes of weights, gradients, master copy and moments with AdamW, as a dictionary."""
    ### BEGIN SOLUTION
    widths = {"autocast": (4, 4, 0, 8), "document": (2, 2, 4, 8), "pure-bf16": (2, 2, 0, 4)}
    if recipe not in widths:
        raise ValueError(f"recipe = {recipe!r}, but it must be one of {', '.join(widths)}")
    weight, gradient, master, moments = (parameters * width for width in widths[recipe])
    return {"weights": weight, "gradients": gradient, "master": master, "moments": moments}
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-state-bytes", "grade": true, "points": 2}
def visible(student):
    found = student.call("state_bytes", 1000, "document")
    student.require(isinstance(found, dict), "state_bytes should return a dictionary.")
    wanted = {"weights": 2000, "gradients": 2000, "master": 4000, "moments": 8000}
    for name, want in wanted.items():
        student.close(f"{name} in the document's recipe", found.get(name), want)
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
                want = parameters * width
                student.close(f"{name}, recipe {recipe}", found.get(name), want, tell=False)
    student.raises("state_bytes", 77, "fp64")
check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# ### What a block keeps for the backward pass
#
# To compute its gradient, a layer needs what it read on the way forward. Under autocast the norms,
# the softmax and the residual stream (the running sum that each half-block adds to) stay in FP32;
# everything that a matrix product reads is in 16 bits. One block then keeps:
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
# Dropout is off. Of the rows *tiled* and *materialised* one kind holds: tiled attention
# (FlashAttention) never writes the S × S scores, and computes them again in the backward pass.
#
# **1c (4 points).** Add it up.
#
# <details><summary>Hint</summary>Count for one token. Gather the tensors by format first: how many
# d are they wide together? Then come the statistics, and last what every head adds.</details>

# %% nbgrader={"grade_id": "block-bytes", "solution": true}
def block_bytes(batch, seq, width, heads, attention="tiled"):
    """Bytes that one block keeps under autocast; `attention` is "tiled" or "materialised"."""
    ### BEGIN SOLUTION
    per_head = 4 if attention == "tiled" else (4 + 2) * seq
    return batch * seq * ((2 * 4 + 14 * 2) * width + 4 * 4 + per_head * heads)
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
            student.close(f"block_bytes of an unseen block, {name}", got, want, tell=False)
    got, want = student.call("block_bytes", 2, 64, 64, 2), 36 * 2 * 64 * 64 + 24 * 2 * 64
    student.close("block_bytes without naming the form of attention", got, want, tell=False)
check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# ### The fullest moment
#
# Memory runs out at the worst moment, and two compete. At **the start of the backward pass** all
# that the forward pass kept is still there. PyTorch holds at once:
#
# - weights and moments (no gradients: the last ones were freed, the next are not computed yet);
# - what every block keeps;
# - 16-bit copies of the weight matrices, made by autocast for the products: 12 d² numbers in every
#   block, and the V × d of the head;
# - of the final norm its input (B × S × d, FP32), its statistics (2 × B × S, FP32) and its output
#   (B × S × d, 16 bit);
# - **three** FP32 tensors of B × S × V: the log-softmax over the vocabulary, and two gradients on
#   their way through it;
# - the token numbers and the targets, B × S of 8 bytes each.
#
# At **the update** the activations have gone. Weights, gradients and moments are there, and AdamW
# makes one more FP32 number per parameter for a moment.
#
# **1d (3 points).** Return the larger of the two, in bytes, under autocast.
#
# <details><summary>Hint</summary>Write two sums and take the larger. Your functions give most of
# the terms; mind which of the state's four parts are there at either moment.</details>

# %% nbgrader={"grade_id": "step-bytes", "solution": true}
def step_bytes(layers, width, heads, vocab, context, batch, seq, attention="tiled"):
    """Bytes at the fullest moment of a training step under autocast with AdamW."""
    ### BEGIN SOLUTION
    parameters = parameter_count(layers, width, vocab, context)
    state = state_bytes(parameters, "autocast")
    kept = layers * block_bytes(batch, seq, width, heads, attention)
    copies = 2 * (12 * layers * width**2 + vocab * width)
    last = batch * seq * ((4 + 2) * width + 8 + 3 * 4 * vocab + 16)
    backward = state["weights"] + state["moments"] + kept + copies + last
    return max(backward, sum(state.values()) + 4 * parameters)
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-step-bytes", "grade": true, "points": 3}
def visible(student):
    most = student.call("step_bytes", 4, 128, 4, 4096, 256, 8, 256)
    student.close("step_bytes of nano on 8 x 256 tokens", most, 159_122_432, rtol=1e-3)
    most = student.call("step_bytes", 12, 768, 12, 50_257, 1024, 1, 16)
    student.close("step_bytes of GPT-2 small on 16 tokens", most, 2_488_796_160, rtol=1e-3)
check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    from ironlaw.predict import peak
    from ironlaw.transformer import Shape
    for layers, width, heads, vocab, context, batch, seq in (
            (12, 768, 12, 50_257, 1024, 12, 1024), (24, 512, 8, 3_000, 512, 2, 512),
            (2, 1024, 16, 6_000, 256, 1, 256), (3, 64, 4, 5_000, 128, 30, 100)):
        got = student.call("step_bytes", layers, width, heads, vocab, context, batch, seq)
        want = peak.closed_form(Shape("", layers, width, heads, context, vocab), batch, seq)
        student.close("step_bytes of an unseen step", got, want, rtol=3e-3, tell=False)
    shape = Shape("unseen", 6, 256, 8, 512, 2_000)
    want = peak.closed_form(shape, 4, 512) + 6 * (6 * 8 * 4 * 512**2 - 4 * 8 * 4 * 512)
    got = student.call("step_bytes", 6, 256, 8, 2_000, 512, 4, 512, "materialised")
    student.close("step_bytes with materialised attention", got, want, rtol=3e-3, tell=False)
check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# **1e (2 points).** And the question that started it: the largest batch, a whole number, whose
# step stays within `limit` bytes (tiled attention). When not even one sequence fits, it is 0.
#
# <details><summary>Hint</summary>Try 1, 2, 3 … until it no longer fits.</details>

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
        limit = sum(peak.closed_form(shape, size, seq) for size in (batch, batch + 1)) / 2
        got = student.call("largest_batch", limit, *sizes, seq)
        student.close("largest_batch within an unseen limit", got, batch, tell=False)
    got = student.call("largest_batch", 1e6, 12, 768, 12, 50_257, 1024, 1024)
    student.close("largest_batch where nothing fits", got, 0, atol=1e-9, tell=False)
check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# ### Commit yourself
#
# **1f (1 point).** Without running your functions: at the fullest moment of a step of *your* model
# (nano on 8 × 256 tokens, on a GPU GPT-2 124M on 4 × 1,024), how many bytes are held, and which is
# the largest of `"state"` (weights, gradients, moments), `"activations"` (what the blocks keep) and
# `"logits"` (the tensors of B × S × V)? Any guess earns the point.

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
# GPT-2 with both forms of attention, and looks for the largest batch within a limit: one GB on a
# CPU, nine tenths of a GPU's memory. Then the cell fills itself: **save the notebook**.

# %% nbgrader={"grade_id": "measure", "locked": false}
measured = measure_memory(r"""
""")
print(measured)

# %% nbgrader={"grade_id": "check-measure", "grade": true, "points": 1}
from ironlaw.lab.memory_run import consistent

check(consistent)
### BEGIN HIDDEN TESTS
from ironlaw_autograder.records import memory

check(memory.holds)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 · Compare
#
# First what PyTorch found in one block, in the order in which the block kept it (find each tensor
# in the table of 1c), and what was held at the fullest moment.

# %%
for tensor in measured.flash.saved_tensors:
    print(f"{tensor.where:24} {tensor.shape!s:22} {tensor.dtype:10} {tensor.bytes:14,} B")
print()
for kind, size in sorted(measured.flash.memory_bytes.items(), key=lambda item: -(item[1] or 0)):
    print(f"{kind:14} {size or 0:16,} B")
print("your guess was that the largest would be:", guess_largest)

# %% [markdown]
# The step that was measured, in the numbers that your functions ask for:

# %%
step, config = measured.flash, measured.flash.config
sizes = (12, 768, 12, 50_257, 1024) if config["model"] == "gpt2-124m" else (4, 128, 4, 4096, 256)
layers, width, heads, vocab, context = sizes
print(f"L = {layers}, d = {width}, H = {heads}, V = {vocab:,}, C = {context:,}; "
      f"B = {config['batch']} sequences of the whole context, {config['precision']}")

# %% [markdown]
# **3a (1 point).** Set `predicted_peak` to what your account gives for this step (tiled
# attention). The point is for agreement with PyTorch to within two per cent.

# %% nbgrader={"grade_id": "predicted-peak", "solution": true}
# Set predicted_peak, in bytes.
### BEGIN SOLUTION
predicted_peak = step_bytes(*sizes, config["batch"], context)
### END SOLUTION

# %% nbgrader={"grade_id": "check-predicted-peak", "grade": true, "points": 1}
def visible(student):
    step = student.record("measured", "MemoryRun").flash
    peak = step.tracker_peak_bytes or step.memory_bytes["peak"]
    student.close("predicted_peak", student.value("predicted_peak"), peak, rtol=0.02)
check(visible)

# %% [markdown]
# Now your guess, what your functions say, and what PyTorch counted. Bytes can be counted, so
# nothing here is noise: a residual above two per cent is a mistake that can be found. (The few
# bytes left are Adam's step counters, position numbers, and token numbers that it overlooks.)

# %%
measured.compare(parameter_count, state_bytes, block_bytes, step_bytes, largest_batch,
                 predicted_peak=predicted_peak, guess=guess_peak_bytes)

# %% [markdown]
# **3b (1 point).** Set `bytes_per_sequence`: the bytes that one more sequence in the batch adds to
# the peak. Take it from two *measured* batches: `measured.sweep.peaks` lists (batch, bytes).
#
# <details><summary>Hint</summary>Two points make a line, and you want its slope. Choose the two
# largest batches: at very small ones another moment may be the fullest, and it bends.</details>

# %% nbgrader={"grade_id": "bytes-per-sequence", "solution": true}
# Set bytes_per_sequence from measured.sweep.peaks.
### BEGIN SOLUTION
(small, less), (large, more) = measured.sweep.peaks[-2:]
bytes_per_sequence = (more - less) / (large - small)
### END SOLUTION

# %% nbgrader={"grade_id": "check-bytes-per-sequence", "grade": true, "points": 1}
def visible(student):
    student.number("bytes_per_sequence", student.value("bytes_per_sequence"), low=1)
check(visible)
### BEGIN HIDDEN TESTS
from ironlaw_autograder.records import memory

check(memory.adds_per_sequence)
### END HIDDEN TESTS

# %% [markdown]
# ## 4 · Explain
#
# **4 (2 points).** In four to six sentences: which part of your step is the largest, and which
# *one* change would you make first to fit twice the batch into the same memory? Give the bytes that
# it saves, from this notebook, and its price. Then name a change that sounds helpful and would save
# next to nothing here, with its number.

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
# A smaller batch is no answer to how a larger one fits. A saving without a number earns nothing.
# ### END MARK SCHEME

# %% [markdown]
# ## Hand in
#
# Run all cells once more (nothing is measured again), press **Validate**, save, and hand in this
# file. Validate says which checks still fail; an unanswered question costs only its own points.
