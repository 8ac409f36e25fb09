"""How well sets are brought to one angle: digits and copies of photos whose turns are known, and real sets by how alike
they become.

Beside every encoder stand the pixels: their own codes, at as many numbers and as `duet align` takes them without a
model, and the best that turning the images themselves can do. The weights of the components are compared on digits that
were neither trained nor tested on. Of real sets ten classes are drawn, evenly spaced by name: in the first line by the
run, in the second without a model.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measure import write
from torch import Tensor

import duet
from duet.application.alignment import Alignment, Features, align, image_codes
from duet.application.mean_image import MeanImages, draw_means, mean_images
from duet.data import open_images
from duet.data.split import calibration_part
from duet.evaluation.rival import pixels, untrained
from duet.groups import rot360
from duet.model import Encoder
from duet.networks import build_backbone
from duet.pixels import as_bytes, as_float
from duet.representation import Flat
from duet.representation.alignment import align_codes

DISC = rot360("circle")
RIGHT = 45.0
Aligner = Callable[[Tensor, list[int]], Alignment]
WEIGHTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "purity": lambda purity, k: purity,
    "all alike": lambda purity, k: torch.ones_like(purity),
    "square root of purity": lambda purity, k: purity.sqrt(),
    "purity squared": lambda purity, k: purity.square(),
    "purity / (1 - purity)": lambda purity, k: purity / (1 - purity).clamp(min=0.02),
    "purity / k": lambda purity, k: purity / k,
    "purity * k": lambda purity, k: purity * k,
    "purity, harmonics 1 and 2": lambda purity, k: purity * (k <= 2),
    "purity, harmonics 1 to 3": lambda purity, k: purity * (k <= 3),
}
PARTS = ("digits", "photos", "weights", "probability")
SURE = 0.9
KNOWN = {"mnist": (12, 30, 84), "cifar10": (12, 30, 84), "photos128": (12, 40)}
"""Sets whose images are upright, so that turns are known, and how many images of a class are aligned at a time."""
RUN, NO_MODEL = "duet, relative", "without a model"


def errors(by: Tensor, truth: Tensor) -> Tensor:
    """Degrees between turns and the truth, less the common turn that suits them best: (N,), (N,) -> (N,)."""
    away = (by - truth).unsqueeze(1) - torch.arange(3600, dtype=torch.float64) / 3600
    away = (away - away.round()).abs()
    return 360 * away[:, away.sum(0).argmin()]


def turn_pixels(images: Tensor, sets: list[int], angles: int = 90, starts: int = 6) -> Alignment:
    """Pixels' own best alignment: every image turned by every angle, the nearest to the mean taken, again and again."""
    by = torch.zeros(len(images), dtype=torch.float64)
    for name in sorted(set(sets)):
        rows = torch.tensor([row for row, own in enumerate(sets) if own == name])
        g = torch.arange(angles) / angles
        turned = torch.stack([DISC.apply(image.expand(angles, -1, -1, -1), g).flatten(1) for image in images[rows]])
        squares = turned.square().sum(-1)  # (n, angles)
        best = None
        for start in torch.linspace(0, len(rows) - 1, min(starts, len(rows))).long():
            mean, before = turned[start, angles // 2], float("inf")
            for _ in range(50):
                chosen = (squares - 2 * turned @ mean).argmin(1)
                mean = turned[torch.arange(len(rows)), chosen].mean(0)
                now = float(squares.gather(1, chosen[:, None]).mean() - mean.square().sum())
                if now >= before * (1 - 1e-6):
                    break
                before = now
            if best is None or before < best[0]:
                best = (before, chosen)
        assert best is not None
        by[rows] = -(best[1].double() / angles - DISC.identity)
    return Alignment(DISC, by - by.round(), torch.full_like(by, torch.nan), {})


def aligners(encoders: dict[str, Encoder], shape: tuple[int, int, int]) -> dict[str, Aligner]:
    """How each encoder aligns, and the rivals that have learned nothing."""
    first = next(iter(encoders.values()))
    fresh = untrained(first)
    functions: dict[str, Any] = {
        **encoders,
        **({} if fresh is None else {"untrained network": fresh.features}),
        "pixels, codes": pixels(shape, first.layout.dim, {"rot360": DISC}).features,
    }
    functions[NO_MODEL] = None
    found: dict[str, Aligner] = {
        name: lambda images, sets, own=own: align(images, own, DISC, sets) for name, own in functions.items()
    }
    return {**found, "pixels, turned themselves": turn_pixels}


def digits(encoders: dict[str, Encoder], draws: int = 3) -> tuple[dict[str, Any], list[MeanImages]]:
    """Held-out digits of each class, every one turned at random."""
    images, labels = open_images("digits", "test", channels=1).tensors()
    assert labels is not None
    rows: dict[str, Any] = {}
    means: list[MeanImages] = []
    for name, own in aligners(encoders, (1, 28, 28)).items():
        medians, away, probability = [], [], []
        for seed in range(draws):
            g = torch.rand(len(images), generator=torch.Generator().manual_seed(seed))
            turned = DISC.apply(images, g)
            found = own(turned, labels.tolist())
            parts = [errors(found.by[labels == c], g[labels == c].double()) for c in range(10)]
            medians.append(torch.stack([part.median() for part in parts]))
            away.append(torch.cat(parts))
            probability.append(torch.cat([found.probability[labels == c] for c in range(10)]))
            if not means:
                means = [mean_images(turned[labels == c], _part(found, labels == c), str(c)) for c in range(10)]
        by_class, error, told = torch.stack(medians).mean(0), torch.cat(away), torch.cat(probability)
        sure = told >= 0.9
        rows[name] = {
            "median_degrees": round(float(torch.stack(medians).quantile(0.5, dim=1).mean()), 2),
            "median_degrees_by_class": [round(float(value), 1) for value in by_class],
            "within_45_degrees": round(float((error <= RIGHT).double().mean()), 3),
        }
        if not bool(told.isnan().any()):
            rows[name] |= {
                "mean_probability": round(float(told.mean()), 3),
                "sure": round(float(sure.double().mean()), 3),
                "within_45_degrees_of_the_sure": round(float((error[sure] <= RIGHT).double().mean()), 3),
            }
        print("digits", name, rows[name], flush=True)
    return rows, means


def copies(encoder: Encoder | Features, images: Tensor, count: int = 36) -> dict[str, Any]:
    """Turned copies of one image, for each of several images."""
    away = []
    for seed, image in enumerate(images):
        g = torch.rand(count, generator=torch.Generator().manual_seed(seed))
        found = align(DISC.apply(image.expand(count, -1, -1, -1), g), encoder, DISC)
        away.append(errors(found.by, g.double()))
    error = torch.cat(away)
    found_in: dict[str, Any] = {
        "median_degrees": round(float(error.median()), 2),
        "mean_degrees": round(float(error.mean()), 2),
    }
    return {**found_in, "worst_image_median_degrees": round(max(float(part.median()) for part in away), 2)}


def photos(models: list[str], count: int = 20, side: int = 64) -> dict[str, Any]:
    """24 turned copies of each photo: pixels and an untrained network at `side`, each model at its own size."""
    dim, rows = 128, {}
    torch.manual_seed(0)
    fresh = Encoder(build_backbone("small", channels=3, dim=dim), Flat(dim), ["rot360"], image_size=side).eval()
    own: dict[str, tuple[Encoder | Features, int]] = {
        "untrained network": (fresh, side),
        "pixels, codes": (pixels((3, side, side), dim, {"rot360": DISC}).features, side),
    }
    for name in models:
        model = duet.load(name, "cpu")
        assert model.image_size is not None
        own[name] = (model, model.image_size[0])
    for name, (features, size) in own.items():
        images = open_images("photos128", "train", image_size=size, channels=3).sample(count, seed=0)
        rows[name] = {"side": size, **copies(features, images, 24)}
        print("photos", name, rows[name], flush=True)
    return rows


def weights(encoder: Encoder, draws: int = 3) -> dict[str, Any]:
    """What the weights of the components could be, on digits that training kept aside and on the test digits."""
    train = open_images("digits", "train", channels=1)
    aside = train.part(calibration_part(train.identities(), train.labels).nonzero().flatten())
    rows: dict[str, Any] = {}
    for part, held in {"validation": aside, "test": open_images("digits", "test", channels=1)}.items():
        images, labels = held.tensors()
        assert labels is not None
        found: dict[str, list[Tensor]] = {}
        for seed in range(draws):
            g = torch.rand(len(images), generator=torch.Generator().manual_seed(seed))
            codes = image_codes(DISC.apply(images, g), encoder.features, DISC)
            purity = torch.where(codes.real, 2 * codes.weight, codes.weight)
            for name, weigh in WEIGHTS.items():
                weight = weigh(purity, codes.harmonic.double())
                own = codes._replace(weight=torch.where(codes.real, weight / 2, weight))
                for c in range(10):
                    by = align_codes(own.rows((labels == c).nonzero()[:, 0])).by
                    found.setdefault(name, []).append(errors(by, g[labels == c].double()))
        rows[part] = {name: _summary(parts, draws) for name, parts in found.items()}
        print("weights", part, rows[part], flush=True)
    return rows


def _summary(parts: list[Tensor], draws: int) -> dict[str, float]:
    medians = torch.stack([part.median() for part in parts]).reshape(draws, 10)
    within = (torch.cat(parts) <= RIGHT).double().mean()
    median = float(medians.quantile(0.5, dim=1).mean())
    return {"median_degrees": round(median, 2), "within_45_degrees": round(float(within), 3)}


def real_set(name: str, encoder: Encoder, least: int = 30, most: int = 40) -> tuple[dict[str, Any], list[MeanImages]]:
    """Each class of a real set: by how much its variance around its mean falls."""
    size = encoder.image_size
    assert size is not None
    held = open_images(name, "test", image_size=size[0], channels=encoder.channels)
    images, labels = held.tensors()
    assert labels is not None
    assert held.classes is not None
    kept = [c for c in range(len(held.classes)) if int((labels == c).sum()) >= least]
    chosen = torch.cat([(labels == c).nonzero()[:most, 0] for c in kept])
    images, labels = images[chosen], labels[chosen]
    rows: dict[str, Any] = {"classes": len(kept), "images": len(images)}
    some = {kept[place * (len(kept) - 1) // 9] for place in range(10)}
    shown: dict[str, list[MeanImages]] = {}
    for who, own in aligners({RUN: encoder}, (encoder.channels, *size)).items():
        found = own(images, labels.tolist())
        means = [mean_images(images[labels == c], _part(found, labels == c), held.classes[c]) for c in kept]
        before, after = (sum(getattr(one, f"variance_{when}") for one in means) for when in ("before", "after"))
        falls = torch.tensor([one.fall for one in means])
        rows[who] = {
            "variance_fell_by": round(1 - after / before, 3),
            "by_class": {one.name: round(one.fall, 3) for one in means},
            "classes_where_it_fell": int((falls > 0).sum()),
        }
        if not bool(found.probability.isnan().any()):
            rows[who]["sure"] = round(float((found.probability >= 0.9).double().mean()), 3)
        print(name, who, {key: value for key, value in rows[who].items() if key != "by_class"}, flush=True)
        shown[who] = [one for c, one in zip(kept, means, strict=True) if c in some]
    rows["turned copies of one image"] = copies(encoder, images[:: max(1, len(images) // 12)][:12])
    print(name, "copies", rows["turned copies of one image"], flush=True)
    return rows, shown[RUN] + shown[NO_MODEL]


def probability(sets: int = 2, each: int = 84, draws: int = 2) -> dict[str, Any]:
    """How often a probability comes true where turns are known, and how far noise of one grey level moves it."""
    return {"calibration": calibration(), "stability": stability(sets, each, draws)}


def calibration() -> dict[str, Any]:
    """Classes of upright test images, each image turned at random, brought to one angle by their pixels."""
    generator, rows, all_of = torch.Generator().manual_seed(1), {}, []
    for name, counts in KNOWN.items():
        images, labels = open_images(name, "test", image_size=32, channels=1).tensors()
        assert labels is not None
        classes = labels.unique().tolist()
        parts = []
        for c in classes[2::4] if len(classes) > 10 else classes:
            own = (labels == c).nonzero()[:, 0]
            for count in counts:
                if len(own) >= count:
                    chosen = own[torch.randperm(len(own), generator=generator)[:count]]
                    g = torch.rand(count, generator=generator)
                    found = align(as_float(as_bytes(DISC.apply(as_float(images[chosen]), g))), None, DISC)
                    parts.append((found.probability, errors(found.by, g.double()) <= RIGHT))
        told, right = (torch.cat(values) for values in zip(*parts, strict=True))
        rows[name] = _calibrated(told, right)
        all_of.append((told, right))
        print("probability", name, rows[name], flush=True)
    return {**rows, "all": _calibrated(*(torch.cat(values) for values in zip(*all_of, strict=True)))}


def _calibrated(told: Tensor, right: Tensor) -> dict[str, float]:
    """Beside the probabilities what came true: of all, of the sure, and in ten groups of equal count."""
    sure = told >= SURE
    groups = [part for part in torch.tensor_split(told.argsort(), 10) if len(part)]
    error = sum(len(part) * abs(float(told[part].mean() - right[part].double().mean())) for part in groups)
    return {
        "images": len(told),
        "mean_probability": round(float(told.mean()), 3),
        "right": round(float(right.double().mean()), 3),
        "expected_calibration_error": round(error / len(told), 3),
        "sure": round(float(sure.double().mean()), 3),
        "right_of_the_sure": round(float(right[sure].double().mean()), 3) if bool(sure.any()) else 0.0,
    }


def stability(sets: int, each: int, draws: int) -> dict[str, Any]:
    """Plankton by its pixels, as it is and with noise of one grey level: one set, one class, classes of 12."""
    images, labels = open_images("plankton", "train", image_size=32, channels=1).tensors()
    assert labels is not None
    images, counts = as_float(images), torch.bincount(labels)
    rows: dict[str, list[tuple[Tensor, Tensor]]] = {"mixed": [], "one class": [], "classes of 12": []}
    for seed in range(sets):
        mixed = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:each]
        largest = (labels == counts.argsort(descending=True)[seed]).nonzero()[:each, 0]
        some = [c for c in range(len(counts)) if counts[c] >= 12][seed::5][: each // 12]
        by_class = torch.cat([(labels == c).nonzero()[:12, 0] for c in some])
        for kind, chosen in (("mixed", mixed), ("one class", largest), ("classes of 12", by_class)):
            names = labels[chosen].tolist() if kind == "classes of 12" else None
            clean = align(images[chosen], None, DISC, names).probability
            for draw in range(draws):
                generator = torch.Generator().manual_seed(draw)
                noise = torch.randint(-1, 2, images[chosen].shape, generator=generator) / 255
                noisy = align((images[chosen] + noise).clamp(0, 1), None, DISC, names).probability
                rows[kind].append((clean, noisy))
    found = {}
    for kind, pairs in rows.items():
        clean, noisy = (torch.cat(values) for values in zip(*pairs, strict=True))
        found[kind] = {
            "images": len(clean),
            "sure": int((clean >= SURE).sum()),
            "sure_or_not_any_more": int(((clean >= SURE) != (noisy >= SURE)).sum()),
            "mean_change": round(float((clean - noisy).abs().mean()), 3),
            "largest_change": round(float((clean - noisy).abs().max()), 2),
        }
        print("probability", kind, found[kind], flush=True)
    return found


def _part(found: Alignment, which: Tensor) -> Alignment:
    return Alignment(found.group, found.by[which], found.probability[which], {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simclr", help="a SimCLR run on digits, as `make demo` leaves it")
    parser.add_argument("--sets", nargs="*", default=[], metavar="NAME=RUN", help="real sets, each with a run on it")
    parser.add_argument("--photos", nargs="*", default=[], metavar="MODEL", help="models for the copies of photos")
    parser.add_argument("--only", nargs="*", default=PARTS, choices=PARTS, help="beside --sets [%(default)s]")
    parser.add_argument("--out", type=Path, help="write the figures there, as JSON; others that it holds stay")
    parser.add_argument("--pictures", type=Path, help="draw the means of every set in this folder")
    options = parser.parse_args()
    encoders = {"duet, shipped": duet.load("digits-rot360", "cpu")}
    if options.simclr:
        encoders["simclr"] = duet.load(options.simclr, "cpu")
    figures: dict[str, Any] = {}
    pictures: dict[str, list[MeanImages]] = {}
    if "digits" in options.only:
        figures["digits"], pictures["digits"] = digits(encoders)
        figures["digits"]["turned copies of one image"] = copies(
            encoders["duet, shipped"], open_images("digits", "test", channels=1).sample(12, seed=0)
        )
    if "weights" in options.only:
        figures["weights"] = weights(encoders["duet, shipped"])
    if "probability" in options.only:
        figures["probability"] = probability()
    if "photos" in options.only:
        figures["photos128"] = photos(options.photos)
    for given in options.sets:
        name, _, run = given.partition("=")
        figures[name], pictures[name] = real_set(name, duet.load(run, "cpu"))
    for name, means in pictures.items():
        if options.pictures:
            options.pictures.mkdir(parents=True, exist_ok=True)
            draw_means(means).save(options.pictures / f"align-{name}.png", optimize=True)
    if options.out:
        before = json.loads(options.out.read_text()) if options.out.exists() else {}
        before.pop("machine", None)
        write(options.out, {**before, **figures})


if __name__ == "__main__":
    main()
