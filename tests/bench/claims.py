"""Common advice about crashes in distributed training, tried in real runs: docs/claims.md.

Each claim names the scenarios that try it. Of these, each case that does not survive runs once (of a cure, each that
does), and its outcome is counted for or against. `make claims`, some minutes; `make claims ARGS='9 street_*'` tries
those claims that have the number 9 or a scenario of such a name, and writes their rows anew. The page's second table,
the scenarios of each framework, is read from the catalogue.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from breakrank.doctor import missing, missing_framework
from breakrank.plan.build import Choices, make_plan
from breakrank.plan.catalogue import load_scenarios
from breakrank.plan.scenario import Case, Scenario
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.verdict import Outcome

PAGE = Path(__file__).parents[2] / "docs" / "claims.md"
FRAMEWORKS = {"torch": "torch", "tensorflow": "TensorFlow"}
CRASHED, HUNG, SILENT, DETECTED, SURVIVED = (
    Outcome.CRASHED, Outcome.HUNG, Outcome.SILENT, Outcome.DETECTED, Outcome.SURVIVED,
)  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """One piece of common advice: the scenarios that try it, and the outcomes that would bear it out."""

    number: str
    words: str
    scenarios: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    cases: str = "*"
    cure: bool = False


CLAIMS = [
    Claim("1", "Another shape or dtype on one rank corrupts memory and ends in a segmentation fault.",
          ("mismatched_shards", "mismatched_collective"), (CRASHED,)),
    Claim("2", "A batch that was not distributed, of an unexpected shape, crashes `strategy.run`.",
          ("undistributed_batch",), (CRASHED, DETECTED)),
    Claim("3", "Assigning a variable inside of a replica races.", ("race_condition",), (SILENT,), "tf-*"),
    Claim("3", "Replicas that assign a variable each by itself part.", ("replicas_apart", "unreduced_updates"),
          (SILENT,)),
    Claim("4", "Two threads that do `tensor[0] += 1` corrupt memory.", ("race_condition",), (CRASHED,),
          "torch-threads"),
    Claim("5", "The wrong synchronisation of collectives races or deadlocks.",
          ("swapped_collectives", "skipped_collective", "missing_barrier"), (HUNG, SILENT)),
    Claim("6", "Aggressive asynchronous updates do harm.", ("stale_gradients",), (SILENT,)),
    Claim("7", "Writing a tensor that another process owns crashes.",
          ("dangling_shared_tensor", "dangling_view", "use_after_resize"), (CRASHED,)),
    Claim("8", "A broadcast by rank 0 alone leaves the others with inconsistent data, or crashes them.",
          ("skipped_collective",), (SILENT, CRASHED), "*broadcast*"),
    Claim("9", "Memory that is used up ends in a segmentation fault.",
          ("oversized_batch", "oversized_model", "oversized_dataset", "leaky_layer"), (CRASHED,)),
    Claim("10", "Swapping and noisy neighbours lead to crashes.",
          ("swapping_rank", "noisy_neighbour", "throttled_rank"), (CRASHED,), "torch-*"),
    Claim("11", "A stack that overflows crashes.", ("stack_overflow",), (CRASHED,)),
    Claim("12", "Latency, lost links and misconfigured transport end in a time-out or a crash.",
          ("delayed_link", "dropped_link", "cut_link", "misconfigured_timeout", "misconfigured_grpc",
           "backend_mismatch"), (DETECTED, CRASHED, HUNG)),
    Claim("13", "One failed communication sets off a cascade.", ("cascading_failure",), (DETECTED, HUNG, SILENT)),
    Claim("14", "Flaky hardware gives faults that come and go.", ("flapping_link", "lossy_link", "canary"),
          (DETECTED, HUNG, SILENT)),
    Claim("16", "Without normalisation, values overflow.", ("unnormalised_input",), (SILENT,)),
    Claim("17", "A custom operator that writes beyond its buffer crashes.", ("overrunning_custom_op",), (CRASHED,)),
    Claim("18", "A large tensor that a custom layer allocates as a plain attribute leaks.", ("leaky_layer",), (SILENT,),
          "*big-attribute"),
    Claim("19", "A custom layer that keeps what it computes leaks.", ("leaky_layer",), (SILENT,), "*activations"),
    Claim("20", "Without explicit devices, variables end up on one device.",
          ("single_device_placement", "mirrored_without_run", "idle_device"), (SILENT,)),
    Claim("21", "A misspelt device, or another order of them, is undefined behaviour.",
          ("wrong_device", "reordered_device"), (SILENT, CRASHED)),
    Claim("22", "Weights that share their memory do harm.", ("aliased_weights",), (SILENT,)),
    Claim("23", "The same data on every device trains on the same samples.", ("duplicate_shards",), (SILENT,)),
    Claim("24", "Shuffling before `shard` is the cure.", ("shuffled_before_shard",), (SURVIVED,)),
    Claim("25", "Unequal batches and preprocessing that differs are silent.",
          ("uneven_batches", "skewed_preprocessing"), (SILENT,)),
    Claim("26", "A replica that sends no gradient hangs the reduction or gives wrong updates.",
          ("missing_gradient", "dropped_replica"), (HUNG, SILENT)),
    Claim("27", "Versions that do not fit together hang the job.", ("version_skew",), (HUNG,)),
    Claim("28", "A device that fails without a word hangs everyone.", ("stopped_rank", "frozen_rank"), (HUNG,)),
    Claim("9", "A batch of street scenes that is too large for one rank ends in a segmentation fault.",
          ("street_oversized_batch",), (CRASHED,)),
    Claim("street", "A batch of one before batch normalisation ends in a segmentation fault.",
          ("street_batch_of_one",), (CRASHED,)),
    Claim("street", "Labels that are no class, as ids in place of train ids, end in a segmentation fault.",
          ("street_label_ids",), (CRASHED,)),
    Claim("street", "Masks that are resized like images end in a segmentation fault.",
          ("street_resized_masks",), (CRASHED,)),
    Claim("street", "A crop beyond the image reads other memory, and ends in a segmentation fault.",
          ("street_crop_beyond",), (CRASHED,)),
    Claim("16", "Without normalisation, street scenes overflow, and end in a segmentation fault.",
          ("street_unnormalised",), (CRASHED,)),
    Claim("19", "A custom head that keeps what it computes ends in a segmentation fault.",
          ("street_leaky_head",), (CRASHED,)),
    Claim("15", "Sizes that grow from step to step run out of memory that the largest size alone leaves.",
          ("street_growing_sizes",), (DETECTED, CRASHED), "*growing*"),
    Claim("street", "An image that is cut short ends in a segmentation fault.",
          ("street_truncated_image",), (CRASHED,)),
    Claim("street", "A class that one rank's scenes lack ends in a segmentation fault.",
          ("street_absent_class",), (CRASHED,)),
    Claim("cure", "Take a batch that does not fit in pieces (under batch normalisation).", ("street_oversized_batch",),
          (SURVIVED,), "*halves", cure=True),
    Claim("cure", "Compute activations again in the backward pass.", ("street_oversized_batch",), (SURVIVED,),
          "*recomputing", cure=True),
    Claim("cure", "Check shapes and dtypes before anything is sent.", ("mismatched_shards",),
          (SURVIVED, DETECTED), cure=True),
    Claim("cure", "Have the strategy reduce what replicas assign.", ("replicas_apart", "unreduced_updates"),
          (SURVIVED,), cure=True),
    Claim("cure", "Shuffle and shard by one seed on all workers.", ("shuffled_before_shard",), (SURVIVED,), "*alike",
          cure=True),
    Claim("cure", "Normalise what goes in.", ("unnormalised_input",), (SURVIVED,), cure=True),
    Claim("cure", "Go on from a checkpoint when a peer is lost.", ("killed_rank", "dropped_link"), (SURVIVED,),
          "*resum*", cure=True),
    Claim("cure", "Go on with fewer workers when one is lost.", ("fewer_workers",), (SURVIVED,), cure=True),
    Claim("cure", "Retry, each time later, when a peer cannot be reached.", ("dropped_link", "cut_link"), (SURVIVED,),
          "*retr*", cure=True),
    Claim("cure", "Watch memory, and shrink the batch in time.", ("oversized_batch",), (SURVIVED,), cure=True),
    Claim("cure", "Locks around what threads share.", ("race_condition",), (SURVIVED,), "*locked", cure=True),
    Claim("cure", "Free what a layer keeps.", ("leaky_layer",), (SURVIVED,), "*cleared", cure=True),
]  # fmt: skip


def tried(claim: Claim, catalogue: Sequence[Scenario]) -> list[tuple[Scenario, Case]]:
    """Return the cases that try a claim."""
    return [
        (scenario, case)
        for scenario in catalogue
        if scenario.name in claim.scenarios
        for case in scenario.cases
        if fnmatch(case.name, claim.cases) and (claim.cases != "*" or (case.expect.outcome is SURVIVED) == claim.cure)
    ]


def measure(bench: Bench, scenario: Scenario, case: Case) -> Outcome | None:
    """Return the outcome of a case, or None if this machine cannot run it."""
    plan = make_plan(scenario, case, Choices())
    needs = [*case.needs, *(need for strike in plan.strikes for need in strike.fault.needs)]
    if missing_framework(case.framework) or missing(needs):
        return None
    return bench.run(Request(plan)).verdict.outcome


def cell(claim: Claim, found: Sequence[tuple[str, Outcome]]) -> str:
    """Return the results of one framework's cases: how many bear the claim out, and each outcome with its cases."""
    if not found:
        return "–"
    fit = sum(outcome in claim.outcomes for _, outcome in found)
    by_outcome: dict[str, list[str]] = {}
    for name, outcome in found:
        by_outcome.setdefault(outcome.value, []).append(name)
    each = "; ".join(f"{outcome}: {', '.join(names)}" for outcome, names in sorted(by_outcome.items()))
    return f"**{fit} of {len(found)}** as claimed. {each}"


