"""A trained encoder as a scikit-learn transformer."""

from __future__ import annotations

import math
import os
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .error import DuetError
from .model import Encoder, load
from .representation import Representation

Kind = Literal["flat", "content", "group"]
KINDS = ("flat", "content", "group")


class DuetTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Images to features: arrays (n, H, W[, C]), rows (n, H*W[*C]) as `reshape(n, -1)` makes them, or paths of image
    files -> (n, features).

    `model`: an Encoder, or what `duet.load` takes. `features`: "flat" (all), "content" (what does not depend on the
    group) or "group" (the marginals of all axes side by side). `image_shape`: (H, W) or (H, W, C) of a row; by default
    the model's own. `white`: the value of white; by default 255 for whole numbers and 1 for floats.

    Rows that are no image of that shape are refused: a guess would give features of nothing. Images of another size
    are resized as in training. `fit` loads the model and learns nothing from X.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Encoder = "digits-rot360",
        *,
        features: Kind = "flat",
        image_shape: tuple[int, ...] | None = None,
        white: float | None = None,
        batch_size: int = 256,
        device: str = "auto",
    ) -> None:
        self.model = model
        self.features = features
        self.image_shape = image_shape
        self.white = white
        self.batch_size = batch_size
        self.device = device

    def fit(self, X: ArrayLike, y: Any = None) -> DuetTransformer:
        """Load the model and check that X holds images; y is ignored."""
        if self.features not in KINDS:
            raise DuetError(f"features must be one of {', '.join(KINDS)}, not {self.features!r}")
        rows, shape = (None, None) if are_paths(X) else self._rows(X, reset=True)
        self.encoder_ = self.model if isinstance(self.model, Encoder) else load(self.model, self.device)
        if self.features == "group" and not self.encoder_.layout.axes:
            raise DuetError("this model has no group; choose features 'flat' or 'content'")
        if rows is not None:
            self.image_shape_ = shape or self._shape_of_rows(rows.shape[1])
            self._images(rows, self.image_shape_)
        self._n_features_out = self._chosen(self.encoder_.embed([])).shape[1]
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Features of the images: (n, H, W[, C]), (n, H*W[*C]) or n paths -> (n, features) float32."""
        check_is_fitted(self)
        if are_paths(X):
            return self._chosen(self.encoder_.embed(np.asarray(X).tolist(), batch_size=self.batch_size))
        known = hasattr(self, "image_shape_")
        rows, shape = self._rows(X, reset=not known)  # fitted to paths: what a row is, this call shows
        images = self._images(rows, shape or (self.image_shape_ if known else self._shape_of_rows(rows.shape[1])))
        return self._chosen(self.encoder_.embed(images, batch_size=self.batch_size))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """flat0, flat1, ...; content0, ...; or for every group its name and the number of the bin."""
        check_is_fitted(self)
        if self.features == "group":
            names = [f"{axis.name}{number}" for axis in self.encoder_.layout.axes for number in range(axis.bins)]
        else:
            names = [f"{self.features}{number}" for number in range(self._n_features_out)]
        return np.asarray(names, dtype=object)

    def _rows(self, X: Any, reset: bool) -> tuple[NDArray[Any], tuple[int, ...] | None]:
        """X as checked rows (n, features), and the shape of an image where X shows it."""
        shape = None
        if isinstance(X, np.ndarray) and X.ndim in (3, 4):
            shape = (*X.shape[1:], 1)[:3]
            X = X.reshape(len(X), -1) if len(X) else np.empty((0, math.prod(shape)), X.dtype)
        rows: NDArray[Any] = validate_data(self, X, reset=reset, dtype="numeric", ensure_non_negative=True)
        return rows, shape

    def _shape_of_rows(self, count: int) -> tuple[int, ...]:
        """(H, W, C) of a row of `count` values."""
        size, channels = self.encoder_.image_size, self.encoder_.channels
        if size is None and self.image_shape is None:
            raise DuetError("this model does not say which size of images it takes; say image_shape")
        size = size or (0, 0)
        candidates: list[tuple[int, ...]] = [(*size, channels), (*size, 1), (*size, 3)]
        if self.image_shape is not None:
            candidates = [(*(int(side) for side in self.image_shape), 1)[:3]]
        for shape in candidates:
            if math.prod(shape) == count:
                return shape
        wanted = "x".join(str(side) for side in candidates[0])
        raise DuetError(
            f"rows of {count} features are not images of {wanted} = {math.prod(candidates[0])} values; give X as "
            "(n, H, W) or (n, H, W, C), or say image_shape"
        )

    def _images(self, rows: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Rows as images in [0, 1]: (n, features) -> (n, H, W, C)."""
        white = self.white if self.white is not None else 255.0 if rows.dtype.kind in "iu" else 1.0
        images = (rows / white).astype(np.float32).reshape(len(rows), *shape)
        if images.size and not images.max() <= 1 + 1e-3:
            raise DuetError(f"X reaches {rows.max():g} and white is {white:g}; say what white is, such as white=255")
        return images

    def _chosen(self, representation: Representation) -> NDArray[Any]:
        if self.features == "group":
            marginals = [representation.marginal(axis) for axis in representation.layout.axes]
            return np.concatenate([marginal.cpu().numpy() for marginal in marginals], axis=1)
        return representation.numpy() if self.features == "flat" else representation.content.cpu().numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float32"]  # and float32 from everything else
        return tags


def are_paths(X: Any) -> bool:
    """Whether these are paths of image files: a list or an array of text or of paths, one an image."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "UO" and X.ndim == 1:
        X = X.tolist()
    return isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(x, str | os.PathLike) for x in X)
