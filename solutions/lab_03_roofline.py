# ---
# jupyter:
#   ironlaw:
#     title: The roofline of your device
#     minutes: 75
#     blocked: [ironlaw.predict.roofline, ironlaw.predict.attention, ironlaw.predict.flops,
#       ironlaw.measure.roofline, ironlaw.widgets.roofline]
# ---

# %% [markdown]
# # Lab 3 · The roofline of your device
#
# **What you do.** You write the roofline as a handful of short functions, say which of GPT-2's
# operations your device will starve of bytes, measure both roofs and all of the operations, and
# explain where they stop short.
#
# **Why.** Two things can limit an operation: how fast the device computes, and how fast it moves
# bytes. More arithmetic never speeds up an operation that waits for memory, so know which it is.
#
# **Before you start:** chapter 2. **Time:** about 75 minutes, of which the machine needs one.
# **Points:** 20.
#
# | device | shapes of | number format |
# |---|---|---|
# | two CPU cores (laptop, Binder) | nano: blocks of width 128 | FP32 |
# | one CUDA GPU (Colab and others) | GPT-2 124M: blocks of width 768 | BF16 (older ones: FP16) |

# %%
from ironlaw.lab import check, measure_kernels

# %% [markdown]
# ## 1 · Predict
#
# ### Work per byte
#
# The *arithmetic intensity* of an operation is its work over its traffic: FLOP per byte that
# crosses between the memory and the chip. For the traffic take the least that can be: every input
# is read once and every result is written once; whatever happens in between stays on the chip.
#
# **1a (3 points).** The product of an m × k matrix (`rows` × `inner`) and a k × n one (`inner` ×
# `columns`) takes 2 m k n FLOP. Write its intensity, for numbers of `bytes_per_value` bytes.
#
# <details><summary>Hint</summary>Which matrices come in, which goes out, and how many values has
# each? With one column (a vector) it comes to about 1 in 16 bits, whatever the size.</details>

# %% nbgrader={"grade_id": "gemm-intensity", "solution": true}
def gemm_intensity(rows, inner, columns, bytes_per_value=2):
    """FLOP per byte of a matrix product that reads its operands and writes its result once."""
    ### BEGIN SOLUTION
    values = rows * inner + inner * columns + rows * columns
    return 2 * rows * inner * columns / (values * bytes_per_value)
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-gemm-intensity", "grade": true, "points": 3}
def visible(student):
    got = student.call("gemm_intensity", 4096, 4096, 4096, 2)
    student.close("gemm_intensity(4096, 4096, 4096, 2)", got, 1365.333333)
    got = student.call("gemm_intensity", 4096, 4096, 1, 2)
    student.close("gemm_intensity(4096, 4096, 1, 2), a matrix times a vector", got, 0.999512,
                  rtol=1e-5)
check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    from ironlaw.predict import roofline as reference
    for sizes in ((8192, 768, 2304, 2), (20_480, 128, 384, 4), (1, 500, 3, 1), (7, 11_000, 13, 8)):
        got, want = student.call("gemm_intensity", *sizes), reference.gemm(*sizes).intensity
        student.close("gemm_intensity of an unseen product", got, want, tell=False)
    got, want = student.call("gemm_intensity", 64, 32, 16), reference.gemm(64, 32, 16).intensity
    student.close("gemm_intensity without naming the bytes of a value", got, want, tell=False)
check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# **1b (2 points).** An operation that works value by value reads `inputs` tensors of one size and
# writes one such tensor. By convention softmax costs 5 FLOP per value (compare, subtract,
# exponential, add, divide), a layer norm 8, GELU in its tanh form 9, and adding two tensors 1.
#
# <details><summary>Hint</summary>The number of values cancels. Adding two tensors reads two and
# writes one.</details>

