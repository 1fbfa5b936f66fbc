"""`ironlaw train`: trains GPT-2 on real text; resumable."""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from .. import workspace
from ..config import TRAINABLE_OPTIMIZERS, RunConfig
from ..errors import UnavailableError, count
from ..gpt2.settings import STANDARD_LIBRARY, TrainSettings
from ..results import TrainingResult
from ..units import duration, percent, si, significant
from . import _attention, _room, _train_options

RUNS = Path("runs")
PROMPTS = {STANDARD_LIBRARY: "def"}
CONTINUATION = 60
MOST_THREADS = 4096
"""More than any machine has cores; far beyond it the system ends the program without a word."""
_STEP_FLAGS = ("model", "layers", "width", "heads", "vocab", "batch", "seq", "accumulate",
               "precision", "recompute")
_RUN_FLAGS = ("steps", "learning_rate", "warmup", "weight_decay", "clip", "seed", "corpus",
              "checkpoint_every", "dropout", "rewinds", "skip_batches", "init", "pad_vocab",
              "compile")


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    RunConfig.add_flags(parser, _STEP_FLAGS)
    _attention.add_flags(parser)
    add("--optimizer", choices=TRAINABLE_OPTIMIZERS, help="update rule (default: adamw-fused)")
    add("--steps", type=int, help="optimizer steps (default: 200)")
    add("--lr", type=float, dest="learning_rate",
        help="peak learning rate (default: the model's usual one)")
    add("--dropout", type=float, help="share of activations dropped (default: 0)")
    add("--seed", type=int, help="decides initial weights and the order of the text (default: 0)")
    add("--corpus", metavar="FILE", help="a UTF-8 text file (default: the source code of "
                                         "Python's standard library, without its tests)")
    add("--out", type=Path, metavar="DIR",
        help="the run's folder (default: a new one in runs/; with --resume the latest there)")
    add("--resume", action="store_true",
        help="go on from the newest checkpoint; flags left out are as in that run")
    add("--checkpoint-every", type=int, metavar="STEPS",
        help="steps between checkpoints (default: 50; 0: only at the end)")
    _train_options.add_flags(parser)
    _train_options.add_loader_flag(parser)
    add("--threads", type=int, help="CPU threads (default: PyTorch's choice)")
    add("--device", help="cpu, cuda, cuda:N or mps (default: the best there is)")
    _room.add_flag(parser)
    add("--json", action="store_true", help="end with the result as one JSON object")
    # None marks a flag that was not given: a resumed run keeps its own value then.
    parser.set_defaults(**dict.fromkeys(_STEP_FLAGS))


def run(args: argparse.Namespace) -> int:
    if args.threads is not None:
        count("threads", args.threads, high=MOST_THREADS)
    count("loader_workers", args.loader_workers, low=0, high=64)
    from ..gpt2.runtime import prepare

    prepare()  # has an effect only before torch comes in
    from ..measure.device import find, free_bytes  # first: it says so when PyTorch is missing

    # isort: split
    from ..gpt2 import progress
    from ..gpt2.train import InterruptedRunError
    from ..measure import training

    out = _folder(args)
    here = find(args.device)
    settings, resumed = _settings(args, out, here.type)
    attention = _attention.described(settings.run.attention, here.type,
                                     asked=args.attention is not None, resumed=resumed)
    _say(f"Training {settings.run.model} for {settings.steps} steps of "
         f"{settings.run.tokens_per_step} tokens, {settings.run.precision}, "
         f"{attention}, {_attention.loss_described(settings.run.loss_rows)}, in {out}")
    if hint := _train_options.quicker(args, settings, here, resumed=resumed):
        _say(hint)
    free = free_bytes(here)
    _room.check(settings.run, here.type, free, force=args.force, resumed=resumed,
                catalogue_name=here.catalogue_name, say=_say)
    try:
        with _room.memory_errors(settings.run, here, free, resumed=resumed):
            result = training.train(
                settings, out, resume=args.resume, device=args.device, threads=args.threads,
                loader_workers=args.loader_workers, profile=workspace.profile(),
                on_progress=progress.reporter(), say=_say)
    except InterruptedRunError as stopped:
        _say(f"\n{stopped}\nGo on with: {_resume_command(out)}")
        return 130
    (out / "result.json").write_text(json.dumps(result.to_json(), indent=1), encoding="utf-8")
    if args.json:
        print(json.dumps(result.to_json()))
    else:
        print(_summary(result, out))
        print(_continuation(out, PROMPTS.get(result.corpus, "The")))
    return 0


