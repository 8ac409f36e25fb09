"""Features of k-means on whitened patches (Coates, Lee & Ng 2011): a baseline that is fitted without any gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from ..data import Images
from ..pixels import as_float

SIDE = 6  # pixels of a patch
LEAST = 12  # pixels a side of the smallest images
LARGEST = 32  # pixels a side above which images are averaged down, so that none costs more than a CIFAR image
CONTRAST = 10 / 255**2  # added to the variance of a patch
RIDGE = 0.1  # added to the eigenvalues that whitening divides by
PATCHES = 250  # for each centroid, on which whitening and centroids are fitted
MOST = 200_000  # patches in all
IMAGES = 10_000  # training images from which patches are drawn, and on whose codes PCA is fitted
BLOCK = 2**19  # distances at a time: 2 MB, which stay in the cache of a core
KEPT = 8  # fitted encoders and axes that a process remembers

T = TypeVar("T")


@dataclass(frozen=True)
class PatchEncoder:
    """Centroids (K,n) of whitened patches of n = 36 C numbers, with the mean (n,) and whitening (n,n) of patches.

    A patch x, normalised, has w = (x - mean) whitening, distances d_k = |w - c_k|, and the triangle code
    max(0, mean_j d_j - d_k). An image has the sum of the codes of its patches over each quadrant, 4K numbers.
    """

    mean: Tensor
    whitening: Tensor
    centroids: Tensor

    def to(self, device: torch.device) -> PatchEncoder:
        """The same on another device."""
        return PatchEncoder(self.mean.to(device), self.whitening.to(device), self.centroids.to(device))

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Codes of images, uint8 or float in [0,1], on the device of the centroids: (N,C,H,W) -> (N,4K)."""
        count = len(self.centroids)
        height, width = (side - SIDE + 1 for side in _size(images))
        block = max(1, BLOCK // (height * width * count))
        found = self.centroids.new_empty(len(images), 4, count)
        room = _Room.of(min(block, len(images)) * height * width, self.centroids)
        # |w - c|^2 = (w, |w|^2) (-2c, 1) + |c|^2 is one matrix product; whitening is folded into another.
        factor = torch.cat([-2 * self.centroids, self.centroids.new_ones(count, 1)], 1).T.contiguous()
        lengths, bias = self.centroids.square().sum(1), -(self.mean @ self.whitening)
        for part, out in zip(torch.split(images, block), torch.split(found, block), strict=True):
            patches, white, distances = (rows[: len(part) * height * width] for rows in room)
            ends = _quadrants(_float_images(part).to(self.centroids), patches)
            _normalise(patches)
            torch.addmm(bias, patches, self.whitening, out=white[:, :-1])
            torch.sum(torch.square(white[:, :-1]), 1, out=white[:, -1])
            torch.addmm(lengths, white, factor, out=distances)
            distances.clamp_(min=0).sqrt_()
            distances.sub_(distances.mean(1, keepdim=True)).clamp_(max=0)
            for place, (start, end) in enumerate(pairwise([0, *ends])):
                torch.sum(distances[start:end].view(len(part), -1, count), 1, out=out[:, place])
        return found.neg_().flatten(1)


class _Room(NamedTuple):
    """Memory that all blocks of images share: patches (p,n), whitened with their squared length (p,n+1), (p,K)."""

    patches: Tensor
    white: Tensor
    distances: Tensor

    @staticmethod
    def of(patches: int, centroids: Tensor) -> _Room:
        count, numbers = centroids.shape
        return _Room(*(centroids.new_empty(patches, columns) for columns in (numbers, numbers + 1, count)))


class Axes(NamedTuple):
    """Principal axes of features (D,D), those of the largest variance first, and the features' mean (D,)."""

    mean: Tensor
    axes: Tensor

    def __call__(self, z: Tensor, dim: int) -> Tensor:
        """The coordinates along the first axes: (N,D) -> (N,dim)."""
        return (z - self.mean.to(z)) @ self.axes[:, :dim].to(z)


def fit_patches(images: Images, centroids: int, seed: int = 0) -> PatchEncoder:
    """Whitening and centroids of the patches of training images, the same for the same images, number and seed."""
    from sklearn.cluster import MiniBatchKMeans

    patches = _normalise(draw_patches(images, min(MOST, PATCHES * centroids), seed))
    mean, whitening = zca(patches)
    white = ((patches - mean) @ whitening).numpy()
    found = MiniBatchKMeans(centroids, n_init=1, compute_labels=False, random_state=seed).fit(white)
    return PatchEncoder(mean, whitening, torch.from_numpy(found.cluster_centers_).float())


def fit_axes(encode: Callable[[Tensor], Tensor], images: Images, seed: int = 0) -> Axes:
    """The principal axes of what `encode` makes of training images, as many as there are features."""
    z = torch.cat([encode(part).cpu() for part, _ in images.draw(IMAGES, seed)])
    mean = z.mean(0)
    z = z - mean
    return Axes(mean, torch.linalg.eigh((z.T @ z).double())[1].flip(1).float())


class FittedPatches:
    """An encoder of patches for these training images, and its axes: fitted when first used, once in a process."""

    def __init__(self, images: Images, centroids: int, seed: int = 0) -> None:
        self.images, self.centroids, self.seed = images, centroids, seed
        self.key = (images.fingerprint(), centroids, seed)

    def encoder(self) -> PatchEncoder:
        """`fit_patches` of the images."""
        return _once(("encoder", self.key), lambda: fit_patches(self.images, self.centroids, self.seed))

    def axes(self) -> Axes:
        """The principal axes of the encoder's codes."""
        return _once(("axes", self.key), lambda: fit_axes(self.encoder(), self.images, self.seed))


def draw_patches(images: Images, count: int, seed: int = 0) -> Tensor:
    """Patches from random places of random images, equally many of each image: (about `count`, C * SIDE * SIDE)."""
    generator = torch.Generator().manual_seed(seed)
    each = -(-count // min(len(images), IMAGES))
    found = []
    drawn = images.draw(min(IMAGES, count), seed)
    for part in chain.from_iterable(torch.split(batch, 64) for batch, _ in drawn):
        windows = _windows(_float_images(part).float())
        rows, columns = (torch.randint(side, (len(part), each), generator=generator) for side in windows.shape[1:3])
        found.append(windows[torch.arange(len(part)).unsqueeze(1), rows, columns].flatten(2).flatten(0, 1))
    return torch.cat(found)[:count]


def zca(patches: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (n,) and U (diag(lambda) + RIDGE)^(-1/2) U^T (n,n) of patches (N,n) of covariance U diag(lambda) U^T."""
    mean = patches.mean(0)
    rest = (patches - mean).double()
    values, vectors = torch.linalg.eigh(rest.T @ rest / len(rest))
    return mean, ((vectors / (values + RIDGE).sqrt()) @ vectors.T).to(patches)


def _normalise(patches: Tensor) -> Tensor:
    """Less the mean of a patch, over its spread; in place: (N,n)."""
    patches.sub_(patches.mean(1, keepdim=True))  # var_mean is ten times slower
    return patches.div_(patches.square().mean(1, keepdim=True).add_(CONTRAST).sqrt_())


def _quadrants(images: Tensor, out: Tensor) -> list[int]:
    """Write all patches of images (B,C,H,W) to `out` (p,n), one quadrant after the other; where each of them ends."""
    windows, at = _windows(images), 0
    ends = []
    halves = [[slice(0, (side + 1) // 2), slice((side + 1) // 2, side)] for side in windows.shape[1:3]]
    for rows in halves[0]:
        for columns in halves[1]:
            own = windows[:, rows, columns]
            count = own.shape[0] * own.shape[1] * own.shape[2]
            out[at : at + count].view(own.shape).copy_(own)
            at += count
            ends.append(at)
    return ends


def _windows(images: Tensor) -> Tensor:
    """A view of every patch of every image: (B,C,H,W) -> (B,H-SIDE+1,W-SIDE+1,C,SIDE,SIDE)."""
    return images.unfold(2, SIDE, 1).unfold(3, SIDE, 1).permute(0, 2, 3, 1, 4, 5)


def _float_images(images: Tensor) -> Tensor:
    """Images in [0,1], averaged down to at most LARGEST pixels a side."""
    size, images = _size(images), as_float(images)
    return images if size == tuple(images.shape[2:]) else F.adaptive_avg_pool2d(images, size)


def _size(images: Tensor) -> tuple[int, int]:
    """Height and width in which images are coded."""
    return min(LARGEST, images.shape[2]), min(LARGEST, images.shape[3])


_FITTED: dict[Any, Any] = {}


def _once(key: Any, make: Callable[[], T]) -> T:
    if key not in _FITTED:
        found = make()
        while len(_FITTED) >= KEPT:
            _FITTED.pop(next(iter(_FITTED)))
        _FITTED[key] = found
    return _FITTED[key]  # type: ignore[no-any-return]
