"""Runs that are made, not trained: enough of everything for a page."""

import json

import numpy as np

from duet.evaluation import Result
from duet.evaluation.result import Scores
from duet.groups import GROUPS

ROTATION = {**GROUPS["rot360"].describe(), "data": "digits"}


def make_results(**more):
    """A classification, a recovery and a retrieval, as `duet evaluate` would leave them."""
    facts = {**ROTATION, "relative": False, "copies": 4, "classes": ["cat", "dog"], **more}
    g = np.arange(10) / 10
    probe, rivals = "probe_median_error_degrees", {"pixels": 17.0, "untrained": 43.0}
    found = np.clip(g[:, None] + np.linspace(-0.05, 0.05, 20), 0, 1)
    return [
        Result(
            "classification",
            {"logistic": 0.9, "logistic_content": 0.8, "knn": 0.7, "chance": 0.25},
            {"confusion": np.array([[3, 1], [0, 4]])},
            facts,
            {"logistic": (0.88, 0.92)},
            {"pixels": Scores({"logistic": 0.95}, {"logistic": (0.93, 0.97)}), "untrained": Scores({"logistic": 0.89})},
        ),
        Result(
            "recovery",
            {
                "median_error_degrees": 9.0,
                "median_difference_error_degrees": 4.0,
                "probe_median_error_degrees": 12.0,
                "content_probe_median_error_degrees": 70.0,
                "constant_median_error_degrees": 90.0,
                "r2": float("nan"),
            },
            {
                **{"g": g, "recovered": found, "probe": found, "shown_g": g[:3]},
                **{"shown_marginal": np.full((3, 8), 0.125), "example_g": np.full((2, 3, 2), 0.5)},
                **{"example_error": np.array([[1.0, 2, 3], [60, 70, 80]])},
                **{f"example_{kind}": np.full((2, 3, 1, 4, 4), 99, np.uint8) for kind in ("true", "recovered")},
            },
            facts,
            {"median_error_degrees": (8.5, 9.5)},
            {name: Scores({probe: off}, {probe: (off - 1, off + 1)}) for name, off in rivals.items()},
        ),
        Result(
            "retrieval",
            {"hit1_fitted": 0.5, "hit1_prescribed": 0.4, "mrr_fitted": 0.7, "chance_hit1": 0.25, "chance_mrr": 0.4},
            {},
            facts,
        ),
    ]


def make_decoded(actions=("prescribed", "fitted"), channels=1, swept=4, unit="degrees"):
    """A generation of two images: constant pictures, whose squared errors can be worked out by hand."""
    g = np.arange(swept) / swept
    shape = (2, swept, channels, 6, 8)
    truth = np.zeros(shape, np.float32)
    arrays = {"g": g, "parameter": 360 * g - 180, "truth": truth}
    for name, value in {"none": 4, "prescribed": 5, "fitted": 2}.items():
        if name in ("none", *actions):
            arrays |= {f"decoded_{name}": truth + value / 10, f"error_{name}": np.full(swept, value**2 / 100)}
    provenance = {"method": "duet", "group": "rot360", "unit": unit, "identity": 0.5}
    return Result("generation", {"reconstruction_error": 0.01}, arrays, provenance)


def make_run(folder, results=None, columns="step,epoch,lr,loss,content", **config):
    """A run's folder with a configuration, twelve lines of losses, a model's card and results."""
    (folder / "model").mkdir(parents=True)
    experiment = {"method": "duet", "group": ["rot360"], "data": "digits", "epochs": 4, "encoder": "small", **config}
    (folder / "config.yaml").write_text(json.dumps(experiment))
    card = {
        "format": 2,
        "groups": [{"name": "rot360", "settings": {}, "plugin": None}],
        "provenance": {"method": experiment["method"], "epochs": 4, "data": {"source": experiment["data"]}},
        "layout": {"kind": "table", "content": 16, "axes": [{"bins": 8}]},
        "classes": ["cat", "dog"],
    }
    (folder / "model" / "config.json").write_text(json.dumps(card))
    rows = [f"{3 * k},{(3 * k - 1) // 9},0.1,{40 / k},{20 / k}" for k in range(1, 13)]
    (folder / "metrics.csv").write_text("\n".join([columns, *rows]) + "\n")
    for result in make_results() if results is None else results:
        result.save(folder / "results")
    return folder
