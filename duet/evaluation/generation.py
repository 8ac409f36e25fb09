"""Group-conditional generation (paper, section 5): decode T_g f(x) and compare it with the truly transformed image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..actions import Features, fit_action
from ..artifact import Encoder, save_decoder
from ..data.progress import track
from ..groups import Group
from ..groups.group import as_float
from ..networks.decoder import Decoder, small_decoder
from ..representation import FittedAction, Representation
from .context import Context
from .result import Result
from .subject import Subject, as_subject

BuildDecoder = Callable[[int, int, tuple[int, int]], Decoder]  # (dim, channels, size) -> fresh weights
Decode = Callable[[Tensor], Tensor]  # (N,D) -> (N,C,H,W) in [0,1]
Action = Callable[[Tensor, float], Tensor]  # features (N,D) of untouched images, g -> (N,D)
STATISTICS = 2048  # views from which the decoder takes the mean and spread of the features


@dataclass(frozen=True)
class Training:
    """How a decoder is trained: Adam, one cycle of the learning rate.

    `noise` is added to the features, in units of their spread: the decoder then meets features off those of any image,
    as the prescribed T_g f(x) is. It costs some plain reconstruction.
    """

    steps: int = 1500
    batch: int = 128
    lr: float = 2e-3
    noise: float = 0.3

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (value >= 0 if name == "noise" else value > 0):
                raise ValueError(f"{name} of a decoder's training cannot be {value}")


def train_decoder(
    features: Features,
    images: Tensor,
    group: Group,
    *,
    build: BuildDecoder = small_decoder,
    training: Training | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    label: str = "decoder",
) -> Decoder:
    """Train d with d(f(tau_g x)) = tau_g x on images (N,C,H,W) under random g, by squared error; f stays as it is.

    A view is the whole image under one element of the group: no crop and no jitter, because that is what T_g f(x) is
    compared with, and what the fitted action was fitted to. Every step draws fresh views.
    """
    if not len(images):
        raise ValueError("a decoder needs images to train on")
    training = training or Training()
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(len(images), (STATISTICS,), generator=generator)
    _, z = _draw(features, images[rows], group, generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        decoder = build(z.shape[1], images.shape[1], (images.shape[2], images.shape[3]))
    decoder.standardise_by(z)
    spread = decoder.scale.clone()
    decoder.to(device).train()
    parameters = list(decoder.parameters())
    fused = all(p.device.type in ("cpu", "cuda") for p in parameters)
    optimizer = torch.optim.Adam(parameters, lr=training.lr, fused=fused)
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, training.lr, total_steps=training.steps + 1, pct_start=0.1, cycle_momentum=False
    )
    order = torch.empty(0, dtype=torch.int64)
    for _ in track(((1, step) for step in range(training.steps)), training.steps, label):
        # Every image as often as any other, give or take one, also when there are fewer than a batch.
        while len(order) < training.batch:
            order = torch.cat([order, torch.randperm(len(images), generator=generator)])
        rows, order = order[: training.batch], order[training.batch :]
        views, z = _draw(features, images[rows], group, generator)
        z = z + training.noise * spread * torch.randn(z.shape, generator=generator)
        loss = (decoder.unbounded(z.to(device)) - views.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        cycle.step()
    return decoder.eval()


def generate(context: Context) -> Result:
    """The generation study of a context; the decoder is kept in its folder, for whoever wants to see more."""
    train, test = context.probe_images, context.images
    subject, sizes = context.subject, context.sizes
    decoder = train_decoder(
        subject.features,
        train,
        context.group,
        training=Training(steps=sizes.decoder_steps),
        seed=context.seed,
        label=f"decoder of {subject.description.get('method', 'the encoder')}",
    )
    if context.folder is not None:
        save_decoder(decoder, context.folder, context.group.name)
    subject = replace(subject, actions={**subject.actions, context.group.name: context.action})
    found = generation(
        subject,
        train,
        test,
        context.group.name,
        decoder=decoder,
        images=len(test),
        seed=context.seed,
        training=Training(steps=sizes.decoder_steps),
    )
    return replace(found, provenance={**found.provenance, **context.provenance()})


def generation(
    encoder: Encoder | Subject,
    train: Tensor,
    test: Tensor,
    group: str | None = None,
    *,
    decoder: Decoder | None = None,
    build: BuildDecoder = small_decoder,
    training: Training | None = None,
    images: int = 300,
    sweep: int = 36,
    shown: int = 4,
    seed: int = 0,
) -> Result:
    """Decode T_g f(x) of untouched test images for a sweep of g, against tau_g x: train and test are (N,C,H,W).

    Errors are mean squared errors on [0,1]: `reconstruction_error` of d(f(tau_g x)) at random g, `no_action_error` of
    d(f(x)), `action_error_fitted` and, where the features have columns for the group, `action_error_prescribed` of
    d(T_g f(x)). A trained `decoder` can be given; else one is trained on `train`.
    """
    subject = as_subject(encoder)
    chosen = _group(subject, group)
    training = training or Training()
    if decoder is None:
        decoder = train_decoder(subject.features, train, chosen, build=build, training=training, seed=seed)
    fitted = subject.actions.get(chosen.name) or fit_action(subject.features, train, chosen, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    x = as_float(test[torch.randperm(len(test), generator=generator)[:images]])
    g = elements(chosen, sweep)
    actions = {**prescribed_action(subject, chosen), "fitted": fitted_action(fitted, chosen)}
    reconstruction = torch.cat(
        [reconstruction_errors(decoder.images, subject.features, x, chosen, generator) for _ in range(len(g))]
    )
    errors, strips = action_errors(decoder.images, subject.features(x), x, chosen, g, actions, shown)
    scalars = {"reconstruction_error": float(reconstruction.mean()), "no_action_error": float(errors["none"].mean())}
    scalars |= {f"action_error_{name}": float(errors[name].mean()) for name in actions}
    arrays = {"g": g, "parameter": chosen.parameter(g), "truth": strips.pop("truth")}
    arrays |= {f"decoded_{name}": strip for name, strip in strips.items()}
    arrays |= {f"error_{name}": error for name, error in errors.items()}
    provenance: dict[str, Any] = {
        **subject.description,
        "group": chosen.name,
        "unit": chosen.unit,
        "identity": chosen.identity,
        "decoder": decoder.to_dict(),
        "training": asdict(training),
        "train_images": len(train),
        "test_images": len(x),
        "seed": seed,
    }
    return Result("generation", scalars, {name: value.numpy() for name, value in arrays.items()}, provenance)


def elements(group: Group, sweep: int) -> Tensor:
    """The g of the sweep: all of a finite group; on the circle a grid with the identity; else from end to end: (S,)."""
    if group.elements is not None:
        return torch.tensor(sorted(group.elements))
    if group.cyclic:
        return (group.identity + torch.arange(sweep) / sweep).remainder(1).sort().values
    # A crop's scale, for one, is never drawn near g = 0: the decoder would be asked for what it has not seen.
    drawn = group.sample(4096, torch.Generator().manual_seed(0))
    return torch.linspace(round(float(drawn.min()), 2), round(float(drawn.max()), 2), sweep + 1)


def prescribed_action(subject: Subject, group: Group) -> dict[str, Action]:
    """The paper's T_g by name, or nothing when the features have no columns for the group."""
    if subject.axis(group) is None:
        return {}

    def action(z: Tensor, g: float) -> Tensor:
        representation = Representation(z, subject.layout, relative=subject.relative)
        if representation.relative:  # it knows differences only, and the image is untouched
            return representation.shift(group.name, by=g - group.identity).flat
        return representation.act(group.name, to=g).flat

    return {"prescribed": action}


