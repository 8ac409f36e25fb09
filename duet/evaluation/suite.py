"""All evaluations of a run: what is there already is kept, features are shared, progress is shown."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import torch

from ..data import Images, open_images
from ..data.place import check_place, find_place, is_same_place
from ..device import find_device
from ..error import DuetError, check_name, did_you_mean
from ..groups import Group, find_group
from ..model import Encoder, load, training_data
from ..model.hub import shipped_models
from ..progress import Bars
from .context import SIZES, Context, Sizes
from .evaluation import EVALUATIONS, Evaluation, Inapplicable, evaluation_of
from .result import Result, Scores
from .rival import RIVALS, rivals_of
from .subject import Subject, load_subject
from .verdict import judge


def open_context(
    run: str | os.PathLike[str] | Encoder,
    *,
    data: str | None = None,
    group: str | Group | None = None,
    sizes: Sizes | str = "demo",
    seed: int = 0,
    device: str | torch.device = "auto",
    transfer: Sequence[str] = (),
    turns: int | None = None,
) -> Context:
    """The context of a run's folder or a trained encoder, on its own images unless others are named.

    `turns`: turned copies of an image that the model of a folder looks at; default its own.
    """
    if not isinstance(run, Encoder):
        check_name(
            run,
            "evaluate",
            "a run or a model, or an Encoder,",
            "of a module make one, duet.Encoder(duet.networks.wrap(module), layout, groups); of a function that builds "
            "it: duet evaluate --encoder mypkg.models:build",
        )
    if data is not None:
        check_name(data, "evaluate", "images", "a set's name, a folder or a parquet file")
    encoder = run if isinstance(run, Encoder) else load(run, device)
    other_turns = turns is not None and turns != encoder.turns
    if turns is not None and other_turns:
        if isinstance(run, Encoder):
            raise DuetError("an Encoder has its turns already: set encoder.turns")
        encoder.turns = turns
    own = training_data(encoder)
    place = find_place(None if isinstance(run, Encoder) else run, own["source"]) if "source" in own else None
    if data is not None and place is not None and is_same_place(data, place):
        data = None  # they are its own
    if data is None and place is None:
        raise DuetError("this model does not say on which images it was trained; name some with --data")
    wanted = {**own, "source": place} if data is None else {**own, "source": data, "subset": None, "split": "train"}
    if data is not None:  # other images, in the size that the encoder knows
        wanted["image_size"] = own.get("image_size") or _square(encoder.image_size)
        wanted["channels"] = encoder.channels
    if data is None and place is not None:
        check_place(place)
    train, test = open_splits(wanted)
    if data is None and train.held_out == 0:
        raise DuetError(
            "this model was trained on all its images, and none is left to test on; name others with --data"
        )
    names = list(encoder.groups)
    if group is None and not names:
        raise DuetError("this model has no group; say which to evaluate with --group")
    key = group.name if isinstance(group, Group) else group or names[0]
    chosen = encoder.groups.get(key) or find_group(group if group is not None else key)
    foreign = [_name(data)] if data is not None else []
    foreign += [chosen.name] if chosen.name != (names[0] if names else chosen.name) else []
    foreign += [f"turns-{turns}"] if other_turns else []
    return Context(
        encoder,
        train,
        test,
        chosen,
        find_sizes(sizes),
        seed,
        groups=() if chosen.name in names else (chosen,),
        transfer=tuple(transfer),
        run=None if foreign else _home(run),
        subfolder="-".join(foreign),
    )


def _name(data: str) -> str:
    """What results on these images are filed under: the name of their folder, never a way out of the run's."""
    name = PurePath(data).name
    return (Path(data).resolve().name if name in ("", "..") else name) or "images"


def open_encoder_context(
    spec: str,
    group: str,
    data: str,
    *,
    image_size: int | None = None,
    channels: int = 3,
    sizes: Sizes | str = "demo",
    seed: int = 0,
    device: str | torch.device = "auto",
    transfer: Sequence[str] = (),
) -> Context:
    """The context of an encoder of your own, `mypkg.module:build`, on any images and group."""
    chosen = find_group(group)
    train, test = open_splits({"source": data, "image_size": image_size, "channels": channels})
    example = test.sample(1, seed).expand(2, -1, -1, -1)
    subject = load_subject(spec, chosen, example, device=find_device(device))
    return Context(subject, train, test, chosen, find_sizes(sizes), seed, transfer=tuple(transfer))


def open_splits(data: Mapping[str, Any]) -> tuple[Images, Images]:
    """Training and test images, as a model's provenance names them; a subset is one of the training images."""
    train = open_images(**{"split": "train", **data})
    return train, open_images(**{**data, "subset": None, "split": "test"})


