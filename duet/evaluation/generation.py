"""Group-conditional generation (paper, section 5): decode T_g f(x) and compare it with the truly transformed image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..domain import Circle
from ..error import DuetError
from ..groups import Group
from ..model import fit_action, save_decoder
from ..model.fitting import Features
from ..networks.decoder import Decoder, small_decoder
from ..pixels import as_float
from ..representation import ACTIONS, Action, Prescribed, Spectrum
from .context import Context
from .decoder_training import BuildDecoder, Training, describe_decoder, random_views, train_decoder
from .evaluation import Evaluation, register_evaluation
from .grid import decoded_elements
from .result import Result
from .subject import Subject, as_subject, axis_of
from .wording import join, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Decode = Callable[[Tensor], Tensor]  # (N,D) -> (N,C,H,W) in [0,1]


@register_evaluation
class Generation(Evaluation):
    """Decode T_g f(x) of turned test images over a sweep of g; the decoder is kept with the run."""

    name = "generation"
    order = 70
    rivals = False
    title = "Generation"
    question = "What does the decoder show when only the features are moved?"
    shown = ("reconstruction_error", "action_error_*", "no_action_error")
    words = {action.name: action.title for action in ACTIONS}
    key_figure = "opening"
    captions = {
        "opening": "The encoder saw each image once, in the framed column. Its features were moved to the other "
        "columns and decoded; above them stand the truly transformed images.",
        "strips": "In each strip first the image truly transformed, then what a decoder makes of features that were "
        "moved instead, from the image in the frame. Below, errors of many images from random starts.",
    }

    def measure(self, context: Context) -> Result:
        """Train a decoder of these features, and decode."""
        decoder, training = context.decoder()
        if context.run is not None:
            save_decoder(decoder, context.run, context.group.name)
        return generation(
            context.subject,
            context.decoder_images,
            context.images,
            context.group,
            decoder=decoder,
            actions=context.actions,
            images=len(context.images),
            seed=context.seed,
            training=training,
        )

    def summary(self, result: Result) -> dict[str, str]:
        """The errors of decoded images."""
        rows = {"reconstruction_error": "decoded image, squared error"}
        rows |= {f"action_error_{a.name}": f"  after {a.title}" for a in ACTIONS}
        rows["no_action_error"] = "  without an action"
        return {key: text for key, text in rows.items() if key in result.scalars}

    def figures(self, result: Result) -> dict[str, Figure]:
        """Strips of decoded images: a short one, and all with their errors."""
        from .drawing.strips import draw_opening, draw_strips

        return {"opening": draw_opening(result), "strips": draw_strips(result)}

    def sentence(self, result: Result) -> str:
        """The errors, beside those of the decoder alone and of doing nothing."""
        s = result.scalars
        text = f"Decoded after the fitted action, an image has a squared error of {number(s['action_error_fitted'])}"
        for action in (Spectrum, Prescribed):
            if f"action_error_{action.name}" in s:
                text += f", after {action.title} of {number(s[f'action_error_{action.name}'])}"
        text += (
            f"; the decoder itself has {number(s['reconstruction_error'])}, "
            f"and doing nothing {number(s['no_action_error'])}."
        )
        lost = [action.title for action in ACTIONS if s.get(f"action_error_{action.name}", 0.0) > s["no_action_error"]]
        words = describe_decoder(result.provenance)
        if words:
            text += f" It is {words}."
        if lost:
            text += (
                f" After {join(lost)} the picture is worse than without any action: features are carried where no "
                "image has any, and what the decoder makes of them is static."
            )
        return text


def generation(
    encoder: Subject,
    train: Tensor,
    test: Tensor,
    group: str | Group | None = None,
    *,
    decoder: Decoder | None = None,
    actions: Mapping[str, Action] | None = None,
    build: BuildDecoder = small_decoder,
    training: Training | None = None,
    images: int = 300,
    sweep: int = 36,
    shown: int = 4,
    seed: int = 0,
) -> Result:
    """Decode features of test images that were moved to every g of a sweep, against tau_g x: both sets (N,C,H,W).

    Every image starts at a random element a. Errors are mean squared errors on [0,1]: `reconstruction_error` of
    d(f(tau_g x)) at random g, `no_action_error` of d(f(tau_a x)), and `action_error_NAME` of d(T f(tau_a x)) for every
    action: those given, or by default the paper's, where the features have columns for the group, and one fitted to
    `train`. A finite group is swept between its elements too; errors are means over its elements. The strips start from
    one element (`strip_start`). A trained `decoder` can be given; else one is trained on `train`.
    """
    subject = as_subject(encoder)
    chosen = group if isinstance(group, Group) else _group(subject, group)
    training = training or Training()
    if decoder is None:
        decoder = train_decoder(subject.features, train, chosen, build=build, training=training, seed=seed)
    if actions is None:
        actions = default_actions(subject, chosen, train, seed)
    generator = torch.Generator().manual_seed(seed)
    x = as_float(test[torch.randperm(len(test), generator=generator)[:images].to(test.device)])
    g, true = decoded_elements(chosen, sweep)
    reconstruction = torch.cat(
        [reconstruction_errors(decoder.images, subject.features, x, chosen, generator) for _ in range(len(true))]
    )
    start = chosen.sample(len(x), generator)
    turned = subject.features(chosen.apply(x, start))
    errors = action_errors(decoder.images, turned, start, x, chosen, g, actions)
    first = strip_start(chosen, g)
    strips = decoded_strips(decoder.images, subject.features, x[:shown], first, chosen, g, actions)
    scalars = {
        "reconstruction_error": float(reconstruction.mean()),
        "no_action_error": float(errors["none"][true].mean()),
    }
    scalars |= {f"action_error_{name}": float(errors[name][true].mean()) for name in actions}
    arrays = {"g": g, "parameter": chosen.parameter(g), "truth": strips.pop("truth")}
    arrays |= {f"decoded_{name}": strip for name, strip in strips.items()}
    arrays |= {f"error_{name}": error for name, error in errors.items()}
    provenance: dict[str, Any] = {
        **subject.description,
        **chosen.describe(),
        "decoder": decoder.to_dict(),
        "start": first,
        "training": asdict(training),
        "train_images": len(train),
        "test_images": len(x),
        "seed": seed,
    }
    return Result("generation", scalars, arrays, provenance)


def default_actions(subject: Subject, group: Group, images: Tensor, seed: int = 0) -> dict[str, Action]:
    """The paper's T_g, where the features have columns for the group, and one fitted to these images."""
    axis = axis_of(subject, group)
    own: list[Action] = [] if axis is None else [Prescribed(subject.layout, axis, subject.relative)]
    return {a.name: a for a in (*own, fit_action(subject.features, images, group, seed=seed))}