def line(cells: Sequence[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def claimed(bench: Bench, claims: Sequence[Claim], catalogue: Sequence[Scenario]) -> list[str]:
    """Run the cases that try the claims; return the table."""
    known: dict[tuple[str, str], Outcome | None] = {}
    lines = [line(["#", "claimed", *FRAMEWORKS.values()]), line(["---"] * 4)]
    for claim in claims:
        cells = []
        for framework in FRAMEWORKS:
            found = []
            for scenario, case in tried(claim, catalogue):
                if case.framework != framework:
                    continue
                key = scenario.name, case.name
                if key not in known:
                    known[key] = measure(bench, scenario, case)
                outcome = known[key]
                if outcome is not None:
                    found.append((f"`{scenario.name}::{case.name}`", outcome))
            cells.append(cell(claim, found))
        if cells != ["–", "–"]:
            lines.append(line([claim.number, claim.words, *cells]))
            print(lines[-1], flush=True)
    return lines


def parity(catalogue: Sequence[Scenario]) -> list[str]:
    """Return the table with the number of each framework's cases of each scenario, or the reason for none."""
    lines = [line(["scenario", *FRAMEWORKS.values()]), line(["---"] * 3)]
    for scenario in sorted(catalogue, key=lambda s: s.name):
        cells = []
        for framework in FRAMEWORKS:
            count = sum(case.framework == framework for case in scenario.cases)
            cells.append(str(count) if count else scenario.without.get(framework, "not yet"))
        lines.append(line([scenario.name, *cells]))
    return lines


def software() -> str:
    """Say with which versions it was measured."""
    found = []
    for framework in FRAMEWORKS:
        for name in (framework, f"{framework}-cpu"):
            try:
                found.append(f"{framework} {version(name)}")
            except PackageNotFoundError:
                continue
    return f"{', '.join(found)}, Python {platform.python_version()}, {os.cpu_count()} cores"


def is_wanted(claim: Claim, wanted: Sequence[str]) -> bool:
    """Return whether a claim is named, by its number or one of its scenarios; all are if nothing is."""
    return not wanted or any(fnmatch(name, word) for word in wanted for name in (claim.number, *claim.scenarios))


def renewed(page: str, rows: Sequence[str]) -> str:
    """Return the page with these rows in the place of those on the same claims. Raises `SystemExit` for a new claim."""
    lines = page.split("\n")
    places = {words_of(row): place for place, row in enumerate(lines) if row.startswith("| ")}
    for row in rows:
        if words_of(row) not in places:
            sys.exit(f"the page has no row on '{words_of(row)}'; try all claims: make claims")
        lines[places[words_of(row)]] = row
    return "\n".join(lines)


def words_of(row: str) -> str:
    """Return the words of the claim that a row of the table is on."""
    return row.split(" | ")[1]


def main(wanted: Sequence[str]) -> None:
    """Try the claims that are wanted, by default all, and write what came of them into the page."""
    catalogue = list(load_scenarios(()).values())
    claims = [claim for claim in CLAIMS if is_wanted(claim, wanted)]
    measured, page = f"Measured with {software()}.", PAGE.read_text()
    if wanted and (not claims or measured not in page):
        sys.exit(
            "no claim has such a number or scenario" if not claims else "the page is of other versions: make claims"
        )
    runs = Path(tempfile.mkdtemp(prefix="claims-"))
    try:
        with Bench(runs) as bench:
            lines = claimed(bench, claims, catalogue)
    finally:
        shutil.rmtree(runs, ignore_errors=True)
    if wanted:
        PAGE.write_text(renewed(page, lines[2:]))
        return
    head, _, _ = page.partition("<!-- claims -->")
    parts = [f"{head}<!-- claims -->", "", measured, "", *lines, ""]
    parts += ["## Which framework has which scenario", "", *parity(catalogue), ""]
    PAGE.write_text("\n".join(parts))


if __name__ == "__main__":
    main(sys.argv[1:])
