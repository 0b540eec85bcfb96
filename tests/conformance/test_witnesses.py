"""Every witness that is discovered: it says what it sees, a fault names it, and it takes no look alone for proof."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from breakrank.conductor.struck_rank import StruckRank
from breakrank.witnesses import Evidence, all_witnesses
from breakrank_agent.faults import all_faults

WITNESSES = [pytest.param(witness, id=name) for name, witness in all_witnesses().items()]


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """Yield a rank that nothing has struck, on a network that it shares, without peers."""
    folder = str(tmp_path_factory.mktemp("work"))
    with subprocess.Popen(["sleep", "1000"]) as process:
        session = SimpleNamespace()
        yield StruckRank(session, 0, 0, process.pid, folder, 0, (), {}, 0, {}, {}, SimpleNamespace())
        process.kill()


def fault_of(witness):
    """Return a fault that names a witness."""
    return next(kind() for kind in all_faults().values() if kind.witness == witness.name())


@pytest.mark.parametrize("witness", WITNESSES)
def test_it_says_what_it_sees(witness):
    assert type(witness).__doc__ and type(witness).__doc__.splitlines()[0].endswith(".")
    assert witness.name().replace("_", "").isalnum()


@pytest.mark.parametrize("witness", WITNESSES)
def test_a_fault_names_it(witness):
    assert witness.name() in {kind.witness for kind in all_faults().values()}


@pytest.mark.parametrize("witness", WITNESSES)
def test_without_evidence_it_has_seen_nothing(witness):
    assert witness.judge(fault_of(witness), Evidence()) is None
    assert not witness.is_set(fault_of(witness), Evidence())


@pytest.mark.parametrize("witness", WITNESSES)
def test_two_looks_at_a_rank_that_was_not_struck_prove_nothing(witness, untouched):
    fault = fault_of(witness)
    before, after = witness.look(fault, untouched), witness.look(fault, untouched)
    evidence = Evidence(before=before, earlier=before, after=after)
    assert witness.judge(fault, evidence) is None and not witness.is_set(fault, evidence)
