"""Looks that each step pays for: they see at a glance what is well, and everything else as closely as ever."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from breakrank_agent.hooks.torch.optimizer_inputs import _any
from breakrank_agent.hooks.torch.replicas import _Parameters
from breakrank_agent.hooks.torch.tensor_memory import extent, has_memory
from breakrank_agent.hooks.torch.training import Training


@pytest.mark.parametrize("tensor", [
    torch.zeros(4, 6),
    torch.zeros(4, 6)[1:3],
    torch.zeros(4, 6).t(),
    torch.zeros(4, 6)[:, 1:3],
    torch.zeros(6)[::2],
    torch.zeros(3, 1).expand(3, 4),
    torch.zeros(4)[2:2],
    torch.tensor(1.0),
    torch.zeros(4, dtype=torch.int16)[1:],
], ids=str)  # fmt: skip
def test_a_tensor_reaches_from_its_first_element_to_its_last(tensor: Any) -> None:
    addresses = [tensor[place].data_ptr() for place in _places(tensor)]
    begin = tensor.untyped_storage().data_ptr()
    first, end = extent(tensor)
    assert first == tensor.storage_offset() * tensor.element_size()
    assert end == (max(addresses) - begin + tensor.element_size() if addresses else first)
    assert has_memory(tensor)


def _places(tensor: Any) -> list[tuple[int, ...]]:
    return [tuple(place) for place in torch.ones(tensor.shape).nonzero().tolist()]


def training_of(*parameters: Any) -> Training:
    """Return a training whose one optimizer has the parameters."""
    training = Training(SimpleNamespace(quietly=contextlib.nullcontext))  # type: ignore[arg-type]
    training.optimizers.first = SimpleNamespace(param_groups=[{"params": [one]} for one in parameters])
    return training


class TestFiniteParameters:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_one_that_is_not_finite_is_seen_at_each_look(self, dtype: Any, value: float) -> None:
        parameters = [torch.nn.Parameter(torch.ones(3, 4)), torch.nn.Parameter(torch.ones(5, dtype=dtype))]
        training = training_of(*parameters)
        assert training.is_finite() and training.is_finite()
        parameters[1].data[2] = value
        assert not training.is_finite()
        parameters[1].data[2] = 1
        assert training.is_finite()

    def test_large_ones_are_finite_although_their_sum_is_not(self) -> None:
        assert training_of(torch.nn.Parameter(torch.full((8,), 3e38))).is_finite()

    def test_one_without_its_memory_is_left_out_and_looked_at_once_it_has_it_again(self) -> None:
        parameter, other = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(4))
        training = training_of(parameter, other)
        assert training.is_finite() and training.is_finite()
        parameter.untyped_storage().resize_(0)
        assert training.is_finite()
        parameter.untyped_storage().resize_(16)
        parameter.data.fill_(float("nan"))
        assert not training.is_finite()

    def test_whole_numbers_are_finite(self) -> None:
        assert training_of(torch.zeros(3, dtype=torch.int64)).is_finite()

    def test_without_parameters_nothing_is_wrong(self) -> None:
        assert training_of().is_finite()


@pytest.mark.parametrize(("tensor", "found"), [
    (torch.zeros(100, 3), False),
    (torch.eye(100)[1:], True),
    (torch.zeros(200).index_fill(0, torch.tensor(150), 1.0), True),
    (torch.tensor(0.0), False),
    (torch.tensor(2.0), True),
    (torch.zeros(0, 4), False),
    (torch.zeros(4, 0), False),
    (torch.eye(3).to_sparse().coalesce().values(), True),
], ids=["zeros", "a row without", "far in", "scalar zero", "scalar", "no rows", "no columns", "values"])  # fmt: skip
def test_a_gradient_says_something_if_an_element_is_not_zero(tensor: Any, found: bool) -> None:
    assert _any(tensor) is found


class TestGradientsOfReplicas:
    """A step that is well at a glance is well by the closer look, too; the others are not well at a glance."""

    @pytest.fixture
    def parameters(self) -> list[Any]:
        parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(3)]
        for one in parameters:
            one.grad = torch.ones(2)
        return parameters

    def looked_at(self, parameters: list[Any], wrappers: list[list[Any]], reduces: bool | None) -> tuple[bool, Any]:
        """Return whether a step is well at a glance, and what the closer look finds."""
        made = [_wrapper(one) for one in wrappers]
        watched = [SimpleNamespace(reduces=reduces) for _ in range(2)]
        glance, close = (_Parameters(None, one, None) for one in watched)  # type: ignore[arg-type]
        glance._known = [*map(id, parameters)]
        well = glance._is_well(parameters, made)
        return well, close._unsynced(training_of(*parameters), parameters, made)

    def test_all_is_well_with_one_wrapper_that_reduced(self, parameters: list[Any]) -> None:
        assert self.looked_at(parameters, [parameters], True) == (True, {})

    def test_all_is_well_without_a_wrapper(self, parameters: list[Any]) -> None:
        assert self.looked_at(parameters, [], None) == (True, {})

    @pytest.mark.parametrize(("reduces", "name"), [(False, "unreduced"), (None, "bypassed")])
    def test_a_wrapper_that_was_not_to_reduce_is_looked_at(
        self, parameters: list[Any], reduces: Any, name: str
    ) -> None:
        assert self.looked_at(parameters, [parameters], reduces) == (False, {name: True})

    def test_a_parameter_without_a_gradient_is_looked_at(self, parameters: list[Any]) -> None:
        parameters[1].grad = None
        well, found = self.looked_at(parameters, [], None)
        assert not well and found == {"missing": [1]}

    def test_a_parameter_of_no_wrapper_is_looked_at(self, parameters: list[Any]) -> None:
        well, found = self.looked_at(parameters, [parameters[:2]], True)
        assert not well and found["unwrapped"] == [2]


def _wrapper(parameters: list[Any]) -> Any:
    module = torch.nn.Module()
    for number, one in enumerate(parameters):
        module.register_parameter(f"p{number}", one)
    return SimpleNamespace(
        module=module,
        _module_parameters=parameters,
        parameters_to_ignore=set(),
        find_unused_parameters=False,
        static_graph=False,
    )