# %% nbgrader={"grade_id": "elementwise-intensity", "solution": true}
def elementwise_intensity(flops_per_value, bytes_per_value=2, inputs=1):
    """FLOP per byte of an operation that reads `inputs` tensors and writes one."""
    ### BEGIN SOLUTION
    return flops_per_value / ((inputs + 1) * bytes_per_value)
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-elementwise-intensity", "grade": true, "points": 2}
def visible(student):
    got = student.call("elementwise_intensity", 5, 2)
    student.close("elementwise_intensity(5, 2), softmax in 16 bits", got, 1.25)
    got = student.call("elementwise_intensity", 1, 4, inputs=2)
    student.close("elementwise_intensity(1, 4, inputs=2), an FP32 addition", got, 0.08333333)
check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    from ironlaw.predict import roofline as reference
    for flops, size, inputs in ((9, 4, 1), (8, 2, 3), (30.5, 1, 2)):
        got = student.call("elementwise_intensity", flops, size, inputs)
        want = reference.elementwise("unseen", 1000, flops, inputs, size).intensity
        student.close("elementwise_intensity of an unseen operation", got, want, tell=False)
    got = student.call("elementwise_intensity", 3)
    student.close("elementwise_intensity with its defaults", got, 0.75, tell=False)
check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# ### Attention, written out and fused
#
# One head of attention works on queries, keys and values of S × d each (`seq` tokens, `head_width`
# channels) and returns a result of S × d. It takes two products: scores = queries · keysᵀ, and
# weights · values, each 2 S² d FLOP. Count these products only; the softmax between them is small
# beside them.
#
# - **materialised**: three kernels. The first reads queries and keys and writes the S × S scores;
#   the second reads the scores and writes the S × S weights; the third reads weights and values and
#   writes the result.
# - **fused**: one kernel, which works in tiles. Queries, keys and values are read once, the result
#   is written once, and no score ever leaves the chip.
#
# **1c (4 points).** Write the intensity of one head for both forms.
#
# <details><summary>Hint</summary>List the tensors that cross, kernel by kernel, and add up their
# values. With longer and longer sequences one form tends to a limit, the other grows.</details>

# %% nbgrader={"grade_id": "attention-intensity", "solution": true}
def attention_intensity(seq, head_width, form, bytes_per_value=2):
    """FLOP per byte of one head; `form` is "materialised" or "fused"."""
    ### BEGIN SOLUTION
    values = 4 * seq * head_width + (4 * seq**2 if form == "materialised" else 0)
    return 4 * seq**2 * head_width / (values * bytes_per_value)
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-attention-intensity", "grade": true, "points": 4}
def visible(student):
    got = student.call("attention_intensity", 1024, 64, "materialised", 2)
    student.close("attention_intensity(1024, 64, 'materialised', 2)", got, 30.11764706)
    got = student.call("attention_intensity", 1024, 64, "fused", 2)
    student.close("attention_intensity(1024, 64, 'fused', 2)", got, 512)
check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    from ironlaw.predict import attention
    for seq, width, size in ((256, 32, 4), (8192, 128, 2), (48, 80, 1)):
        flops = attention.products_flops(seq, width)
        stored = attention.materialised_traffic(seq, width, size)
        fused = attention.head_tensors_bytes(seq, width, bytes_per_value=size)
        for form, traffic in (("materialised", stored), ("fused", fused)):
            got = student.call("attention_intensity", seq, width, form, size)
            want = flops / traffic
            student.close(f"attention_intensity of an unseen head, {form}", got, want, tell=False)
    got = student.call("attention_intensity", 512, 64, "fused")
    student.close("attention_intensity without naming the bytes of a value", got, 256, tell=False)
check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# ### The roof
#
# A device computes at most *R* FLOP per second and moves at most *W* bytes per second. Neither
# limit can be passed, and an operation of intensity *I* feels both: the first as a flat roof, the
# second as a slope, since every byte that arrives brings *I* FLOP to do. They meet at the *ridge
# point*, the intensity at which memory feeds the arithmetic exactly as fast as it works. To the
# left of it an operation is **memory-bound**; at it, or to the right, **compute-bound**.
#
# **1d (1 point).** The ridge point, in FLOP per byte.

