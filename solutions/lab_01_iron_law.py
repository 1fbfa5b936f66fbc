# ---
# jupyter:
#   ironlaw:
#     title: The iron law on your own device
#     minutes: 75
#     blocked:
#       - ironlaw.predict.iron_law
#       - ironlaw.predict.flops
#       - ironlaw.predict.step_time
#       - ironlaw.measure.flops
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Lab 1 · The iron law on your own device
#
# **What you do.** You write the iron law of training as three short functions, commit yourself
# to a guess, train a real GPT-2 on the device in front of you, and account for the gap between
# the two.
#
# **Why.** A training run is the most expensive program that most people ever start. Whoever can
# say beforehand how long it will take, and afterwards where the time went, can decide what to
# change. Both take one equation and a little practice in distrusting it.
#
# **Before you start:** chapter 1. **Time:** about 75 minutes, of which the machine needs three.
# **Points:** 20.
#
# | device | model | what runs |
# |---|---|---|
# | two CPU cores (laptop, Binder) | nano: 4 blocks of width 128 | 60 steps, under 1.8 GB |
# | one CUDA GPU (Colab and others) | GPT-2 124M: 12 blocks of width 768 | 100 steps |
#
# The cells are the same on both. Your measurement is stored inside this notebook, so this one
# file is all that you hand in. The cell after each question checks your answer and says what is
# wrong with it; more checks, on inputs that you have not seen, run when the lab is graded.

# %%
from ironlaw.lab import Residuals, check, measure_training

# %% [markdown]
# ## 1 · Predict
#
# ### The iron law
#
# A device can do at most *R* floating-point operations (FLOP) per second, its *peak*. A real run
# sustains only the share *η* of that (a fraction between 0 and 1, the *utilisation*). With
# *n* devices side by side (whose peak together, *n* · *R*, chapter 1 calls *R*<sub>peak</sub>),
# work of *O* operations takes the time
#
# > *T* = *O* / (*n* · *R* · *η*)
#
# **1a (3 points).** Write it as a function. Times are seconds, work is FLOP, the peak is FLOP/s
# of one device.
#
# <details><summary>Hint</summary>Check the units: FLOP divided by FLOP/s leaves seconds.
# More devices must make the time shorter.</details>

# %% nbgrader={"grade_id": "training-seconds", "solution": true}
def training_seconds(operations, peak, utilisation, accelerators=1):
    """Seconds that `operations` FLOP take on `accelerators` devices.

    `peak` is the peak of one device in FLOP/s, `utilisation` a fraction in (0, 1].
    """
    ### BEGIN SOLUTION
    for name, value in (("operations", operations), ("peak", peak),
                        ("accelerators", accelerators)):
        if not value > 0:
            raise ValueError(f"{name} = {value}, but it must be greater than 0")
    if not 0 < utilisation <= 1:
        raise ValueError(f"utilisation = {utilisation}, but it must be a fraction in (0, 1]")
    return operations / (accelerators * peak * utilisation)
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-training-seconds", "grade": true, "points": 3}
def visible(student):
    seconds = student.call("training_seconds", 6e18, 1e14, 0.5)
    student.close("training_seconds(6e18, 1e14, 0.5)", seconds, 120_000.0)
    seconds = student.call("training_seconds", 6e18, 1e14, 0.5, 8)
    student.close("training_seconds(6e18, 1e14, 0.5, 8)", seconds, 15_000.0)

check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    for operations, peak, share, devices in ((3.7e21, 3.12e14, 0.41, 96), (8.1e15, 2.2e11, 0.93, 1),
                                             (1.9e23, 9.89e14, 1.0, 4096)):
        got = student.call("training_seconds", operations, peak, share, devices)
        student.close("training_seconds on numbers that you have not seen", got,
                      operations / (devices * peak * share), tell=False)
    alone = student.call("training_seconds", 5e17, 7e13, 0.37)
    student.close("training_seconds without naming the number of devices", alone,
                  5e17 / (7e13 * 0.37), tell=False)

check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# **1b (1 point).** A utilisation of 38 is a slip: somebody meant 38 %. A function that divides
# by it anyway gives a time that looks fine and is wrong by a factor of a hundred. Make
# `training_seconds` raise a `ValueError` that names the culprit whenever the utilisation is not a
# fraction in (0, 1]. Change your function above and run this check.

# %% nbgrader={"grade_id": "check-refusal", "grade": true, "points": 1}
def visible(student):
    student.raises("training_seconds", 6e18, 1e14, 38)

check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    for share in (1.0000001, 0.0, -0.4, 100):
        student.raises("training_seconds", 2e18, 3e13, share)
    for share in (1.0, 0.004):
        got = student.call("training_seconds", 2e18, 3e13, share)
        student.close("training_seconds with a utilisation that is allowed", got,
                      2e18 / (3e13 * share), tell=False)