def _folder(args: argparse.Namespace) -> Path:
    if args.out is not None:
        return Path(args.out)
    if not args.resume:
        return RUNS / f"{args.model or 'nano'}-{time.strftime('%Y%m%d-%H%M%S')}"
    latest = sorted(RUNS.glob("*/settings.json"), key=lambda file: file.stat().st_mtime)
    if not latest:
        raise UnavailableError("A run that --resume could go on with",
                               f"{RUNS.resolve()} holds none.",
                               "Name the run's folder with --out, or start one without --resume.")
    return latest[-1].parent


def _settings(args: argparse.Namespace, out: Path, device_type: str) -> tuple[TrainSettings, bool]:
    """What the flags say, flags left out being as in the checkpoint that is resumed, if any."""
    from ..gpt2 import checkpoint

    step = _given(args, (*_STEP_FLAGS, "attention", "loss_rows", "optimizer"))
    rest = _given(args, _RUN_FLAGS)
    if rest.get("corpus", STANDARD_LIBRARY) != STANDARD_LIBRARY:
        rest["corpus"] = str(Path(rest["corpus"]).resolve())
    base = checkpoint.settings_of(out) if args.resume else None
    if args.resume and not (step or rest or out.exists()):
        raise UnavailableError("A run that --resume could go on with",
                               f"there is no folder {out}, and nothing else says what to train.",
                               "Name the folder of a run, or start one without --resume.")
    if base is None:
        if "init" in rest:
            rest["init"], sizes = _start(rest["init"], step)
            step = {**sizes, **step}
        step = {"optimizer": "adamw-fused", "attention": _attention.quickest(device_type),
                "loss_rows": _attention.quickest_rows(device_type), **step}
        return TrainSettings(run=RunConfig(**step), **rest), False
    kept = {f.name: getattr(base, f.name) for f in fields(base) if f.name != "run"}
    return TrainSettings(run=base.run.replace(**step), **{**kept, **rest}), True


def _start(init: str, step: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """`--init` with a path made absolute, and the model that follows where none is given."""
    from ..gpt2.pretrained import preset_of

    preset = preset_of(init)
    if preset is None:
        return str(Path(init).expanduser().resolve()) if Path(init).exists() else init, {}
    return init, {} if "model" in step else {"model": preset}


def _given(args: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _summary(result: TrainingResult, out: Path) -> str:
    lately = [loss for _, loss in result.losses[-20:]]
    held = result.validation_loss
    kind = "mean of the whole run" if "tokens_per_second" in result.notes else "median"
    lines = [
        "",
        f"Loss          {result.losses[0][1]:.3f} at first, {statistics.fmean(lately):.3f} over "
        f"the last {len(lately)} of {result.steps} steps"
        + (f", {held:.3f} on text never trained on" if held is not None else ""),
        f"Speed         {significant(result.tokens_per_second)} tokens/s ({kind}), "
        f"{duration(result.seconds)} in all, {result.threads} CPU threads",
    ]
    if result.mfu is not None and result.peak is not None:
        lines.append(f"MFU           {percent(result.mfu)} of "
                     f"{si(result.peak.flops_per_second, 'FLOP/s')} ({result.peak.source})")
    else:
        lines.append(f"MFU           not known: {result.reasons.get('mfu', '')}")
    lines += [
        *_train_options.told(result),
        f"Corpus        {result.corpus}, {result.notes['corpus']}; "
        f"SHA-256 {result.corpus_sha256[:16]}...",
        f"Checkpoint    {result.checkpoint}",
        f"If stopped    a run goes on with: {_resume_command(out)}",
    ]
    return "\n".join(lines)


def _continuation(out: Path, beginning: str) -> str:
    """A few words by the model just trained, after `beginning`."""
    import torch

    from ..gpt2 import tokens
    from ..gpt2.checkpoint import load_model
    from ..gpt2.sample import sample

    model = load_model(out)
    tokenizer = tokens.for_vocab(model.shape.vocab)
    prompt = torch.tensor([tokenizer.encode(beginning)])
    drawn = sample(model, prompt, CONTINUATION)[0].tolist()
    known = [number for number in drawn if number < tokenizer.size]
    text = tokenizer.decode(known)
    return f"\nThe model continues {beginning!r}:\n" + "\n".join(
        "    " + line for line in text.splitlines() if line.strip())


def _resume_command(out: Path) -> str:
    return f"ironlaw train --resume --out {shlex.quote(str(out))}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