# %% nbgrader={"grade_id": "ridge-point", "solution": true}
def ridge_point(peak, bandwidth):
    """Intensity at which both roofs meet; `peak` in FLOP/s, `bandwidth` in bytes/s."""
    ### BEGIN SOLUTION
    return peak / bandwidth
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-ridge-point", "grade": true, "points": 1}
def visible(student):
    got = student.call("ridge_point", 312e12, 2039e9)
    student.close("ridge_point(312e12, 2039e9), an A100 in BF16", got, 153.0162, rtol=1e-5)
check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    for peak, bandwidth in ((2.1e11, 2.4e10), (9.89e14, 3.35e12), (5.0, 8.0)):
        got = student.call("ridge_point", peak, bandwidth)
        student.close("ridge_point of an unseen device", got, peak / bandwidth, tell=False)
check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# **1e (2 points).** The attainable rate, in FLOP/s.

# %% nbgrader={"grade_id": "attainable", "solution": true}
def attainable(intensity, peak, bandwidth):
    """The most FLOP/s that an operation of this intensity can reach."""
    ### BEGIN SOLUTION
    return min(peak, intensity * bandwidth)
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-attainable", "grade": true, "points": 2}
def visible(student):
    for intensity, want in ((32, 6.5248e13), (500, 312e12)):
        got = student.call("attainable", intensity, 312e12, 2039e9)
        student.close(f"attainable({intensity}, 312e12, 2039e9)", got, want)
check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    from ironlaw.predict import roofline as reference
    for intensity, peak, bandwidth in ((0.25, 2.1e11, 2.4e10), (8.75, 2.1e11, 2.4e10),
                                       (8.7, 2.1e11, 2.4e10), (60.0, 2.1e11, 2.4e10),
                                       (190.0, 6.5e13, 3.2e11), (1e4, 6.5e13, 3.2e11)):
        got = student.call("attainable", intensity, peak, bandwidth)
        want = reference.attainable(intensity, peak, bandwidth)
        student.close("attainable for an operation that you have not seen", got, want, tell=False)
check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# **1f (1 point).** And which roof it is: `"memory"` or `"compute"`.

# %% nbgrader={"grade_id": "bound", "solution": true}
def bound(intensity, peak, bandwidth):
    """"memory" to the left of the ridge point, "compute" at it or to the right of it."""
    ### BEGIN SOLUTION
    return "memory" if intensity < ridge_point(peak, bandwidth) else "compute"
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-bound", "grade": true, "points": 1}
def visible(student):
    for intensity, want in ((32, "memory"), (500, "compute")):
        got = student.call("bound", intensity, 312e12, 2039e9)
        student.require(got == want, f"bound({intensity}, 312e12, 2039e9) is {got!r}; "
                                     f"it should be {want!r}.")
check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    for intensity, peak, bandwidth, want in (
            (8.0, 64.0, 8.0, "compute"), (7.99, 64.0, 8.0, "memory"),
            (3e3, 9.89e14, 3.35e12, "compute"), (0.5, 2e11, 9e9, "memory")):
        got = student.call("bound", intensity, peak, bandwidth)
        student.require(got == want, "bound names the wrong roof for an unseen operation.")
check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# ### Commit yourself
#
# **1g (1 point).** These of GPT-2's operations will be measured on your device:
#
# | name | what it is |
# |---|---|
# | `"QKV product"` | many tokens times the weights for queries, keys and values |
# | `"feed-forward product"` | many tokens times the first feed-forward matrix |
# | `"head product"` | tokens times the output head |
# | `"matrix times vector"` | one token through a layer, as when text is generated |
# | `"softmax"` | over rows of scores |
# | `"layer norm"` | over tokens |
# | `"GELU"` | over the feed-forward's inner tensor |
# | `"attention, materialised"` | the three kernels of 1c |
# | `"attention, fused"` | one kernel |
#
# Guess your device's ridge point (FLOP per byte, in the format of the first table), and list the
# names that will turn out memory-bound. Laptops move tens of GB per second, data-centre GPUs
# thousands. Any guess earns the point.

# %% nbgrader={"grade_id": "guess", "solution": true}
# Set guess_ridge and guess_memory_bound (a list of names).
### BEGIN SOLUTION
guess_ridge = 10
guess_memory_bound = ["matrix times vector", "softmax", "layer norm", "GELU",
                      "attention, materialised"]
