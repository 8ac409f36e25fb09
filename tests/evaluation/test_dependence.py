"""Delta P, against tables worked out by hand."""

import math

import pytest
import torch

from duet.evaluation import Inapplicable
from duet.evaluation.dependence import Dependence, columns, delta_p, joint, mutual_information
from duet.representation import Axis, Concatenated, Gaussian, Joint, Table, VonMises

A, B = Axis("a", 3, VonMises(0.2)), Axis("b", 2, Gaussian(0.2))


def test_a_product_is_independent():
    masses = torch.tensor([[0.2], [0.8]]) * torch.tensor([[0.3, 0.7]])
    assert float(delta_p(masses.unsqueeze(0))) == pytest.approx(0, abs=1e-12)
    assert float(mutual_information(masses.unsqueeze(0))) == pytest.approx(0, abs=1e-6)


def test_the_diagonal_of_two_by_two():
    # P = 1/2 on the diagonal, the product is 1/4 everywhere: four cells off by 1/4; one bit of information.
    masses = torch.tensor([[[0.5, 0.0], [0.0, 0.5]]])
    assert float(delta_p(masses)) == 0.25
    assert float(mutual_information(masses)) == pytest.approx(math.log(2))


def test_the_joint_is_a_distribution_of_the_table():
    z = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    masses = joint(z, Table(2, A), A)
    assert masses.shape == (4, 2, 3)
    torch.testing.assert_close(masses, z.double().softmax(1).reshape(4, 2, 3))


def test_rows_plus_columns_are_independent():
    z = (torch.randn(4, 5, 1) + torch.randn(4, 1, 3)).flatten(1)
    assert float(delta_p(joint(z, Table(5, A), A)).max()) < 1e-10


def test_columns_of_every_layout():
    assert columns(Table(2, A), A).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert columns(Concatenated(2, (A, B)), B).tolist() == [[3, 8], [4, 9]]
    assert columns(Joint(1, (A, B)), A).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert columns(Joint(1, (A, B)), B).tolist() == [[0, 2, 4], [1, 3, 5]]


def test_an_additive_table_measures_none(perfect):
    context, _ = perfect
    scalars = Dependence().measure(context).scalars
    assert scalars["delta_p_images"] < 1e-8
    assert scalars["delta_p_iid_features"] > 1e-4
    assert set(scalars) == {
        f"{what}_{where}" for what in ("delta_p", "information") for where in ("images", "iid_pixels", "iid_features")
    }


def test_it_needs_a_table(pixels):
    with pytest.raises(Inapplicable, match="columns"):
        Dependence().measure(pixels)
