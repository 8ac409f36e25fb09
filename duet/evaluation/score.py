"""The score card: any encoders on the same images under the same groups, beside pixels, patches, untrained networks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path, PurePath
from typing import Any

import torch
from torch import Tensor

from ..data import Images
from ..device import find_device
from ..error import DuetError, check_name
from ..groups import Group, find_group
from ..model import orbit_views
from ..pixels import as_float
from ..progress import Track, track, without_bar
from .advice import advise
from .candidate import PATCHES, PIXELS, SIZED, WIDTH, Candidate, Named, check_encoder_name, find_encoder
from .card import Card, FeatureShares, Row
from .classification import accuracy, nearest_neighbours
from .context import Context, Sizes
from .equivariance import mean_square_distance, moved_distances
from .evaluation import EVALUATIONS
from .layer import check_layers, find_layers, layer_contexts
from .ready import ReadyContext
from .result import Result
from .rival import has_patches, patches, pixels
from .sensitivity import group_share
from .stored_features import open_features
from .suite import evaluate, find_sizes, flatten, open_splits

log = logging.getLogger(__name__)

SCORED = ("classification", "recovery", "equivariance", "spectrum", "retrieval", "robustness")
"""The evaluations of a card, in their order."""
EFFECT_IMAGES = 32  # in which a group must change something
SHARE_VIEWS = 8  # of a test image, for the share of variance that the group explains


def score(
    encoders: Sequence[str] | str,
    groups: Sequence[str | Group] | str | Group,
    data: str | None = None,
    *,
    layers: Sequence[str] = (),
    sizes: Sizes | str = "demo",
    seed: int = 0,
    image_size: int | None = None,
    device: str | torch.device = "auto",
    rivals: bool = True,
    shares: bool = False,
    progress: bool = True,
    turns: int | None = None,
) -> Card:
    """Score encoders, each by whatever name it goes, under every group; see `find_encoder` for the names.

    All of them see the same images: of `image_size`, else as large as the largest that one was made for, else as they
    are. A file of features (.parquet) needs no `data`. `layers`: names or patterns of layers to score too. `shares`:
    also how much of every feature's variance the group explains. `turns`: copies of an image that trained models look
    at; default each one's own.
    """
    encoders, groups = _listed(encoders), _listed(groups)
    for encoder in encoders:
        check_name(
            encoder,
            "score",
            "encoders",
            "write a function that returns the module and name it, as mypkg.models:build; or save an Encoder of it, "
            "duet.Encoder(duet.networks.wrap(module), ...).save(folder), and name the folder",
        )
    if data is not None:
        check_name(data, "score", "images", "a set's name, a folder or a parquet file")
    if not encoders or not groups:
        raise DuetError("give at least one encoder and one group")
    kinds = [find_group(group) for group in groups]
    files = [name for name in encoders if _is_file(name)]
    for name in encoders:
        check_encoder_name(name)  # a wrong name is said before anything else
    chosen, where = find_sizes(sizes), find_device(device)
    named = [find_encoder(name, where, turns, chosen.centroids) for name in encoders if not _is_file(name)]
    rows: list[Row] = []
    found: list[FeatureShares] = []
    protocol: dict[str, Any] = {"data": None, "sizes": asdict(chosen), "seed": seed, "views": chosen.views}
    if named:
        if data is None:
            raise DuetError("say on which images to score with --data; only features from a file need none")
        train, test = _open(data, named, kinds, image_size)
        scorer = _Scorer(train, test, kinds, chosen, seed, where, shares, progress)
        candidates = scorer.candidates(named, rivals)
        if layers:
            check_layers([candidate.module for candidate in candidates if candidate.module is not None], layers)
        for place, candidate in enumerate(candidates, 1):
            log.info("scoring %s (%d of %d)", candidate.name, place, len(candidates))
            rows += scorer.rows(candidate)
            if layers and candidate.module is not None:
                rows += scorer.layer_rows(candidate, layers)
        found += scorer.shares
        protocol |= {
            "data": PurePath(data).name,
            "image_shape": list(test.shape),
            "train_images": len(train),
            "test_images": len(test),
        }
    for name in files:
        for group in kinds:
            own, its = _file_rows(Path(name), group, chosen, seed, rivals, shares)
            rows += own
            found += its
    protocol["groups"] = [group.describe() for group in kinds]
    protocol["evaluations"] = {
        name: EVALUATIONS[name].__doc__ or ""
        for name in SCORED
        if any(f"{name}/" in key for r in rows for key in r.scalars)
    }
    return Card(rows, protocol, found)


class _Scorer:
    """Everything that all candidates share."""

    def __init__(
        self,
        train: Images,
        test: Images,
        groups: Sequence[Group],
        sizes: Sizes,
        seed: int,
        device: torch.device,
        shares: bool,
        progress: bool,
    ) -> None:
        self.train, self.test, self.groups, self.sizes, self.seed = train, test, groups, sizes, seed
        self.device, self.progress, self.wanted = device, progress, shares
        self.track: Track[Any] = _patiently if progress else without_bar
        self.shares: list[FeatureShares] = []

    def candidates(self, named: Sequence[Named], rivals: bool) -> list[Candidate]:
        """Those that were named, and their rivals: networks untrained, pixels and patches of as many features."""
        known = {group.name: group for group in self.groups}
        built: list[Candidate] = []
        for own in sorted(named, key=lambda one: one.name in SIZED):  # which take their width from the others
            width = built[0].subject.layout.dim if built else WIDTH
            built.append(own.build(self.train, known, self.device, self.seed, width))
        found = {_identity(candidate): candidate for candidate in built}
        for candidate in built if rivals else ():
            if candidate.rival:
                continue
            dim, centroids = candidate.subject.layout.dim, self.sizes.centroids
            others = [Candidate(PIXELS, pixels(self.test.shape, dim, known, self.device), rival=True)]
            if candidate.fresh is not None:
                others.append(Candidate(f"untrained {candidate.name}", candidate.fresh, rival=True))
            if has_patches(self.train.shape):
                coded = patches(self.train, centroids, dim, known, self.device, self.seed)
                others.append(Candidate(PATCHES, coded, rival=True, facts={"centroids": centroids}))
            for other in others:
                found.setdefault(_identity(other), other)
        return list(_distinct(found.values()))

    def rows(self, candidate: Candidate) -> Iterator[Row]:
        """One row a group; what no group takes part in is measured once."""
        context = Context(candidate.subject, self.train, self.test, self.groups[0], self.sizes, self.seed)
        once: dict[str, Result] = {}
        for group in self.groups:
            own = replace(context, group=group, groups=(group,))
            names = [name for name in SCORED if name in EVALUATIONS and name not in once]
            results = evaluate(own, names, rivals=False, progress=self.progress)
            once |= {name: result for name, result in results.items() if not EVALUATIONS[name].per_group}
            facts = {**candidate.facts, "features": candidate.subject.layout.dim}
            yield _row(candidate.name, group, None, {**once, **results}, candidate.rival, facts)
            if self.wanted:
                seen = orbit_views(
                    candidate.subject.features, own.images, group, SHARE_VIEWS, self.seed, track=self.track
                )
                self._note(candidate.name, group, None, seen.z)

    def layer_rows(self, candidate: Candidate, layers: Sequence[str]) -> Iterator[Row]:
        """A row for every reading of every layer and group."""
        assert candidate.module is not None
        context = Context(
            candidate.subject, self.train, self.test, self.groups[0], self.sizes, self.seed, track=self.track
        )
        names = find_layers(candidate.module, layers)
        if not names:
            return
        depth: dict[str, int] = {}
        for reading, contexts in layer_contexts(context, candidate.module, names, self.groups):
            depth.setdefault(reading.layer, len(depth))
            log.info("scoring %s, %s", candidate.name, reading.title)
            for group in self.groups:
                results = _ready_results(contexts[group.name], self.progress)
                facts = {**candidate.facts, "depth": depth[reading.layer], "grid": reading.side}
                facts["features"] = reading.width
                yield _row(candidate.name, group, reading.title, results, candidate.rival, facts)
                if self.wanted:
                    self._note(candidate.name, group, reading.title, contexts[group.name].views().z)

    def _note(self, encoder: str, group: Group, layer: str | None, z: Tensor) -> None:
        names = [str(i) for i in range(z.shape[-1])]
        self.shares.append(FeatureShares(encoder, group.name, layer, names, group_share(z.cpu())))


def _open(data: str, named: Sequence[Named], groups: Sequence[Group], image_size: int | None) -> tuple[Images, Images]:
    """Training and test images as all encoders can share them: grey only where all images are."""
    sides = [max(own.size) for own in named if own.size is not None]
    side = image_size or (max(sides) if sides else None)
    colour = any(group.channels == 3 for group in groups)
    splits = open_splits({"source": data, "image_size": side, "channels": 3})
    if not colour and all(images.is_grey() for images in splits):
        splits = open_splits({"source": data, "image_size": side, "channels": 1})
    sample = as_float(splits[1].sample(EFFECT_IMAGES, 0))
    for group in groups:
        changed = group.apply(sample, group.sample(len(sample), torch.Generator().manual_seed(0)))
        if float((changed - group.mask(sample)).abs().max()) < 1 / 255:
            raise DuetError(f"{group.name} changes nothing in these images, so there is nothing to score")
    return splits


def _file_rows(
    path: Path, group: Group, sizes: Sizes, seed: int, rivals: bool, shares: bool
) -> tuple[list[Row], list[FeatureShares]]:
    """The row of a file's features, and of the same with their g dealt out at random."""
    rows, found = [], []
    for shuffled in (False, True) if rivals else (False,):
        context, table, views = open_features(path, group, sizes, seed, shuffled)
        results = _ready_results(context, False, classify=True)
        facts = {"images": len(views.z), "views": views.z.shape[1], "features": views.z.shape[2]}
        name = f"{path.name}, g shuffled" if shuffled else path.name
        rows.append(_row(name, group, None, results, shuffled, facts))
        if shares and not shuffled:
            found.append(FeatureShares(path.name, group.name, None, table.features, group_share(views.z)))
    return rows, found


