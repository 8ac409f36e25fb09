"""Where a model comes from, in plain values."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from .. import __version__
from ..methods import Method
from ..plugin import home_of
from .experiment import Experiment, data_of, group_weight, method_options
from .network import describe_trunk


def provenance_of(experiment: Experiment, method: Method) -> dict[str, Any]:
    """Where a model comes from, in plain values: its method, its images, and its recipe for people."""
    weight = group_weight(experiment)
    plain = experiment.pieces == 1
    recipe = {
        "data": Path(experiment.data).name or "images",
        "method": method.title,
        **({} if weight is None else {"weight of the group loss": f"{weight:g}"}),
        **_options(experiment),
        **describe_trunk(method.backbone, experiment.cached_views),
        "views": f"{experiment.stack}, crops of area {experiment.area[0]:g} to {experiment.area[1]:g}",
        **({"view sizes": " ".join(experiment.view_size)} if experiment.view_size else {}),
        **({"views of an image": experiment.views} if experiment.views > 2 else {}),
        "precision": experiment.precision,
        "epochs": experiment.epochs,
        **({"extended after epochs": ", ".join(map(str, experiment.extended))} if experiment.extended else {}),
        "batch size": experiment.batch_size if plain else f"{experiment.joined_batch}, in {experiment.pieces} pieces",
        "optimiser": f"{experiment.optimizer}, lr {experiment.lr:g}, weight decay {experiment.weight_decay:g}",
        "seed": experiment.seed,
    }
    return {
        "name": experiment.name,
        "method": method.name,
        "title": method.title,
        "lambda": weight,
        "epochs": experiment.epochs,
        "training_seed": experiment.seed,
        "data": data_of(experiment),
        "recipe": recipe,
        "plugins": [name for name in dict.fromkeys([*experiment.plugins, home_of(method)]) if name is not None],
        "duet": __version__,
    }


def _options(experiment: Experiment) -> dict[str, Any]:
    """The method's own settings: the reference always, others where they are not the usual."""
    options = method_options(experiment)
    usual = {entry.name: entry.default for entry in fields(options)}
    told = {key: value for key, value in vars(options).items() if key == "reference" or value != usual[key]}
    told.pop("weight", None)
    return {"views of the losses" if key == "views" else key: value for key, value in told.items()}
