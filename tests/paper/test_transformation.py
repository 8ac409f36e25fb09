"""The figure of what every group does to an image."""

import numpy as np
import torch
from matplotlib.colors import to_hex

from duet.figure import ORANGE
from duet.groups import GROUPS
from duet.paper.transformation import draw_transformations


def test_a_row_a_group_and_the_untouched_image_framed():
    image = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(0))
    figure = draw_transformations(image, columns=9)
    panels = np.array(figure.axes).reshape(len(GROUPS), 9)
    for row, group in zip(panels, GROUPS.values(), strict=True):
        assert group.name in row[0].get_ylabel()
        framed = [panel for panel in row if to_hex(panel.spines["top"].get_edgecolor()) == ORANGE]
        for panel in framed:
            shown = panel.get_images()[0].get_array()
            np.testing.assert_allclose(shown, image.permute(1, 2, 0).numpy(), atol=1e-5)
        on_the_grid = any(abs(k / 8 - group.identity) < 1e-6 for k in range(9))
        assert len(framed) == on_the_grid