def _ready_results(context: ReadyContext, progress: bool, classify: bool = False) -> dict[str, Result]:
    """What can be measured of features that are there already; of a layer, classes by nearest neighbours alone."""
    results = evaluate(
        context, ["spectrum", *(["classification"] if classify else [])], rivals=False, progress=progress
    )
    if context.labelled is not None and not classify:
        results["classification"] = _neighbours(context)
    orbit = context.orbit()
    apart = mean_square_distance(orbit.at_start()[1])
    still = float(moved_distances(orbit).mean())
    results["equivariance"] = Result("equivariance", {"sensitivity": still / apart if apart > 0 else 0.0})
    return results


def _neighbours(context: ReadyContext) -> Result:
    train, test = context.train_features, context.test_features
    kept = test.labels >= 0
    labels = test.labels[kept].cpu().numpy()
    predicted = nearest_neighbours(train.z, train.labels, test.z[kept]).cpu().numpy()
    right = torch.from_numpy(predicted == labels).double()
    scalars = {
        "knn": accuracy(predicted, labels),
        "chance": float(torch.bincount(torch.from_numpy(labels)).max()) / len(labels),
    }
    return Result("classification", scalars, {}, {}, {"knn": context.bootstrap(len(labels)).share(right)})


def _row(
    encoder: str, group: Group, layer: str | None, results: Mapping[str, Result], rival: bool, facts: Mapping[str, Any]
) -> Row:
    scalars = flatten(results)
    intervals = {f"{name}/{key}": ends for name, result in results.items() for key, ends in result.intervals.items()}
    plain = {key: (float(low), float(high)) for key, (low, high) in intervals.items()}
    found = results["spectrum"].provenance if "spectrum" in results else {}
    advice = advise(scalars, plain, group, int(facts.get("features", 0)), found.get("fitted_views"))
    return Row(encoder, group.name, layer, scalars, plain, rival, advice, facts)


def _identity(candidate: Candidate) -> tuple[str, ...]:
    """What makes two of them the same: rivals by what they compute, those that were named by that name too."""
    subject = candidate.subject
    told = subject.digest or repr(sorted(map(str, subject.description.items())))
    return (told, str(subject.layout.dim), "" if candidate.rival else candidate.name)


def _distinct(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Every candidate under a name of its own."""
    seen: dict[str, int] = {}
    for candidate in candidates:
        seen[candidate.name] = seen.get(candidate.name, 0) + 1
        number = seen[candidate.name]
        yield candidate if number == 1 else replace(candidate, name=f"{candidate.name} ({number})")


def _patiently(parts: Iterable[Any], total: int, label: str) -> Iterable[Any]:
    """The parts of a loop, with a bar if it takes long."""
    return track(((1, part) for part in parts), total, label)


def _listed(things: Any) -> list[Any]:
    """Several things, or one that stands alone: a text is one name, and a module or tensor is refused as one thing."""
    return list(things) if isinstance(things, list | tuple) else [things]


def _is_file(name: str) -> bool:
    return name.endswith(".parquet")