check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# ### How much work is one token?
#
# Multiplying an m × k matrix by a k × n one takes 2 m k n FLOP: one multiplication and one
# addition for each of the m k n pairs. In GPT-2 with *L* blocks of width *d*, a vocabulary of
# *V* and sequences of *S* tokens, one token meets, on its way **forward**:
#
# | where | matrix products | count |
# |---|---|---|
# | queries, keys and values | a row of *d* by d × 3d | each block |
# | scores against all *S* tokens | over *d* channels, all heads together | each block |
# | weighted sum of *S* values | over *d* channels | each block |
# | output projection | a row of *d* by d × d | each block |
# | feed-forward | a row of *d* by d × 4d, then *4d* by 4d × d | each block |
# | output head | a row of *d* by d × V | once |
#
# Count the scores in full, as if no token were masked. The **backward** pass needs two products
# for every one of these, one for the gradient of each factor: of the weights and of their input,
# or, in scores and weighted sum, where no weights take part, of two activations.
#
# **1c (4 points).** Write the FLOP that training spends on one token, forward and backward.
#
# <details><summary>Hint 1</summary>Start with the forward pass of one block. The weights
# alone give 2 · (3 + 1 + 8) d².</details>
# <details><summary>Hint 2</summary>Scores and weighted sum cost 2Sd each. Backward is twice
# forward, so multiply everything by three at the end.</details>

# %% nbgrader={"grade_id": "flops-per-token", "solution": true}
def flops_per_token(layers, width, vocab, seq):
    """Training FLOP per token of a GPT-2 with these sizes on sequences of `seq` tokens."""
    ### BEGIN SOLUTION
    weights = 2 * (3 + 1 + 4 + 4) * width**2
    attention = 2 * 2 * seq * width
    forward = layers * (weights + attention) + 2 * width * vocab
    return 3 * forward
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-flops-per-token", "grade": true, "points": 4}
def visible(student):
    flops = student.call("flops_per_token", 4, 128, 4096, 256)
    student.close("flops_per_token(4, 128, 4096, 256), the nano model", flops, 9_437_184)

check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    from ironlaw.predict import flops as reference
    from ironlaw.transformer import Shape

    for layers, width, vocab, seq in ((12, 768, 50_257, 1024), (7, 320, 9_001, 640),
                                      (48, 1600, 50_257, 512), (1, 64, 2, 3)):
        shape = Shape("unseen", layers, width, 1, max(seq, 1), vocab)
        got = student.call("flops_per_token", layers, width, vocab, seq)
        student.close("flops_per_token of a model that you have not seen", got,
                      reference.per_token(shape, seq), tell=False)

check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# **1d (2 points).** Put both together: the days that training on `tokens` tokens takes.
#
# <details><summary>Hint</summary>Your two functions do the work; a day has 86,400 s.</details>

# %% nbgrader={"grade_id": "run-days", "solution": true}
def run_days(layers, width, vocab, seq, tokens, peak, utilisation, accelerators=1):
    """Days of training on `tokens` tokens; the other arguments as above."""
    ### BEGIN SOLUTION
    work = tokens * flops_per_token(layers, width, vocab, seq)
    return training_seconds(work, peak, utilisation, accelerators) / 86_400
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-run-days", "grade": true, "points": 2}
def visible(student):
    days = student.call("run_days", 12, 768, 50_257, 1024, 10e9, 312e12, 0.4, 8)
    student.close("run_days of GPT-2 124M on 10 billion tokens", days, 0.09909, rtol=1e-3)

check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    from ironlaw.predict import flops as reference
    from ironlaw.transformer import Shape

    for layers, width, vocab, seq, tokens, peak, share, devices in (
            (24, 1024, 50_257, 1024, 3.3e10, 9.89e14, 0.45, 16),
            (6, 512, 12_000, 256, 4e8, 1.1e12, 0.21, 1)):
        work = tokens * reference.per_token(Shape("unseen", layers, width, 1, seq, vocab), seq)
        got = student.call("run_days", layers, width, vocab, seq, tokens, peak, share, devices)
        student.close("run_days of a run that you have not seen", got,
                      work / (devices * peak * share) / 86_400, tell=False)

check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# ### Commit yourself
#
# **1e (1 point).** Before anything is measured: how many tokens per second will your device
# train, and at what utilisation (a fraction)? Nano costs 9.4 million FLOP per token, GPT-2 124M
# about 850 million. Laptop processors multiply matrices at tens to hundreds of GFLOP/s, GPUs of
# data centres at hundreds of TFLOP/s. Any guess between the bounds earns the point; its error is
# yours to explain later.

# %% nbgrader={"grade_id": "guess", "solution": true}
# Set guess_tokens_per_second and guess_mfu.
### BEGIN SOLUTION
guess_tokens_per_second = 6_000
guess_mfu = 0.25
### END SOLUTION