def reconstruction_errors(
    decode: Decode, features: Features, images: Tensor, group: Group, generator: torch.Generator
) -> Tensor:
    """|d(f(tau_g x)) - tau_g x|^2, mean over the pixels, at one random g an image: (N,C,H,W) -> (N,)."""
    views, z = random_views(features, images, group, generator)
    return squared_errors(decode(z), views)


def action_errors(
    decode: Decode, z: Tensor, start: Tensor, images: Tensor, group: Group, g: Tensor, actions: Mapping[str, Action]
) -> dict[str, Tensor]:
    """|d(T z) - tau_g x|^2 of every action from `start` to g, mean over images and pixels, and of "none", that is d(z).

    z (N,D) are features of the images (N,C,H,W) at start (N,); g (S,) -> (S,) by action.
    """
    errors: dict[str, list[Tensor]] = {name: [] for name in ("none", *actions)}
    still, start = decode(z), start.to(z.device)
    for element in g.tolist():
        goal = torch.full((len(images),), element, device=z.device)
        truth = group.apply(images, goal)
        errors["none"].append(squared_errors(still, truth).mean())
        for name, action in actions.items():
            errors[name].append(squared_errors(decode(action.carry(z, start, goal)), truth).mean())
    return {name: torch.stack(values) for name, values in errors.items()}


def decoded_strips(
    decode: Decode,
    features: Features,
    images: Tensor,
    start: float,
    group: Group,
    g: Tensor,
    actions: Mapping[str, Action],
) -> dict[str, Tensor]:
    """The "truth" tau_g x, and d(T f(tau_start x)) of every action, of images (K,C,H,W): (K,S,C,H,W) each."""
    strips: dict[str, list[Tensor]] = {name: [] for name in ("truth", *actions)}
    first = torch.full((len(images),), start)
    z = features(group.apply(images, first))
    first = first.to(z.device)
    for element in g.tolist():
        goal = torch.full_like(first, element)
        strips["truth"].append(group.apply(images, goal))
        for name, action in actions.items():
            strips[name].append(decode(action.carry(z, first, goal)))
    return {name: torch.stack(values, 1) for name, values in strips.items()}


def strip_start(group: Group, g: Tensor) -> float:
    """The element of a sweep from which its images are moved: on a circle a twelfth beyond the untouched one.

    Untouched images are sharper than any that were turned; neither encoder nor decoder has seen such.
    """
    if group.elements is not None or not isinstance(group.domain, Circle):
        return group.identity
    return float(g[group.domain.distance(g, torch.tensor(group.identity + 1 / 12)).argmin()])


def squared_errors(decoded: Tensor, truth: Tensor) -> Tensor:
    """Mean squared error of every image: (N,C,H,W), (N,C,H,W) -> (N,)."""
    return (decoded - truth).square().flatten(1).mean(1)


def _group(subject: Subject, name: str | None) -> Group:
    groups = subject.groups
    if name is None and len(groups) == 1:
        return next(iter(groups.values()))
    if name is None or name not in groups:
        raise DuetError(f"say which group to generate; this model has {', '.join(groups)}")
    return groups[name]
