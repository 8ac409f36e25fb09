"""Features without their encoder, from a file: half of the images to fit on, half to test on."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ..data import MemoryImages
from ..data.features import FeatureTable, read_features
from ..groups import Group
from ..model import OrbitViews
from ..networks.digest import fingerprint
from ..representation import Flat
from ..representation.views import ViewsByImage, gather_views
from .context import Labelled, Orbit, Sizes
from .ready import ReadyContext
from .subject import Outsider


def open_features(
    path: Path, group: Group, sizes: Sizes, seed: int = 0, shuffled: bool = False
) -> tuple[ReadyContext, FeatureTable, ViewsByImage]:
    """The context of a file's features, the file, and its views by image.

    Every second image, in the order of ids, is fitted on; the others are tested. `shuffled` deals the elements g out at
    random: what is measured then is chance.
    """
    table = read_features(path)
    g = table.g
    if shuffled:
        g = g[torch.randperm(len(g), generator=torch.Generator().manual_seed(seed))]
    views = gather_views(table.z, table.ids, g)
    fit, held = slice(0, None, 2), slice(1, None, 2)
    known = {"z": table.z, "g": table.g, "ids": table.ids, **({} if table.labels is None else {"y": table.labels})}
    layout = Flat(table.z.shape[1])
    subject = Outsider(
        _no_images,
        layout,
        {group.name: group},
        description={"method": table.name, "layout": layout.to_dict(), "g": "shuffled" if shuffled else "given"},
        digest=fingerprint(known),
    )
    labels = None if table.labels is None else _labels_by_image(views, table)
    orbit = Orbit(
        group,
        views.g[held].T.float().contiguous(),
        views.z[held].transpose(0, 1).contiguous(),
        torch.zeros(len(views.z[held]), dtype=torch.long),
    )
    context = ReadyContext(
        subject,
        _placeholder(table, "train", len(views.z[fit]), labels, fit),
        _placeholder(table, "test", len(views.z[held]), labels, held),
        group,
        sizes,
        seed,
        groups=(group,),
        fitting=OrbitViews(views.z[fit], views.g[fit].float()),
        testing=orbit,
        labelled=None if labels is None else (_labelled(views, labels, fit), _labelled(views, labels, held)),
    )
    return context, table, views


def _labels_by_image(views: ViewsByImage, table: FeatureTable) -> Tensor:
    """The label of every image: that of the last of its rows."""
    assert table.labels is not None
    found = torch.zeros(int(table.ids.max()) + 1, dtype=torch.long)
    found[table.ids] = table.labels
    return found[views.ids]


def _labelled(views: ViewsByImage, labels: Tensor, part: slice) -> Labelled:
    """One view of every image: more would count an image twice."""
    return Labelled(views.z[part][:, 0], labels[part])


def _placeholder(table: FeatureTable, split: str, count: int, labels: Tensor | None, part: slice) -> MemoryImages:
    """As many black pixels as there are images: names, labels and numbers are asked of it, images never."""
    pixels = torch.zeros(count, 1, 1, 1, dtype=torch.uint8)
    return MemoryImages(table.name, split, pixels, None if labels is None else labels[part], table.classes)


def _no_images(images: Tensor) -> Tensor:
    raise AssertionError("these features come from a file: there is no encoder to ask")