def fitted_action(fitted: FittedAction, group: Group) -> Action:
    """The fitted T_by with by = g - identity, for an untouched image."""
    return lambda z, g: fitted(z, torch.full((len(z),), g - group.identity))


def reconstruction_errors(
    decode: Decode, features: Features, images: Tensor, group: Group, generator: torch.Generator
) -> Tensor:
    """|d(f(tau_g x)) - tau_g x|^2, mean over the pixels, at one random g an image: (N,C,H,W) -> (N,)."""
    views, z = _draw(features, images, group, generator)
    return squared_errors(decode(z), views)


def action_errors(
    decode: Decode, z: Tensor, images: Tensor, group: Group, g: Tensor, actions: Mapping[str, Action], shown: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """|d(T_g f(x)) - tau_g x|^2 of every action, mean over images and pixels: z (N,D), images (N,C,H,W), g (S,).

    Returns errors (S,) by action and of "none", that is d(f(x)); and strips (K,S,C,H,W) of the first K = `shown` images
    by action and of the "truth".
    """
    errors: dict[str, list[Tensor]] = {name: [] for name in ("none", *actions)}
    strips: dict[str, list[Tensor]] = {name: [] for name in ("truth", *actions)}
    still = decode(z)
    for element in g.tolist():
        truth = group.apply(images, torch.full((len(images),), element))
        strips["truth"].append(truth[:shown])
        errors["none"].append(squared_errors(still, truth).mean())
        for name, action in actions.items():
            decoded = decode(action(z, element))
            errors[name].append(squared_errors(decoded, truth).mean())
            strips[name].append(decoded[:shown])
    return (
        {name: torch.stack(values) for name, values in errors.items()},
        {name: torch.stack(values, 1) for name, values in strips.items()},
    )


def squared_errors(decoded: Tensor, truth: Tensor) -> Tensor:
    """Mean squared error of every image: (N,C,H,W), (N,C,H,W) -> (N,)."""
    return (decoded - truth).square().flatten(1).mean(1)


def _draw(features: Features, images: Tensor, group: Group, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Views at random elements, without nuisance, and their features: (N,C,H,W) -> (N,C,H,W), (N,D)."""
    views = group.apply(as_float(images), group.sample(len(images), generator))
    return views, features(views)


def _group(subject: Subject, name: str | None) -> Group:
    groups = subject.groups
    if name is None and len(groups) == 1:
        return next(iter(groups.values()))
    if name is None or name not in groups:
        raise ValueError(f"say which group to generate; this model has {', '.join(groups)}")
    return groups[name]
