"""The heads of pre-training: projector, ESSL's predictor, and the linear head that tracks quality."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

UNLABELLED = -1


class Projector(nn.Sequential):
    """MLP before the contrastive loss, 2048-2048-128 in the paper: (B, in_dim) -> (B, out).

    As in SimCLR, batch norm follows every linear layer, the last one too; the last has no ReLU.
    """

    def __init__(self, in_dim: int, hidden: Sequence[int] = (2048, 2048), out: int = 128) -> None:
        layers: list[nn.Module] = []
        width = in_dim
        for next_width in hidden:
            layers += [nn.Linear(width, next_width, bias=False), nn.BatchNorm1d(next_width), nn.ReLU(inplace=True)]
            width = next_width
        super().__init__(*layers, nn.Linear(width, out, bias=False), nn.BatchNorm1d(out))


class Predictor(nn.Sequential):
    """ESSL's three layers with layer norm (decision 13): (B, in_dim) -> (B, out)."""

    def __init__(self, in_dim: int, out: int, hidden: int = 2048) -> None:
        super().__init__(
            nn.Linear(in_dim, hidden),
            nn.LayerNorm(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden),
            nn.LayerNorm(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, out),
        )


class OnlineHead(nn.Module):
    """Linear classifier trained beside the encoder without touching it: (B, dim) -> (B, classes)."""

    def __init__(self, dim: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, classes)

    def forward(self, z: Tensor) -> Tensor:
        """(B, dim) -> (B, classes); the gradient stops here"""
        return self.linear(z.detach())  # type: ignore[no-any-return]

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy of the labelled samples; 0 when there are none. (B, classes), (B,) -> ()"""
        total = functional.cross_entropy(logits, labels, ignore_index=UNLABELLED, reduction="sum")
        return total / (labels != UNLABELLED).sum().clamp(min=1)

    def accuracy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Share of the labelled samples whose largest logit is right; 0 when there are none."""
        labelled = labels != UNLABELLED
        return ((logits.argmax(1) == labels) & labelled).sum() / labelled.sum().clamp(min=1)