def evaluate(
    run: str | os.PathLike[str] | Encoder | Context,
    only: Sequence[str] | str | None = None,
    *,
    force: bool = False,
    sizes: Sizes | str = "demo",
    seed: int = 0,
    data: str | None = None,
    group: str | Group | None = None,
    out: str | os.PathLike[str] | None = None,
    device: str | torch.device = "auto",
    progress: bool = True,
    rivals: bool | str | os.PathLike[str] = True,
) -> dict[str, Result]:
    """The results of all evaluations, or of `only` some, by name; those of a run are written to RUN/results.

    Beside each stands what pixels, an untrained network and k-means patches reach (`Result.rivals`), unless `rivals` is
    False. Their own results are kept in `rivals` of the same folder, or in the folder that `rivals` names.

    Results of other images than the run's own go to a folder inside, named after them. What the folder holds already is
    kept if it was measured on the same weights, images and sizes, unless `force`.
    Of several groups the first has the plain names, the others NAME-GROUP. What cannot be measured is left out.
    """
    names = find_evaluations(only)
    context = run
    if not isinstance(context, Context):
        context = open_context(context, data=data, group=group, sizes=sizes, seed=seed, device=device)
    if out is None and not isinstance(run, Encoder | Context):
        out = results_folder(run, context)  # None: a shipped model and a Hub id have no folder of the user's
    folder = None if out is None else Path(out)
    jobs = _jobs(context, names)
    others = _Rivals(context, folder, rivals)
    results: dict[str, Result] = {}
    with Bars(sum(1 + others.count * job.rivals for job, _ in jobs.values()), "evaluations", show=progress) as bars:
        for name, (evaluation, own) in jobs.items():
            try:
                found, kept = _find(name, evaluation, own, folder, force, bars, name)
            except Inapplicable as reason:
                bars.say(f"{name} is left out: {reason}")
                bars.end(others.count * evaluation.rivals)
                continue
            beside = others.scores(name, evaluation, own.group, force, bars) if evaluation.rivals else {}
            if beside and beside != found.rivals:
                found, kept = replace(found, rivals=beside), False
            if folder is not None and not kept:
                found.save(folder)
            results[name] = found
    return results


class _Rivals:
    """The rivals of a subject, each with a context of its own: what is computed for one evaluation serves the next."""

    def __init__(self, context: Context, folder: Path | None, wanted: bool | str | os.PathLike[str]) -> None:
        found: dict[str, Subject] = {}
        if wanted is not False:
            found = rivals_of(context.subject, context.train, context.sizes.centroids, context.seed)
        self._contexts = {
            name: replace(context, subject=subject, groups=(), run=None, _cache={}) for name, subject in found.items()
        }
        default = None if folder is None else folder / "rivals"
        self._folder = default if isinstance(wanted, bool) else Path(wanted)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._contexts)

    def scores(self, name: str, evaluation: Evaluation, group: Group, force: bool, bars: Bars) -> dict[str, Scores]:
        """What each of them reaches; who cannot be measured is left out."""
        found = {}
        for rival, context in self._contexts.items():
            folder = None if self._folder is None else self._folder / rival
            with contextlib.suppress(Inapplicable):
                own = context.with_group(group)
                result, kept = _find(name, evaluation, own, folder, force, bars, f"{name} of {RIVALS[rival]}")
                if folder is not None and not kept:
                    result.save(folder)
                found[rival] = Scores(result.scalars, result.intervals)
        return found


def _find(
    name: str, evaluation: Evaluation, context: Context, folder: Path | None, force: bool, bars: Bars, label: str
) -> tuple[Result, bool]:
    """The result on disk, or a new one; and whether it is the one on disk."""
    bars.begin(label)
    try:
        found = None if force or folder is None else _kept(folder / f"{name}.json", context)
        if found is not None and evaluation.still_holds(found, context):
            return found, True
        return _measure(name, evaluation, replace(context, track=bars.track)), False
    finally:
        bars.end()


def find_evaluations(only: Sequence[str] | str | None) -> list[str]:
    """The names of the evaluations to do, in their order: those that are named, or all that are not on request."""
    only = [only] if isinstance(only, str) else only
    if only is None:
        return [name for name, evaluation in EVALUATIONS.items() if not evaluation.on_request]
    unknown = [name for name in only if name not in EVALUATIONS]
    if unknown:
        titles = {name: evaluation.title for name, evaluation in EVALUATIONS.items()}
        hint = did_you_mean(unknown[0], titles)
        raise DuetError(f"no evaluation {', '.join(unknown)}{hint}; there are {', '.join(EVALUATIONS)}")
    return [name for name in EVALUATIONS if name in only]


