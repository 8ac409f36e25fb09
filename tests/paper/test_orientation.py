"""The figure of `duet orient` shows images turned back."""

import numpy as np
import torch

from duet.paper.orientation import draw_orientation


def test_images_are_turned_back_and_unsure_ones_left_alone(compass):
    images = torch.zeros(5, 1, 28, 28)
    images[:4, :, 3:8, 12:16] = 1  # the last is black and says nothing
    figure = draw_orientation(compass, images)
    after = [panel.get_images()[0].get_array() for panel in figure.axes[5:10]]
    for shown, image in zip(after[:4], images[:4, 0], strict=True):
        assert np.abs(shown - image.numpy()).mean() < 0.03
    assert figure.axes[9].get_xlabel() == "left alone"
    assert "sure (4)" in figure.axes[10].get_legend().get_texts()[0].get_text()
