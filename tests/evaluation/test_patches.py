"""k-means on whitened patches: whitening, centroids, codes and principal axes, each by slow code of its own."""

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.decomposition import PCA

from duet.data import MemoryImages
from duet.evaluation import patches
from duet.evaluation.patches import FittedPatches, draw_patches, fit_axes, fit_patches, zca


def images(channels=1, side=14, n=30, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pixels = (
        255 * torch.rand(n, channels, *((side, side) if isinstance(side, int) else side), generator=generator)
    ).byte()
    pixels[: n // 3, :, 2:9, 3:8] = 200  # flat patches too
    return MemoryImages("made", "train", pixels, torch.arange(n) % 3)


def normalised(patch):
    """A patch (6,6,C) with the numbers of every channel together, as one row."""
    row = patch.transpose(2, 0, 1).ravel()
    return (row - row.mean()) / np.sqrt(np.mean((row - row.mean()) ** 2) + 10 / 255**2)


def slow_code(image, mean, whitening, centroids):
    """The code of one image (C,H,W) in [0, 1], patch by patch: (4K,)."""
    image = np.asarray(image, dtype=np.float64).transpose(1, 2, 0)
    height, width = image.shape[0] - 5, image.shape[1] - 5
    model = KMeans(len(centroids), n_init=1, init=centroids, max_iter=1).fit(centroids)
    model.cluster_centers_ = centroids
    code = np.zeros((2, 2, len(centroids)))
    for row in range(height):
        for column in range(width):
            white = (normalised(image[row : row + 6, column : column + 6]) - mean) @ whitening
            distance = model.transform(white[None])[0]
            triangle = [max(0.0, distance.mean() - one) for one in distance]
            code[int(row >= (height + 1) // 2), int(column >= (width + 1) // 2)] += triangle
    return code.ravel()


@pytest.mark.parametrize(("channels", "side"), [(1, 12), (3, 13), (1, (15, 12))])
def test_a_code_is_the_sum_over_patches_one_by_one(channels, side, monkeypatch):
    own = images(channels, side)
    encode = fit_patches(own, 7)
    x = own.tensors()[0][8:12] / 255
    parts = [part.double().numpy() for part in (encode.mean, encode.whitening, encode.centroids)]
    wanted = np.stack([slow_code(image, *parts) for image in x])
    assert wanted.std() > 0.1
    np.testing.assert_allclose(encode(x), wanted, rtol=1e-4, atol=2e-3)
    monkeypatch.setattr(patches, "BLOCK", 1)  # image by image
    np.testing.assert_allclose(encode(own.tensors()[0][8:12]), wanted, rtol=1e-4, atol=2e-3)


def test_patches_stand_where_the_images_have_them():
    own = images(3, 13, n=5)
    pixels = own.tensors()[0] / 255
    there = [pixels[i, :, a : a + 6, b : b + 6].flatten() for i in range(5) for a in range(8) for b in range(8)]
    exact = "donot_use_mm_for_euclid_dist"
    distance = torch.cdist(draw_patches(own, 100), torch.stack(there), compute_mode=exact).min(1)
    assert float(distance.values.max()) == 0
    assert len(distance.indices.unique()) > 60  # all over the images
    assert set((distance.indices // 64).tolist()) == set(range(5))


def test_whitened_patches_have_no_correlations():
    own = images(3)
    raw = draw_patches(own, 4000)
    rows = np.stack([normalised(row.reshape(3, 6, 6).permute(1, 2, 0).double().numpy()) for row in raw])
    mean, whitening = zca(torch.from_numpy(rows))
    found = PCA().fit(rows)
    values = found.explained_variance_ * (len(rows) - 1) / len(rows)
    np.testing.assert_allclose(mean, found.mean_, atol=1e-12)
    wanted = found.components_.T @ np.diag((values + 0.1) ** -0.5) @ found.components_
    np.testing.assert_allclose(whitening, wanted, atol=1e-6)  # of all square roots the symmetric one


def test_centroids_are_those_of_scikit_learn():
    own = images()
    encode = fit_patches(own, 5, seed=3)
    rows = np.stack([normalised(row.reshape(1, 6, 6).permute(1, 2, 0).numpy()) for row in draw_patches(own, 1250, 3)])
    white = ((rows - encode.mean.numpy()) @ encode.whitening.numpy()).astype(np.float32)
    found = MiniBatchKMeans(5, n_init=1, random_state=3).fit(white)
    np.testing.assert_allclose(encode.centroids, found.cluster_centers_, atol=1e-3)


def test_principal_axes_are_those_of_scikit_learn():
    own, test = images(n=60), images(n=20, seed=1).tensors()[0]
    encode = fit_patches(own, 5)
    found = PCA(6).fit(encode(own.tensors()[0]).double().numpy())
    wanted = found.transform(encode(test).double().numpy())
    z = fit_axes(encode, own)(encode(test), 6).numpy()
    signs = np.sign((z * wanted).sum(0))  # an axis may point either way
    np.testing.assert_allclose(z * signs, wanted, rtol=1e-3, atol=1e-2)


def test_a_seed_gives_the_same_codes_again_and_another_gives_others():
    x = images(seed=1).tensors()[0]
    assert torch.equal(fit_patches(images(), 6)(x), fit_patches(images(), 6)(x))
    assert not torch.allclose(fit_patches(images(), 6)(x), fit_patches(images(), 6, seed=1)(x))


def test_they_are_fitted_once_for_the_same_images():
    own = FittedPatches(images(seed=5), 6)
    again = FittedPatches(images(seed=5), 6)
    assert own.encoder() is again.encoder()
    assert own.axes() is again.axes()
    for other in (FittedPatches(images(seed=6), 6), FittedPatches(images(seed=5), 7), FittedPatches(own.images, 6, 1)):
        assert other.encoder() is not own.encoder()
        assert other.axes() is not own.axes()
    for seed in range(patches.KEPT):
        FittedPatches(own.images, 2, seed).encoder()
    assert len(patches._FITTED) == patches.KEPT  # and no more is remembered


def test_blank_images_have_a_finite_code():
    blank = MemoryImages("blank", "train", torch.zeros(20, 1, 12, 12, dtype=torch.uint8), None)
    code = fit_patches(blank, 3)(blank.tensors()[0])
    assert code.shape == (20, 12)
    assert bool(code.isfinite().all())


def test_large_images_are_averaged_down():
    large = images(side=64, n=12)
    encode = fit_patches(large, 4)
    pixels = large.tensors()[0] / 255
    small = pixels.reshape(12, 1, 32, 2, 32, 2).mean((3, 5))
    np.testing.assert_allclose(encode(pixels), encode(small), rtol=1e-4, atol=1e-2)