# %% nbgrader={"grade_id": "check-guess", "grade": true, "points": 1}
def visible(student):
    student.number("guess_tokens_per_second", student.value("guess_tokens_per_second"),
                   low=1, high=1e9)
    student.number("guess_mfu, a fraction", student.value("guess_mfu"), low=1e-6, high=1)

check(visible)

# %% [markdown]
# ## 2 · Measure
#
# **2a (2 points).** Run the next cell once. It finds your device, measures how fast it can
# multiply matrices, times a training step of a real GPT-2, and then trains it for a while on
# real text. When it is done, the cell fills itself with what it measured: **save the notebook**.
# Running the cell again only reads that text back.
#
# Close other programs first. If the fan starts or a colleague calls, empty the quotes and
# measure again: a measurement that you do not believe is not worth explaining.

# %% nbgrader={"grade_id": "measure", "locked": false}
measured = measure_training(r"""
""")
print(measured)

# %% nbgrader={"grade_id": "check-measure", "grade": true, "points": 2}
def visible(student):
    run = student.record("measured", "TrainingRun")
    step, training = run.step, run.training
    rate = student.number("the measured tokens/s", step.tokens_per_second, low=1e-3)
    seconds = student.number("the measured seconds per step", step.step_seconds, low=1e-6)
    tokens = student.number("tokens per step", step.tokens_per_step, low=1)
    student.close("tokens/s from tokens and seconds per step", rate, tokens / seconds, rtol=1e-3)
    student.number("the measured MFU", step.mfu, low=1e-6, high=1)
    first = student.number("the first loss", training.losses[0][1], low=0)
    student.require(training.final_loss < first,
                    "The loss did not fall during the run: measure again.")

check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    import math

    import numpy as np
    from ironlaw.config import RunConfig
    from ironlaw.predict import flops as reference

    run = student.record("measured", "TrainingRun")
    step, training = run.step, run.training
    config = RunConfig.from_json(step.config)
    student.close("the FLOP per token in the record", step.flops_per_token,
                  reference.per_token(config.shape, config.sequence), rtol=1e-6, tell=False)
    student.close("the tokens per step in the record", step.tokens_per_step,
                  config.tokens_per_step, tell=False)
    rate = step.flops_per_token * step.tokens_per_second
    student.close("the MFU in the record", step.mfu, rate / step.peak.flops_per_second,
                  rtol=1e-3, tell=False)
    samples = [student.number("a sample", sample, low=1e-6) for sample in step.samples]
    student.require(len(samples) >= 5, "The record holds too few samples of the step.")
    student.close("the seconds per step in the record", step.step_seconds,
                  float(np.median(samples)), rtol=1e-3, tell=False)
    losses = [student.number("a loss", loss, low=0) for _, loss in training.losses]
    student.require(len(losses) >= 2 and training.steps >= 20, "The record's run is too short.")
    start = math.log(config.shape.vocab)
    student.number("the first loss, near the logarithm of the vocabulary", losses[0],
                   low=0.7 * start, high=1.5 * start)
    student.require(run.profile.name == step.device == training.device,
                    "The record mixes measurements of different devices.")

check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 · Compare
#
# **3a (2 points).** Model FLOPs utilisation is the share of the peak that the model's own
# arithmetic used. Write it from the measured rate.
#
# <details><summary>Hint</summary>FLOP per token times tokens per second is FLOP per second.
# No device beats its peak: a result above 1 means that an argument is wrong.</details>

# %% nbgrader={"grade_id": "mfu", "solution": true}
def mfu(flops_of_a_token, tokens_per_second, peak):
    """Model FLOPs utilisation as a fraction; `peak` in FLOP/s.

    Raises ValueError when the result exceeds 1: no run beats its peak.
    """
    ### BEGIN SOLUTION
    share = flops_of_a_token * tokens_per_second / peak
    if share > 1:
        raise ValueError(f"an MFU of {share:.2f} is above the peak: check time, FLOP and peak")
    return share
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-mfu", "grade": true, "points": 2}
def visible(student):
    share = student.call("mfu", 9_437_184, 7_000, 200e9)
    student.close("mfu(9_437_184, 7_000, 200e9)", share, 0.33030144)
    student.raises("mfu", 9_437_184, 70_000, 200e9)

check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    for flops, rate, peak in ((8.6e8, 165_000, 312e12), (4.4e9, 900, 7.7e12), (1e6, 1e6, 1e12)):
        got = student.call("mfu", flops, rate, peak)
        student.close("mfu of a run that you have not seen", got, flops * rate / peak, tell=False)
    student.raises("mfu", 8.6e8, 400_000, 312e12)

