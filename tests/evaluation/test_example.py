"""The images that are read best and worst, kept small."""

import numpy as np
import torch

from duet.evaluation.context import Orbit
from duet.evaluation.example import COUNT, SIDE, keep_examples, small
from duet.groups import find_group

N, STEPS = 20, 5


def orbit(group):
    g = (torch.arange(STEPS).unsqueeze(1) / STEPS + torch.rand(N, generator=torch.Generator().manual_seed(0))) % 1
    return Orbit(find_group(group), g, torch.zeros(STEPS, N, 1), torch.zeros(N, dtype=torch.long))


def kept(group="rot360", side=8):
    """Images whose reading is off by as much as their number says."""
    images = torch.rand(N, 1, side, side, generator=torch.Generator().manual_seed(1))
    own = orbit(group)
    off = torch.arange(N) / (4 * N)
    return images, own, off, keep_examples(images, own, ((own.g + off) % 1).numpy())


def test_the_best_and_the_worst_in_order():
    _, own, off, arrays = kept()
    degrees = 360 * off.numpy()
    wanted = np.stack([degrees[:COUNT], degrees[::-1][:COUNT]])
    np.testing.assert_allclose(arrays["example_error"], wanted, atol=1e-3)
    true, found = arrays["example_g"][..., 0], arrays["example_g"][..., 1]
    np.testing.assert_allclose(360 * ((found - true) % 1), wanted, atol=1e-3)
    for k in range(COUNT):
        assert np.isclose(own.g[:, k].numpy(), true[0, k]).any()


def test_the_pictures_are_the_images_moved_to_both_elements():
    images, own, _, arrays = kept()
    for half, numbers in enumerate((range(COUNT), range(N - 1, N - 1 - COUNT, -1))):
        for k, number in enumerate(numbers):
            for place, name in enumerate(("example_true", "example_recovered")):
                g = torch.tensor([arrays["example_g"][half, k, place]], dtype=torch.float32)
                wanted = own.group.apply(images[number : number + 1], g)[0]
                got = arrays[name][half, k]
                assert got.dtype == np.uint8
                assert np.abs(got / 255 - wanted.numpy()).max() <= 0.5 / 255 + 1e-6


def test_each_is_shown_at_its_middle_error():
    own = orbit("rot360")
    off = torch.tensor([0.0, 0.02, 0.1, 0.2, 0.4]).unsqueeze(1).expand(-1, N)  # the same for every image
    arrays = keep_examples(torch.rand(N, 1, 4, 4), own, ((own.g + off) % 1).numpy())
    np.testing.assert_allclose(arrays["example_error"], 36, atol=1e-3)


def test_large_images_are_made_small_and_keep_their_shape():
    assert small(torch.rand(2, 3, 256, 128)).shape == (2, 3, SIDE, SIDE // 2)
    assert small(torch.rand(2, 3, 20, 30)).shape == (2, 3, 20, 30)
    assert kept(side=200)[3]["example_true"].shape == (2, COUNT, 1, SIDE, SIDE)


def test_what_is_no_element_does_not_stop_it():
    own = orbit("brightness")
    found = np.full((STEPS, N), 1.7)
    found[:, 0] = np.nan
    arrays = keep_examples(torch.rand(N, 3, 4, 4), own, found)
    assert ((arrays["example_g"] >= 0) & (arrays["example_g"] <= 1)).all()


def test_few_images_are_not_both_best_and_worst():
    own = orbit("rot360").of(torch.arange(3))
    arrays = keep_examples(torch.rand(3, 1, 4, 4), own, own.g.numpy())
    assert arrays["example_true"].shape[:2] == (2, 1)
