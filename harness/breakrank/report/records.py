"""Records as a scenario file writes them: where the one stands that did not hold, and what would."""

from __future__ import annotations

from breakrank.files.bounded import plain
from breakrank.plan.catalogue import packaged_folder
from breakrank.plan.scenario import Case, Scenario
from breakrank.plan.slips import line_of
from breakrank.runs.result import Result
from breakrank.verdict import Outcome, Record, Verdict
from breakrank_agent.plan import Plan


def brief(result: Result) -> str:
    """Return a failed case as one line for lists: its outcome, what is on record, and its sentence."""
    recorded = f", on record {result.record.words()}" if result.record is not None else ""
    return plain(f"{result.verdict.outcome}{recorded}: {result.verdict.sentence()}")


def on_record(scenario: Scenario, case: Case, plan: Plan, verdict: Verdict) -> str:
    """Say where the record of a case is written that did not hold, and what to write; by a VOID none is judged."""
    keyword, record = _written(case, plan)
    line = line_of(scenario.path, "", case.name)
    # Only in a call that has the name of the case is the line known; a docstring or an import is the first one.
    where = scenario.path.name + (f":{line}" if line > 1 else "")
    says = f"{where} says {keyword.format(code(record))}"
    if verdict.outcome is Outcome.VOID:
        return f"{says}; it came to VOID, by which no record is judged"
    now = keyword.format(code(of_verdict(verdict)))
    ours = scenario.path.parent == packaged_folder()
    came = f"it came to {verdict.outcome}"
    return f"{says}; {came}: look why" if ours else f"{says}; {came}: change it to {now}, or look why"


def _written(case: Case, plan: Plan) -> tuple[str, Record]:
    """Return the record that holds for a plan, and how it is written: of a runner, or from a number of ranks on."""
    reached = [size for size in case.at if size <= plan.ranks]
    if reached:
        return f"at={{{{{max(reached)}: {{}}}}}}", case.at[max(reached)]
    if plan.runner in case.on:
        return f"on={{{{{plan.runner!r}: {{}}}}}}", case.on[plan.runner]
    return "expect={}", case.expect


def of_verdict(verdict: Verdict) -> Record:
    """Return the record that a verdict would be as."""
    first = next(iter(verdict.findings), None)
    if first is None:
        return Record(verdict.outcome)
    return Record(verdict.outcome, first.oracle, None, None, first.cause)


def code(record: Record) -> str:
    """Return a record as code: `DETECTED`, or `silent(oracle='race', cause='lost update')`."""
    facts = {"oracle": record.oracle, "rank": record.rank, "step": record.step, "cause": record.cause}
    given = ", ".join(f"{name}={value!r}" for name, value in facts.items() if value is not None)
    return f"{str(record.outcome).lower()}({given})" if given else str(record.outcome)
