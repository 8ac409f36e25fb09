"""All evaluations of a run: what is there already is kept, features are shared, progress is shown."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..artifact import Encoder, load
from ..data import open_images
from ..experiment import open_data
from ..groups import find_group
from ..hub import shipped_models
from .classification import classify
from .context import SIZES, Context, Sizes
from .cost import measure_cost
from .dependence import measure_dependence
from .equivariance import map_equivariance
from .generation import generate
from .marginals import measure_ambiguity
from .recovery import recover_elements
from .result import Result
from .retrieval import retrieve
from .subject import Inapplicable, as_subject, load_subject

T = TypeVar("T")
Evaluation = Callable[[Context], Result]

EVALUATIONS: dict[str, Evaluation] = {
    "classification": classify,
    "recovery": recover_elements,
    "equivariance": map_equivariance,
    "retrieval": retrieve,
    "marginals": measure_ambiguity,
    "dependence": measure_dependence,
    "generation": generate,
}
"""Every evaluation by the name of its result; add yours here and `evaluate` runs it too."""

ON_REQUEST: dict[str, Evaluation] = {"cost": measure_cost}
"""Evaluations that are done only when they are named: these depend on the machine."""

ONCE = {"classification", "cost"}
"""Evaluations that no group takes part in: done once, however many groups the subject has."""

HEADLINES: dict[str, tuple[str, ...]] = {
    "classification": ("logistic", "logistic_content", "logistic_group", "knn", "head", "chance"),
    "recovery": (
        *("accuracy", "median_error_*", "median_difference_error_*", "probe_median_error_*"),
        *("content_probe_median_error_*", "constant_median_error_*", "r2", "within_one_spread"),
    ),
    "equivariance": ("error_*", "sensitivity", "row_minimum_within_one_bin*", "chance_row_minimum"),
    "retrieval": ("hit1_*", "chance_hit1", "mrr_*", "chance_mrr", "parameter_error_*", "chance_parameter_error_*"),
    "marginals": ("ambiguity*", "modes"),
    "dependence": ("delta_p_*",),
    "generation": ("reconstruction_error", "action_error_*", "no_action_error"),
}
"""The scalars that the table shows; all of those of an evaluation that is not named here."""


def open_context(
    run: str | os.PathLike[str] | Encoder,
    *,
    data: str | None = None,
    group: str | None = None,
    sizes: Sizes | str = "demo",
    seed: int = 0,
) -> Context:
    """The context of a run's folder or a trained encoder, on its own images unless others are named."""
    encoder = run if isinstance(run, Encoder) else load(run)
    experiment = encoder.experiment
    if data is not None:  # other images, in the size that the encoder knows
        size = experiment.image_size or _square(encoder.image_size)
        experiment = replace(experiment, data=data, subset=None, image_size=size)
    subject = as_subject(encoder)
    if group is not None and group not in subject.groups:
        subject = replace(subject, groups={group: find_group(group)})
    chosen = subject.groups[group or next(iter(subject.groups))]
    train, test = (open_data(experiment, split) for split in ("train", "test"))
    foreign = [PurePath(data).name or "images"] if data not in (None, encoder.experiment.data) else []
    foreign += [chosen.name] if chosen.name != encoder.experiment.group[0] else []
    home = None if isinstance(run, Encoder) or run in shipped_models() or foreign else Path(run)
    home = home if home is not None and home.is_dir() else None  # a Hub id is no folder to leave anything in
    return Context(subject, train, test, chosen, _sizes(sizes), seed, folder=home, aside="-".join(foreign))


def open_encoder_context(
    spec: str,
    group: str,
    data: str,
    *,
    image_size: int | None = None,
    channels: int = 3,
    sizes: Sizes | str = "demo",
    seed: int = 0,
) -> Context:
    """The context of an encoder of your own, `mypkg.module:build`, on any images and group."""
    chosen = find_group(group)
    train, test = (open_images(data, split, image_size=image_size, channels=channels) for split in ("train", "test"))
    subject = load_subject(spec, chosen, test.sample(1, seed).expand(2, -1, -1, -1))
    return Context(subject, train, test, chosen, _sizes(sizes), seed)