### END SOLUTION

# %% nbgrader={"grade_id": "check-guess", "grade": true, "points": 1}
def visible(student):
    names = {"QKV product", "feed-forward product", "head product", "matrix times vector",
             "softmax", "layer norm", "GELU", "attention, materialised", "attention, fused"}
    student.number("guess_ridge", student.value("guess_ridge"), low=1e-3, high=1e5)
    listed = student.value("guess_memory_bound")
    student.require(isinstance(listed, list | tuple | set) and len(listed) > 0,
                    "guess_memory_bound should be a list of at least one name.")
    for name in listed:
        student.require(isinstance(name, str) and name in names,
                        f"{name!r} is not one of the names in the table.")
check(visible)

# %% [markdown]
# ## 2 · Measure
#
# **2 (2 points).** Run the next cell once. It measures the best matrix product in each number
# format, and then lets GPT-2's operations take turns with three ways to stream through memory (a
# copy, a read, an update in place) and a large product. Each operation moves more bytes than the
# last cache of your processor holds, so that the memory is what is read. Attention is timed without
# its causal mask: both forms then compute all of the S² scores and can be compared. When it is
# done, the cell fills itself: **save the notebook**.
#
# Close other programs first: what they take is missing from every number below.

# %% nbgrader={"grade_id": "measure", "locked": false}
measured = measure_kernels(r"""
""")
print(measured)

# %% nbgrader={"grade_id": "check-measure", "grade": true, "points": 2}
from ironlaw.lab.roofline_run import consistent

check(consistent)
### BEGIN HIDDEN TESTS
from ironlaw_autograder.records import roofline

check(roofline.holds)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 · Compare
#
# First the roofs. A number format changes the peak and leaves the bandwidth where it is, so every
# format has a ridge point of its own. (A format that is *slower* than FP32 here is emulated: your
# device has no arithmetic for it.)

# %%
roof = measured.roofline
for name, rate in roof.bandwidths.items():
    print(f"{name:8} {rate / 1e9:10.1f} GB/s")
for dtype, rate in measured.profile.matmul.items():
    print(f"{dtype:8} {rate.flops_per_second / 1e9:10.1f} GFLOP/s, ridge point at "
          f"{ridge_point(rate.flops_per_second, roof.bytes_per_second):8.1f} FLOP per byte")
print(f"in turns with the operations, {roof.dtype}: {roof.peak_flops_per_second / 1e9:.1f} GFLOP/s,"
      f" ridge point at {ridge_point(roof.peak_flops_per_second, roof.bytes_per_second):.1f}; "
      f"your guess was {guess_ridge}")

# %% [markdown]
# The two peaks may differ: the second was measured under the same circumstances as the operations,
# and it is the one to hold them against. For that, your functions need each operation's intensity.

# %%
def my_intensity(kernel):
    """Intensity of a measured operation, by the functions of section 1."""
    sizes, width = [int(n) for n in kernel.shape.split(" x ")], roof.bytes_per_value
    if kernel.name.endswith("product"):
        return gemm_intensity(*sizes, width)
    if kernel.name == "matrix times vector":
        return gemm_intensity(*sizes, 1, width)
    if kernel.name.startswith("attention"):
        return attention_intensity(*sizes[2:], kernel.name.split(", ")[1], width)
    return elementwise_intensity({"softmax": 5, "layer norm": 8, "GELU": 9}[kernel.name], width)


for kernel in roof.kernels:
    print(f"{kernel.name:26} {my_intensity(kernel):10.3g} FLOP/B "
          f"{kernel.flops_per_second / 1e9:12.1f} GFLOP/s")

# %% [markdown]
# **3a (1 point).** Set `predicted_bound`: a dictionary from the name of every operation in
# `roof.kernels` to `"memory"` or `"compute"`, by your functions and the measured roofs
# `roof.peak_flops_per_second` and `roof.bytes_per_second`.

