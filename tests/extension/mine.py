"""A user's own module: a group, an objective, a method, an evaluation and a backbone, and nothing else."""

import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

import duet
from duet.evaluation import Evaluation, Result
from duet.groups import Group
from duet.methods import Method


class Gamma(Group):
    """x -> x^exponent, with a little noise that g does not tell."""

    name, title, unit, identity, span = "gamma", "tone", "log2 exponent", 0.5, (-1.0, 1.0)

    def transform(self, images, g, generator=None):
        changed = images.clamp(min=1e-6) ** torch.exp2(self.parameter(g)).view(-1, 1, 1, 1)
        if generator is None:
            return changed
        noise = torch.rand(images.shape, generator=generator, device=generator.device).to(images.device)
        return (changed + 0.01 * noise).clamp(0, 1)


def decorrelate(first, second, gather=None, off=0.01):
    """Barlow Twins: the cross-correlation of two views is the identity. A contrast for DUET or SimCLR."""
    a, b = ((z - z.mean(0)) / (z.std(0) + 1e-6) for z in (first, second))
    correlation = a.T @ b / len(a)
    on = (correlation.diagonal() - 1).square().sum()
    rest = correlation.square().sum() - correlation.diagonal().square().sum()
    return (on + off * rest) / len(correlation)


class BYOL(Method):
    """No negatives: a predictor of one view's projection by an average of the network itself."""

    name, title = "byol", "BYOL"

    @dataclass(frozen=True)
    class Options:
        """How slowly the average follows, and how much faster the predictor learns."""

        decay: float = 0.99
        predictor_lr: float = 0.01

    def __init__(self, backbone, layout, projector, decay, predictor_lr):
        super().__init__(backbone, layout)
        self.projector = projector
        width = projector[-1].num_features
        self.predictor = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.average = copy.deepcopy(nn.Sequential(backbone, projector)).requires_grad_(False)
        self.decay, self.predictor_lr = decay, predictor_lr

    @classmethod
    def build(cls, parts, options):
        return cls(
            parts.backbone,
            parts.layout,
            parts.projector(parts.layout.content_width),
            options.decay,
            options.predictor_lr,
        )

    def terms(self, represented, views, gather=None):
        guess = views.split(F.normalize(self.predictor(self.projector(represented.z)), dim=1))
        with torch.no_grad():
            goal = views.split(F.normalize(self.average(views.images), dim=1))
        return {"regression": 2 - (guess[0] * goal[1]).sum(1).mean() - (guess[1] * goal[0]).sum(1).mean()}

    def after_step(self, step):
        online = nn.Sequential(self.backbone, self.projector)
        with torch.no_grad():
            for mean, value in zip(self.average.parameters(), online.parameters(), strict=True):
                mean.lerp_(value, 1 - self.decay)

    def parameter_groups(self):
        own = [*self.backbone.parameters(), *self.projector.parameters()]
        return [{"params": own}, {"params": list(self.predictor.parameters()), "lr": self.predictor_lr}]


class Norms(Evaluation):
    """How large the features of test images are."""

    name, title, question = "norms", "Norms", "How large are the features?"
    captions = {"lengths": "Lengths of the features of test images."}

    def measure(self, context):
        lengths = context.subject.features(context.test.sample(32, seed=0)).norm(dim=1)
        return Result("norms", {"mean_length": float(lengths.mean())}, {"lengths": lengths})

    def figures(self, result):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4, 2))
        figure.subplots().hist(result.arrays["lengths"])
        return {"lengths": figure}

    def sentence(self, result):
        return f"Features under {result.provenance['title']} are {result.scalars['mean_length']:.1f} long."


def build(channels):
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 64)
    )


duet.register_group(Gamma())
duet.register_objective(decorrelate)
duet.register_method(BYOL)
duet.register_evaluation(Norms)
