"""The heads: widths, norms, and what the online head must never do."""

import pytest
import torch
from torch import nn

from duet.networks import OnlineHead, Predictor, Projector


def test_the_default_projector_is_2048_2048_128():
    widths = [layer.out_features for layer in Projector(512) if isinstance(layer, nn.Linear)]
    assert widths == [2048, 2048, 128]


def test_batch_norm_follows_every_linear_layer_and_no_relu_ends_it():
    layers = list(Projector(16, hidden=(256,), out=128))
    assert [type(layer).__name__ for layer in layers] == ["Linear", "BatchNorm1d", "ReLU", "Linear", "BatchNorm1d"]
    assert Projector(16, hidden=(256,), out=128)(torch.rand(4, 16)).shape == (4, 128)


def test_a_projector_without_hidden_layers_is_linear():
    assert Projector(8, hidden=(), out=4)(torch.rand(3, 8)).shape == (3, 4)


def test_the_predictor_has_three_layers_with_layer_norm_and_works_on_one_sample():
    predictor = Predictor(32, 4, hidden=64)
    assert sum(isinstance(layer, nn.Linear) for layer in predictor) == 3
    assert sum(isinstance(layer, nn.LayerNorm) for layer in predictor) == 2
    assert predictor(torch.rand(1, 32)).shape == (1, 4)


@pytest.mark.parametrize("head", [Projector(8, (16, 16), 4), Predictor(8, 4, 16)])
def test_gradients_reach_every_parameter(head):
    (head(torch.rand(6, 8)) * torch.randn(6, 4)).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in head.parameters())


def test_the_online_head_never_touches_the_encoder():
    z = torch.rand(4, 8, requires_grad=True)
    head = OnlineHead(8, 3)
    head.loss(head(z), torch.tensor([0, 1, 2, 0])).backward()
    assert z.grad is None
    assert head.linear.weight.grad.any()


def test_unlabelled_samples_do_not_count():
    head = OnlineHead(8, 3)
    logits = head(torch.rand(4, 8))
    labels = torch.tensor([2, -1, 0, -1])
    expected = nn.functional.cross_entropy(logits[[0, 2]], labels[[0, 2]])
    torch.testing.assert_close(head.loss(logits, labels), expected)


def test_a_batch_without_labels_costs_nothing_and_is_not_nan():
    head = OnlineHead(8, 3)
    logits = head(torch.rand(2, 8))
    labels = torch.tensor([-1, -1])
    loss = head.loss(logits, labels)
    loss.backward()
    assert loss.item() == 0
    assert not head.linear.weight.grad.any()
    assert head.accuracy(logits, labels).item() == 0


def test_accuracy_counts_labelled_samples_only():
    logits = torch.tensor([[9.0, 0, 0], [0, 9, 0], [0, 0, 9], [9, 0, 0]])
    assert OnlineHead(1, 3).accuracy(logits, torch.tensor([0, 2, 2, -1])).item() == pytest.approx(2 / 3)