check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# **3b (2 points).** How far off is a prediction? The *residual* is what the measurement adds to the
# prediction, as a share of the prediction: +0.5 means that reality took half as much again,
# −0.2 that it took a fifth less.

# %% nbgrader={"grade_id": "residual", "solution": true}
def residual(predicted, measured_value):
    """(measured - predicted) as a fraction of the prediction, with its sign."""
    ### BEGIN SOLUTION
    return (measured_value - predicted) / predicted
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-residual", "grade": true, "points": 2}
def visible(student):
    student.close("residual(2.0, 3.0)", student.call("residual", 2.0, 3.0), 0.5)
    student.close("residual(5.0, 4.0)", student.call("residual", 5.0, 4.0), -0.2)

check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    for predicted, seen in ((17.5, 3.25), (0.004, 0.0093), (1e12, 1e12)):
        got = student.call("residual", predicted, seen)
        student.close("residual of numbers that you have not seen", got,
                      (seen - predicted) / predicted, atol=1e-12, tell=False)

check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# Now the table. The first column is what you guessed, the second what your functions say with
# your guessed utilisation and the *measured* peak, the third what happened. The last row alone is
# predicted from a measurement, the time of one step: its residual is what a whole run adds.

# %%
step, training = measured.step, measured.training
shape = {"nano": (4, 128, 4096, 256), "gpt2-124m": (12, 768, 50_257, 1024)}[step.config["model"]]
flops = flops_per_token(*shape)
predicted_step = training_seconds(flops * step.tokens_per_step, measured.peak, guess_mfu)
predicted_rate = step.tokens_per_step / predicted_step
table = Residuals()
table.add("FLOP per token", "FLOP", predicted=flops, measured=step.flops_per_token)
table.add("one step", "s", guess=step.tokens_per_step / guess_tokens_per_second,
          predicted=predicted_step, measured=step.step_seconds)
table.add("speed", "tokens/s", guess=guess_tokens_per_second, predicted=predicted_rate,
          measured=step.tokens_per_second)
table.add("utilisation (MFU)", "", guess=guess_mfu, predicted=guess_mfu,
          measured=mfu(flops, step.tokens_per_second, measured.peak))
table.add(f"{training.steps} steps, each as timed", "s",
          predicted=training.steps * step.step_seconds, measured=training.seconds)
table

# %% [markdown]
# **3c (1 point).** Set `long_run_days`: the days that *your* device would need to train *your*
# model on one billion tokens, at the speed that you measured (not the one that you guessed).

# %% nbgrader={"grade_id": "long-run", "solution": true}
# Set long_run_days from `measured`.
### BEGIN SOLUTION
long_run_days = 1e9 / measured.step.tokens_per_second / 86_400
### END SOLUTION

# %% nbgrader={"grade_id": "check-long-run", "grade": true, "points": 1}
def visible(student):
    student.number("long_run_days", student.value("long_run_days"), low=1e-9)

check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    rate = student.record("measured", "TrainingRun").step.tokens_per_second
    days = student.value("long_run_days")
    student.close("long_run_days", days, 1e9 / rate / 86_400, rtol=0.01, tell=False)

check(hidden)
### END HIDDEN TESTS

# %% [markdown]
# ## 4 · Explain
#
# **4 (2 points).** In four to six sentences: where does the time go that the iron law did not
# foresee? Take the largest residual of your table. Name one cause that you can defend with a
# number from this notebook, one that you cannot, and say which single measurement would decide
# whether the second is real.

# %% [markdown] nbgrader={"grade_id": "explain", "grade": true, "solution": true, "points": 2}
# My step took about four times as long as its matrix products at full speed would, so the
# utilisation is near a quarter and not one. The number that I can defend is the peak itself: it was
# measured on large square products, and nano's are 128 wide, so even its best product runs slower.
# What I suspect but cannot show is that the optimizer and the norms, which move bytes and multiply
# nothing, take a fixed share of every step. Timing a step at twice the batch would decide it: if
# the time per token falls, there is a part that does not grow with the tokens.

# %% [markdown] nbgrader={"grade_id": "rubric-explain", "locked": true}
# ### BEGIN MARK SCHEME
# **How 4 is marked**
#
# - 1 point: takes the largest residual of the student's own table, with its sign, and supports one
#   cause with a number that stands in the notebook (the peak's shape and size, MFU, spread of the
#   samples, notes on a busy machine, the run's seconds beside steps times step time).
# - 1 point: names a second cause as a suspicion and a measurement that could refute it (another
#   batch, a profile, another precision, a quiet machine), saying what outcome would mean what.
#
# A guess without a number, or "the GPU was slow", earns nothing.
# ### END MARK SCHEME

# %% [markdown]
# ## Hand in
#
# Run all cells once more (nothing is measured again), press **Validate**, save, and hand in this
# file. Validate says which checks still fail; an unanswered question costs only its own points.
