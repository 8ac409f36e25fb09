"""Views of images in any order, put together by image."""

import math

import pytest
import torch

from duet.representation.views import gather_views


def test_every_view_stands_with_its_image():
    ids = torch.tensor([5, -2, 5, 9, -2, 9, 5, 1, 1, 3, 3, 4, 4, 6, 6, 8, 8])
    g = torch.arange(17) / 17
    z = torch.stack([ids.float(), g], 1)
    order = torch.randperm(17, generator=torch.Generator().manual_seed(0))
    found = gather_views(z[order], ids[order], g[order])
    assert found.ids.tolist() == [-2, 1, 3, 4, 5, 6, 8, 9]
    assert found.z.shape == (8, 2, 2)
    assert torch.equal(found.z[..., 0], found.ids[:, None].expand(8, 2).float())
    assert torch.equal(found.z[..., 1], found.g)
    assert all(len(set(views)) == 2 for views in found.g.tolist())
    again = gather_views(z, ids, g)
    assert torch.equal(found.g, again.g)


def test_which_views_are_taken_does_not_depend_on_their_g():
    generator = torch.Generator().manual_seed(3)
    g = torch.randint(4, (4000,), generator=generator) / 4
    ids = torch.arange(1000).repeat_interleave(4)
    ids = torch.cat([ids, torch.tensor([1000, 1000])])  # one image with two views: two of each are taken
    g = torch.cat([g, torch.tensor([0.0, 0.5])])
    z = torch.randn(len(ids), 3, generator=generator)
    taken = gather_views(z, ids, g).g
    assert taken.shape == (1001, 2)
    share = torch.bincount((taken.flatten() * 4).long(), minlength=4) / taken.numel()
    assert (share - 0.25).abs().max() < 4 * math.sqrt(0.25 * 0.75 / taken.numel())
    same = (taken[:, 0] == taken[:, 1]).double().mean()  # nor on the g of the other one
    assert abs(float(same) - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 1000)


@pytest.mark.parametrize(
    ("ids", "message"),
    [([0, 0, 1, 1, 2, 2], "at least 8 images, not 3"), ([*range(8), *range(7)], "1 of 8 images have one view only")],
)
def test_too_few_views_are_refused(ids, message):
    ids = torch.tensor(ids)
    with pytest.raises(ValueError, match=message):
        gather_views(torch.randn(len(ids), 2), ids, torch.rand(len(ids)))
