"""The decoder: any size, in range, standardised by fixed statistics, and rebuilt from plain values and tensors."""

import json

import pytest
import torch
from safetensors.torch import load, save

from duet.networks.decoder import Decoder, small_decoder

TINY = {"width": 8, "blocks": 1, "stages": 2}


@pytest.fixture(autouse=True)
def _same_weights_every_time():
    torch.manual_seed(0)


def features(n, dim=12, seed=0):
    return torch.randn(n, dim, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("size", [(28, 28), (32, 32), (17, 23), (5, 1)])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shape", [{"stages": 3}, {"stages": 2, "patch": 2}, {"stages": 1, "patch": 3}])
def test_any_size_and_any_number_of_channels(size, channels, shape):
    decoder = Decoder(12, channels, size, width=4, blocks=1, **shape)
    assert decoder(features(2)).shape == (2, channels, *size)


def test_every_stage_is_half_the_next_rounded_up():
    decoder = Decoder(12, 1, (28, 17), width=4, blocks=1, stages=4)
    seen = []
    for layer in decoder.body:
        layer.register_forward_hook(lambda layer, inputs, output: seen.append(tuple(output.shape[2:])))
    decoder(features(1))
    assert seen == [(4, 3), (4, 3), (7, 5), (14, 9), (28, 17)]  # block, attention, then a block a stage


def test_by_default_it_is_resnet_18_in_reverse():
    decoder = Decoder(512, 3, (32, 32))
    widths = [layer.conv2.out_channels for layer in decoder.body if hasattr(layer, "conv2")]
    assert widths == [512, 512, 256, 256, 128, 128, 64, 64]
    assert decoder(features(1, 512)).shape == (1, 3, 32, 32)


def test_images_lie_between_0_and_1():
    decoder = Decoder(12, 1, (9, 9), **TINY)
    images = decoder(100 * features(64))
    assert images.min() == 0
    assert images.max() == 1


def test_before_the_clamp_no_pixel_is_without_a_gradient():
    decoder = Decoder(12, 1, (9, 9), **TINY)
    with torch.no_grad():
        decoder.last.bias.fill_(5.0)  # every pixel far above 1
    z = features(4)
    assert torch.equal(decoder(z), decoder.unbounded(z).clamp(0, 1))
    decoder.unbounded(z).square().mean().backward()
    assert decoder.last.bias.grad.abs().max() > 0


@pytest.mark.parametrize("patch", [1, 4])
def test_gradients_reach_every_parameter(patch):
    decoder = Decoder(12, 3, (17, 23), width=8, blocks=2, stages=3, patch=patch)
    (decoder.unbounded(features(4)) - 0.5).square().mean().backward()
    still = [name for name, p in decoder.named_parameters() if p.grad is None or not p.grad.abs().max() > 1e-7]
    assert still == []


def test_features_are_standardised_by_the_statistics_it_was_given():
    plain, shifted = (Decoder(12, 1, (8, 8), **TINY) for _ in range(2))
    shifted.load_state_dict(plain.state_dict())
    z = features(500)
    offset, stretch = torch.arange(12.0), torch.linspace(0.1, 30, 12)
    plain.standardise_by(z)
    shifted.standardise_by(z * stretch + offset)
    torch.testing.assert_close(plain.scale * stretch, shifted.scale)
    torch.testing.assert_close(plain(z), shifted(z * stretch + offset), atol=1e-4, rtol=1e-4)


def test_a_constant_feature_stays_finite():
    decoder = Decoder(3, 1, (8, 8), **TINY)
    z = features(50, 3)
    z[:, 1] = 7.3
    decoder.standardise_by(z)
    assert decoder.scale[1] == 1
    assert decoder(z).isfinite().all()


def test_many_images_are_decoded_in_batches():
    decoder = Decoder(12, 1, (8, 8), **TINY).eval()
    z = features(7)
    torch.testing.assert_close(decoder.images(z, batch=3), decoder(z))
    assert decoder.images(z[:0]).shape == (0, 1, 8, 8)


def test_plain_values_and_tensors_are_all_of_it():
    decoder = Decoder(12, 3, (17, 23), **TINY, patch=2, heads=2)
    decoder.standardise_by(3 + 2 * features(40))
    config = json.loads(json.dumps(decoder.to_dict()))
    tensors = load(save({key: value.contiguous() for key, value in decoder.state_dict().items()}))
    again = Decoder.from_dict(config, tensors)
    assert again.to_dict() == decoder.to_dict()
    assert not again.training
    assert torch.equal(again(features(5)), decoder(features(5)))


def test_the_small_decoder_suits_two_cores():
    decoder = small_decoder(128, 1, (28, 28))
    assert sum(p.numel() for p in decoder.parameters()) < 500_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0}, "dim must be at least 1"),
        ({"size": (0, 8)}, "height must be at least 1"),
        ({"width": 6, "stages": 1, "heads": 4}, "do not divide by 4 heads"),
    ],
)
def test_what_cannot_be_built_is_refused_with_its_reason(arguments, message):
    with pytest.raises(ValueError, match=message):
        Decoder(**{"dim": 12, "channels": 1, "size": (8, 8), **arguments})


def test_statistics_of_other_features_are_refused():
    with pytest.raises(ValueError, match=r"features \(N, 12\), got \(4, 5\)"):
        Decoder(12, 1, (8, 8), **TINY).standardise_by(torch.zeros(4, 5))