def results_folder(run: str | os.PathLike[str], context: Context) -> Path | None:
    """Where the results of a run go: what is not its own does not replace what is. None where there is no folder."""
    home = _home(run)
    return None if home is None else home / "results" / context.subfolder


def flatten(results: Mapping[str, Result]) -> dict[str, float]:
    """Every scalar of every result: NAME/SCALAR -> number."""
    return {f"{name}/{key}": value for name, result in results.items() for key, value in result.scalars.items()}


def table(results: Mapping[str, Result]) -> str:
    """The headline numbers as text, a line each: value, 95 % interval, and what the rivals reach."""
    lines = []
    for name, result in results.items():
        verdict = judge(result)
        lines.append(name if verdict is None else f"{name}: {verdict.level.value}")
        lines += _aligned(_rows(name, result))
        lines += [f"  {key} is not reported: {why}" for key, why in result.missing.items()]
        if "advice" in result.provenance:
            lines.append(f"  {result.provenance['advice']}")
    return "\n".join(lines)


def _rows(name: str, result: Result) -> list[list[str]]:
    """A row for every headline under a row of titles: its name, value, interval if there are any, and the rivals'."""
    sure = bool(result.intervals)
    rows = [["", "", *["95 % interval"] * sure, *result.rivals]] if sure or result.rivals else []
    for key in dict.fromkeys([*result.missing, *headlines(name, result)]):
        ends = result.intervals.get(key)
        interval = "" if ends is None else f"{_number(ends[0])} to {_number(ends[1])}"
        beside = [_number(own.scalars[key]) if key in own.scalars else "-" for own in result.rivals.values()]
        rows.append([key, _number(result.scalars[key]) if key in result.scalars else "-", *[interval] * sure, *beside])
    return rows


def _aligned(rows: list[list[str]]) -> list[str]:
    """Rows as lines, the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            ["", f"{first:<{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))]
        ).rstrip()
        for first, *others in rows
    ]


def headlines(name: str, result: Result) -> list[str]:
    """The scalars of a result that matter most, in order; all of them of an evaluation that is not known here."""
    evaluation = evaluation_of(name)
    return list(result.scalars) if evaluation is None else evaluation.headlines(result)


def _measure(name: str, evaluation: Evaluation, context: Context) -> Result:
    found = evaluation.measure(context)
    if not isinstance(found, Result):
        raise DuetError(f"{type(evaluation).__name__}.measure must return a Result, not a {type(found).__name__}")
    return replace(found, name=name, provenance={**found.provenance, **context.provenance()})


def _jobs(context: Context, names: Sequence[str]) -> dict[str, tuple[Evaluation, Context]]:
    """Every evaluation for every group it takes part in, by the name of its result; the context's group first."""
    groups = context.groups or tuple(context.subject.groups.values())
    jobs = {name: (EVALUATIONS[name], context) for name in names}
    for group in groups:
        if group.name != context.group.name:
            own = context.with_group(group)
            jobs |= {f"{name}-{group.name}": (EVALUATIONS[name], own) for name in names if EVALUATIONS[name].per_group}
    return jobs


def _kept(path: Path, context: Context) -> Result | None:
    """The result on disk, if it was measured on the same things; None to measure again."""
    wanted = json.loads(json.dumps(context.provenance()))
    with contextlib.suppress(ValueError):  # missing or damaged
        found = Result.load(path)
        same = all(found.provenance.get(key) == value for key, value in wanted.items())
        # Without a fingerprint of the weights nobody knows whose result it is.
        if same and wanted["weights"] is not None:
            return found
    return None


def _home(run: str | os.PathLike[str] | Encoder) -> Path | None:
    """The folder of a run in which something may be kept: not that of a shipped model, and a Hub id is none."""
    if isinstance(run, Encoder) or run in shipped_models():
        return None
    return Path(run) if Path(run).is_dir() else None


def _number(value: float) -> str:
    return f"{value:.3f}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:.3g}"


def find_sizes(sizes: Sizes | str) -> Sizes:
    """Sizes by name; your own as they are."""
    if isinstance(sizes, Sizes):
        return sizes
    if not isinstance(sizes, str) or sizes not in SIZES:
        raise DuetError(f"no sizes {sizes!r}{did_you_mean(str(sizes), SIZES)}; there are {', '.join(SIZES)}")
    return SIZES[sizes]


def _square(size: tuple[int, int] | None) -> int | None:
    """The side of square images; other shapes stay as their source has them."""
    return size[0] if size is not None and size[0] == size[1] else None
