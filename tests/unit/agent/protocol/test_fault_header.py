"""The header of a fault: class keywords that a subclass inherits, and that are checked when the class is defined."""

from __future__ import annotations

import importlib
import sys

import pytest

from breakrank import doctor
from breakrank_agent import faults
from breakrank_agent.protocol import fault as contract
from breakrank_agent.protocol.fault import CAPABILITIES, Fault, check_each
from breakrank_agent.protocol.trigger import PlanError


@pytest.fixture
def checks(monkeypatch):
    """Let a test add its own checks to those of all parts."""
    monkeypatch.setattr(contract, "_CHECKS", list(contract._CHECKS))


def test_the_capabilities_that_a_fault_may_need_are_those_of_the_doctor():
    assert set(CAPABILITIES) == set(doctor._checks())


def test_a_subclass_has_the_header_of_its_base_but_for_its_own_keywords():
    class Base(Fault, abstract=True, side="outside", needs=("netns",)):
        """A base."""

    class Leaf(Base, needs=("netns", "nft"), witness="ended"):
        """A fault."""

    assert (Base.needs, Leaf.needs, Leaf.side) == (("netns",), ("netns", "nft"), "outside")
    assert Base.abstract and not Leaf.abstract and Leaf.name() == "leaf"


def test_a_check_sees_the_faults_that_are_defined_already_and_later_ones_and_no_base(checks):
    seen = []
    check_each(seen.append)
    assert {faults.Kill, faults.CutLink} <= set(seen)

    class Base(Fault, abstract=True):
        """A base."""

    class Later(Base, witness="ended"):
        """A fault."""

    assert seen[-1] is Later and Base not in seen


def test_a_base_needs_no_witness_and_a_fault_does():
    with pytest.raises(PlanError, match=r"^fault Blind: it names no witness; known are "):

        class Blind(Fault):
            """A fault."""


def test_a_mistake_in_a_file_of_the_folder_names_the_file(monkeypatch, tmp_path):
    text = "from breakrank_agent.protocol.fault import Fault\nclass Odd(Fault, witness='endet'): pass\n"
    (tmp_path / "strangers.py").write_text(text)
    monkeypatch.setattr(faults, "__path__", [*faults.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    faults.all_faults.cache_clear()
    with pytest.raises(PlanError, match=r"^strangers\.py: fault Odd: unknown witness 'endet'; did you mean 'ended'\?$"):
        faults.all_faults()
    assert "breakrank_agent.faults.strangers" not in sys.modules
    monkeypatch.undo()
    assert "kill" in faults.all_faults()