# %% nbgrader={"grade_id": "predicted-bound", "solution": true}
# Set predicted_bound.
### BEGIN SOLUTION
predicted_bound = {kernel.name: bound(my_intensity(kernel), roof.peak_flops_per_second,
                                      roof.bytes_per_second) for kernel in roof.kernels}
### END SOLUTION

# %% nbgrader={"grade_id": "check-predicted-bound", "grade": true, "points": 1}
from ironlaw.lab.roofline_run import names_bounds

check(names_bounds)
### BEGIN HIDDEN TESTS
from ironlaw_autograder.records import roofline

check(roofline.bounds_hold)
### END HIDDEN TESTS

# %% [markdown]
# **3b (1 point).** Set `reached`: a dictionary from the name of every operation to the share of its
# own roof that it reached. Near 1 the roof explains the operation; far below, something else does.
#
# <details><summary>Hint</summary>What it did is in `kernel.flops_per_second`. Which of your
# functions knows what it could have done?</details>

# %% nbgrader={"grade_id": "reached", "solution": true}
# Set reached.
### BEGIN SOLUTION
reached = {kernel.name: kernel.flops_per_second / attainable(
    my_intensity(kernel), roof.peak_flops_per_second, roof.bytes_per_second)
    for kernel in roof.kernels}
### END SOLUTION

# %% nbgrader={"grade_id": "check-reached", "grade": true, "points": 1}
from ironlaw.lab.roofline_run import names_shares

check(names_shares)
### BEGIN HIDDEN TESTS
from ironlaw_autograder.records import roofline

check(roofline.shares_hold)
### END HIDDEN TESTS

# %% [markdown]
# Here they are together: the roof over each operation by your functions, and the rate that it did
# reach. A residual of −90 % is a tenth of the roof. Your points are kept: open chapter 2 again, and
# the roofline widget shows them as squares.

# %%
print("memory-bound by your functions:",
      ", ".join(name for name, side in predicted_bound.items() if side == "memory"))
print("memory-bound by your guess:    ", ", ".join(guess_memory_bound))
measured.compare(my_intensity, attainable)

# %% [markdown]
# ## 4 · Explain
#
# **4 (2 points).** In four to six sentences: take the operation that is furthest below its roof.
# Say which roof it is under, give the share that it reached, and name one reason that the roofline
# leaves out and that could account for it, with a number from this notebook. Then say what would
# speed up your *most* memory-bound operation, and what would not.

# %% [markdown] nbgrader={"grade_id": "explain", "grade": true, "solution": true, "points": 2}
# GELU is the furthest below its roof: at 1.12 FLOP per byte the slope allows 62 GFLOP/s, and it
# reached 3.2, or 5 %. Part of that is my busy machine, which gave the measurement 24 % of the
# processor; but the layer norm ran beside it, with as many bytes and nearly as many FLOP, and
# reached 14 %. What is left is tanh: the roofline counts it as one FLOP and holds it against the
# peak of matrix products, while it takes many instructions, so that GELU has a lower roof of its
# own. My most memory-bound operation is the matrix times a vector, 0.5 FLOP per byte. Several
# vectors at once would help, or narrower numbers; a faster processor with this memory would not.

# %% [markdown] nbgrader={"grade_id": "rubric-explain", "locked": true}
# ### BEGIN MARK SCHEME
# **How 4 is marked**
#
# - 1 point: the operation with the smallest share in the student's own record, the roof above it,
#   the share, and a cause that the roofline leaves out (slow functions counted as one FLOP, traffic
#   beyond once in and once out, shapes too small for the matrix units, launches, one busy core, a
#   busy machine), supported by a number from the notebook.
# - 1 point: for the operation of the lowest intensity, a change that raises intensity or bandwidth
#   (batching, fusing, a narrower format, faster memory), and one that would not help (a higher
#   peak), with the reason.
#
# "It is memory-bound" alone explains no distance from the memory roof and earns nothing.
# ### END MARK SCHEME

# %% [markdown]
# ## Hand in
#
# Run all cells once more (nothing is measured again), press **Validate**, save, and hand in this
# file. Validate says which checks still fail; an unanswered question costs only its own points.