def evaluate(
    run: str | os.PathLike[str] | Encoder | Context,
    only: Sequence[str] | None = None,
    *,
    force: bool = False,
    sizes: Sizes | str = "demo",
    seed: int = 0,
    data: str | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> dict[str, Result]:
    """The results of all evaluations, or of `only` some, by name; those of a run are written to RUN/results.

    Results of other images than the run's own go to a folder inside, named after them. What the folder holds already is
    kept if it was measured on the same weights, images and sizes, unless `force`.
    Of several groups the first has the plain names, the others NAME-GROUP. What cannot be measured is left out.
    """
    known = {**EVALUATIONS, **ON_REQUEST}
    unknown = sorted(set(only or ()) - set(known))
    if unknown:
        raise ValueError(f"no evaluation {', '.join(unknown)}; there are {', '.join(known)}")
    context = run if isinstance(run, Context) else open_context(run, data=data, sizes=sizes, seed=seed)
    if out is None and not isinstance(run, Encoder | Context):
        out = results_folder(run, context)
    folder = None if out is None else Path(out)
    jobs = _jobs(context, list(EVALUATIONS) if only is None else [name for name in known if name in only])
    results: dict[str, Result] = {}
    with Bars(len(jobs), show=progress) as bars:
        for name, (evaluation, own) in jobs.items():
            bars.begin(name)
            found = None if force or folder is None else _kept(folder / f"{name}.json", own)
            if found is None:
                try:
                    found = replace(evaluation(replace(own, track=bars.track)), name=name)
                except Inapplicable as reason:
                    bars.say(f"{name} is left out: {reason}")
                    continue
                finally:
                    bars.end()
                if folder is not None:
                    found.save(folder)
            else:
                bars.end()
            results[name] = found
    return results


def results_folder(run: str | os.PathLike[str], context: Context) -> Path:
    """Where the results of a run go: what is not its own does not replace what is."""
    return Path(run) / "results" / context.aside


def flatten(results: Mapping[str, Result]) -> dict[str, float]:
    """Every scalar of every result: NAME/SCALAR -> number."""
    return {f"{name}/{key}": value for name, result in results.items() for key, value in result.scalars.items()}


def table(results: Mapping[str, Result]) -> str:
    """The headline numbers as text, a line each."""
    lines = []
    for name, result in results.items():
        keys = headlines(name, result)
        width = max(map(len, keys), default=0)
        lines += [name, *(f"  {key:<{max(44, width)}}  {_number(result.scalars[key])}" for key in keys)]
        if "advice" in result.provenance:
            lines.append(f"  {result.provenance['advice']}")
    return "\n".join(lines)


class Bars:
    """One bar over the evaluations and one inside the present one, both with the time left; silent off a terminal."""

    def __init__(self, total: int, show: bool = True) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not (show and console.is_terminal))
        self._show = show
        self._all = self._progress.add_task("evaluations", total=total)

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._progress.stop()

    def begin(self, name: str) -> None:
        """Name the evaluation that runs now."""
        self._progress.update(self._all, description=name)

    def end(self) -> None:
        """One evaluation more is done."""
        self._progress.advance(self._all)

    def say(self, text: str) -> None:
        """A line above the bars."""
        if self._show:
            self._progress.console.print(text, highlight=False)

    def track(self, parts: Iterable[T], total: int, label: str) -> Iterator[T]:
        """Pass the parts of a loop through its own bar."""
        task = self._progress.add_task(label, total=total)
        try:
            for part in parts:
                yield part
                self._progress.advance(task)
        finally:
            self._progress.remove_task(task)


def _jobs(context: Context, names: Sequence[str]) -> dict[str, tuple[Evaluation, Context]]:
    """Every evaluation for every group it takes part in, by the name of its result; the context's group first."""
    others = [group for group in context.subject.groups.values() if group.name != context.group.name]
    known = {**EVALUATIONS, **ON_REQUEST}
    jobs = {name: (known[name], context) for name in names}
    for group in others:
        repeated = [name for name in names if name not in ONCE]
        jobs |= {f"{name}-{group.name}": (known[name], context.with_group(group)) for name in repeated}
    return jobs


def _kept(path: Path, context: Context) -> Result | None:
    """The result on disk, if it was measured on the same things; None to measure again."""
    wanted = json.loads(json.dumps(context.provenance()))
    with contextlib.suppress(ValueError):  # missing or damaged
        found = Result.load(path)
        same = all(found.provenance.get(key) == value for key, value in wanted.items())
        # Without a fingerprint of the weights nobody knows whose result it is.
        if same and context.subject.digest is not None:
            return found
    return None


def headlines(name: str, result: Result) -> list[str]:
    """The scalars of a result that matter most, in order; all of them if HEADLINES does not name the evaluation."""
    wanted = HEADLINES.get(name.split("-")[0])
    if wanted is None:
        return list(result.scalars)
    found = [
        [key for key in result.scalars if (key.startswith(entry[:-1]) if entry.endswith("*") else key == entry)]
        for entry in wanted
    ]
    return [key for keys in found for key in keys]


def _number(value: float) -> str:
    return f"{value:.3f}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:.3g}"


def _sizes(sizes: Sizes | str) -> Sizes:
    if isinstance(sizes, Sizes):
        return sizes
    if sizes not in SIZES:
        raise ValueError(f"no sizes {sizes!r}; there are {', '.join(SIZES)}")
    return SIZES[sizes]


def _square(size: tuple[int, int]) -> int | None:
    """The side of square images; other shapes stay as their source has them."""
    return size[0] if size[0] == size[1] else None
