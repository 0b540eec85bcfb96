"""Laws without a control: each finds the mistake in a program that nobody struck, and leaves its sound twin alone.

The programs of `pairs/` are trainings as people write them, broken and sound by the cure alone. `make test` tries the
first pair of each cause, of each framework; `make soak` has the further ways to make the same mistake.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.lasting import soak
from support.plans import plan_of

from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.verdict import Outcome, Verdict

PAIRS = Path(__file__).parent / "pairs"
#: The cause that is found first in the broken program of each pair, and words of the sentence.
CAUSES = {
    "plateau": ("settings differ", "the learning rate is 0.5 on rank 0 and 0.25 on rank 1 from step 7"),
    "warmup_by_rank": ("settings differ", "from step 3"),
    "schedule_of_one_rank": ("settings differ", "the learning rate is 0.02 on rank 0 and 0.2 on rank 1 from step 3"),
    "keras_plateau": ("settings differ", "the learning rate is 0.05 on rank 0 and 0.1 on rank 1 from step 2"),
    "keras_rate_of_the_chief": ("settings differ", "the learning rate is 0.05 on rank 0 and 0.1 on rank 1 from step 2"),
    "keras_rate_by_worker": ("settings differ", "the learning rate is 0.05 on rank 0 and 0.1 on rank 1 from step 2"),
    "keras_seeded_by_worker": ("replicas differ from the start", "before the first step, in weights first"),
    "keras_critic_not_averaged": ("replicas differ", "at step 2, in critic/dense"),
    "keras_updated_by_hand": ("unreduced assignment", "keras_updated_by_hand.py:23 assigns to it replica by replica"),
    "decay_by_rank": ("settings differ", "the weight decay of group 2 is 0 on rank 0 and 0.01 on rank 1 from step 1"),
    "starts_apart": ("replicas differ from the start", "before the first step, in 0.weight first"),
    "one_rank_restores": ("replicas differ from the start", ": rank 0 alone loaded a state (one_rank_restores.py:"),
    "head_of_its_own": ("replicas differ from the start", "before the first step, in 2.weight first"),
    "all_but_the_biases": ("gradients differ", "at step 1, in 0.bias first: its gradient differed"),
    "scaled_by_own_count": ("gradients differ", "at step 1, in 0.weight first"),
    "clipped_by_own_shards": ("norm miscounted", "each scales its own to 0.1, by a norm without the shards of others"),
    "adapts_to_own_tasks": ("gradients differ", "first: its gradient differed on ranks 0 and 1"),
    "layer_of_the_first_pass": ("parameter replaced", "in second.weight first"),
    "clips_what_is_scaled": ("clipped while scaled", "clipped gradients to 0.1 at step 1 (clips_what_is_scaled.py:"),
    "clips_by_each_optimizer": ("clipped while scaled", "multiplied by 4096: its unscale_() comes first"),
    "clips_after_accumulating": ("clipped while scaled", "clipped gradients to 1 at step 1"),
    "reduces_a_clone": ("reduction dropped", "in 0.weight first: all_reduce (reduces_a_clone.py:12) reduced a copy"),
    "contiguous_is_a_copy": ("reduction dropped", "all_reduce (contiguous_is_a_copy.py:24) reduced a copy"),
    "functional_for_in_place": ("reduction dropped", "(functional_for_in_place.py:12) reduced a copy of its gradient"),
    "skips_alone": ("step skipped", "the scaler of rank 1 skipped step 3 for gradients that overflowed"),
    "sums_in_half": ("sum overflowed", "made an infinity of finite numbers of float16 at step 1: the largest number"),
    "gathered_into_one": ("outputs overlap", "(gathered_into_one.py:"),
    "exchanged_into_one": ("outputs overlap", "(exchanged_into_one.py:"),
    "root_gathers_into_one": ("outputs overlap", "on rank 0 at step 1"),
    "order_of_a_dict": ("order mismatch", "rank 0 has name 0.weight (common.py:"),
    "largest_first": ("order mismatch", "out of order at step 1: rank 0 has name"),
    "layers_from_behind": ("order mismatch", "rank 0 has number 2 (layers_from_behind.py:"),
    "prefix_not_strict": ("nothing loaded", "(module.0.weight) is one of the module's (0.weight)"),
    "state_within_a_state": ("nothing loaded", "(model) is one of the module's (0.weight)"),
    "names_of_a_compiled_one": ("nothing loaded", "(_orig_mod.0.weight) is one"),
    "best_by_reference": ("state not copied", "best_by_reference.py:"),
    "undone_by_reference": ("state not copied", "undone_by_reference.py:"),
    "kept_for_the_end": ("state not copied", "kept_for_the_end.py:"),
    "first_batch_again": ("first batch again", "at 6 steps in a row, the first at step 1"),
    "broken_off_epochs": ("first batch again", "new iterator of 4 batches"),
    "stream_begun_again": ("first batch again", "at 4 steps in a row"),
    "stream_of_each_worker": ("once per worker", "on each sample 2 times in an epoch, again from step 2 on"),
    "lines_of_each_worker": ("once per worker", "on each sample 3 times in an epoch"),
    "shards_of_each_worker": ("once per worker", "each of the 2 workers of the loader hands out the whole stream"),
    "never_zeroed": ("gradients not zeroed", "of optimizer 1 on ranks 0 and 1 in its first 4 steps"),
    "zeroes_the_first_of_two": ("gradients not zeroed", "of optimizer 2 on ranks 0 and 1"),
    "zeroes_a_copy": ("gradients not zeroed", "of optimizer 1"),
    "accumulates_too_long": ("gradients not zeroed", "of optimizer 1"),
    "left_in_eval_mode": ("eval mode", "ranks 0 and 1 trained in eval mode from step 3 on"),
    "one_rank_validates": ("eval mode", "rank 0 trained in eval mode from step 3 on"),
    "samples_in_eval_mode": ("eval mode", "from step 4 on"),
    "no_set_epoch": ("one order", "again at step 3: nothing told the sampler"),
    "epoch_of_the_resume": ("one order", "again at step 3"),
    "epoch_of_another_sampler": ("one order", "again at step 3"),
    "seeds_each_shuffle_alike": ("shuffled once", "in one order epoch after epoch, again at step 5"),
    "keras_cached_behind_the_shuffle": ("shuffled once", "in one order epoch after epoch, again at step 5"),
    "adds_up_a_padded_validation": ("counted twice", "ranks 0 and 1 counted 1 of 17 samples twice"),
    "no_sampler": ("one batch on all", "ranks 0 and 1 trained on one batch in each of 8 steps"),
    "shuffled_alike": ("one batch on all", "in each of 8 steps"),
    "sampler_of_rank_0": ("one batch on all", "in each of 4 steps"),
    "each_shuffles_all": ("overlapping shards", "ranks 0 and 1 drew"),
    "shards_one_too_long": (
        "overlapping shards",
        "ranks 0 and 1 drew 1 of 63 samples on several ranks within one epoch",
    ),
    "more_than_its_share": ("overlapping shards", "drew 16 of 64 samples on several ranks"),
    "sampler_for_more_ranks": ("samples never drawn", "32 of 64 samples were drawn by no rank in 1 whole epochs"),
    "length_in_batches": ("samples never drawn", "48 of 64 samples"),
    "batches_of_the_first_half": ("samples never drawn", "32 of 64 samples"),
    "split_by_each_rank": ("validated on training", "ranks 0 and 1 validated on"),
    "tail_in_both": ("validated on training", "ranks 0 and 1 validated on 6 samples, of 22, on which"),
    "folds_one_off": ("validated on training", "on 16 samples, of 20"),
    "one_seed_for_workers": ("alike in workers", "of the 2 workers of a loader of ranks 0 and 1"),
    "generator_of_the_dataset": ("alike in workers", "random numbers from dataset.generator"),
    "seed_without_the_worker": ("alike in workers", "random numbers from random"),
    "file_open_before_the_fork": ("shared file position", "read samples.0 from one position"),
    "descriptor_of_the_parent": ("shared file position", "read samples.0 from one position"),
    "index_looked_up_early": ("shared file position", "read samples.0.zip from one position"),
    "batch_by_rank": ("unequal batches", "means over 32 on rank 0 and 64 on rank 1"),
    "shards_of_two_sizes": ("unequal batches", "means over 40 on rank 0 and 24 on rank 1"),
    "drops_half_of_a_batch": ("unequal batches", "means over 64 on rank 0 and 32 on rank 1"),
    "divides_by_own_accumulation": ("loss scale differs", "1 on rank 0 and 0.5 on rank 1"),
    "divides_by_own_samples": ("loss scale differs", "0.0104167 on rank 0 and 0.0078125 on rank 1"),
    "weight_of_one_domain": ("loss scale differs", "1 on rank 0 and 0.25 on rank 1"),
    "shard_without_a_mark": ("norm miscounted", "leaves out the shards of 0.down.weight and 1 more of rank 1"),
    "replicas_in_the_norm": ("norm miscounted", "0.norm.weight and 5 more, a replica, once for each rank"),
    "experts_outside_of_the_norm": ("norm miscounted", "the shards of expert.weight and 1 more of rank 1"),
    "smooths_by_own_words": ("losses differ", "of ranks 0 and 1 differ from step 1 on"),
    "normalises_by_own_words": ("losses differ", "although these ranks hold shards of one model"),
    "penalises_own_words": ("losses differ", "on rank 0 and "),
    "sums_gathered_words": ("replicas added up", "what ranks 0 and 1 have alike, 16 numbers"),
    "reduced_twice": ("replicas added up", "what ranks 0 and 1 have alike, 128 numbers"),
    "adds_up_whole_squares": ("replicas added up", "what ranks 0 and 1 have alike, 16 numbers"),
    "gathers_features": ("graph cut", "ranks 0 and 1 end at all_gather (gathers_features.py:16) at step 1"),
    "dispatches_tokens": ("graph cut", "(dispatches_tokens.py:13)"),
    "gathers_a_sequence": ("graph cut", "(gathers_a_sequence.py:13)"),
    "statistics_of_its_own": ("buffers differ", "from step 2 on, in 1.running_mean first"),
    "averages_all_but_buffers": ("buffers differ", "from step 2 on, in 1.running_mean first"),
    "running_mean_of_own_inputs": ("buffers differ", "from step 2 on, in mean first"),
    "keras_statistics_of_its_own": ("buffers differ", "from step 1 on, in mean first"),
    "average_by_rank": ("averages differ", "after update 2 at step"),
    "average_begins_late": ("averages differ", "of ranks 0 and 1"),
    "saves_in_a_thread": ("changed while saved", "ranks 0 and 1 saved (memory)"),
    "saves_a_shallow_copy": ("changed while saved", "4 of 4 tensors changed"),
    "saves_moments_that_move": ("changed while saved", "12 of 16 tensors changed"),
    "teacher_written_over": ("mapped file overwritten", "best.0.pt was written over while ranks 0 and 1 had it mapped"),
    "samples_written_anew": ("mapped file overwritten", "samples.0.npy was written over while ranks 0 and 1"),
    "last_written_by_another_rank": ("mapped file overwritten", "last.pt was written over while ranks 0 and 1"),
    "sums_where_it_averages": ("gradients scaled", "from step 1 on: 2 on ranks 0 and 1"),
    "averages_twice": ("gradients scaled", "from step 1 on: 0.5 on ranks 0 and 1"),
    "unscales_by_too_little": ("gradients scaled", "from step 1 on: 0.5 on ranks 0 and 1"),
    "scales_by_own_width": ("reference mismatch", "at step 1, in 0.weight first"),
    "clips_before_it_averages": ("reference mismatch", "part from those of one rank on the same batches at step 2"),
    "divides_by_own_count": ("reference mismatch", "at step 2, in layer.weight first"),
    "detached_for_the_log": ("never trained", "first.weight of ranks 0 and 1 never had a gradient"),
    "rounds_in_the_middle": ("never trained", "first.weight of ranks 0 and 1 never had a gradient"),
    "data_of_a_gate": ("never trained", "gate.weight of ranks 0 and 1 never had a gradient"),
    "drops_in_a_validation": ("dropout in eval mode", "(drops_in_a_validation.py:13)"),
    "drops_by_a_constant": ("dropout in eval mode", "(drops_by_a_constant.py:13)"),
    "drops_attention": ("dropout in eval mode", "(drops_attention.py:13)"),
    "converted_after_wrapping": ("parameter replaced", "in 0.weight first: put in later"),
    "zeroes_before_the_step": ("parameters frozen", "did not change at step 2, nor at any later one"),
    "steps_what_it_left_behind": ("wrapper bypassed", "replicas part at step 2"),
    "keras_not_sharded": ("one batch on all", "ranks 0 and 1 trained on one batch in each of"),
    "keras_shuffled_alike": ("overlapping shards", "ranks 0 and 1 drew 32 of 32 samples on several ranks"),
    "keras_validates_on_the_tail": ("validated on training", "validated on 8 samples, of 24"),
    "keras_splits_behind_the_shuffle": ("validated on training", "samples, of "),
    "freezes_the_head_too": ("optimizer of frozen parameters", "of ranks 0 and 1 (2) are frozen, and module.1.weight"),
    "adapters_frozen_with_the_rest": ("optimizer of frozen parameters", "module.0.layer.bias, which has a gradient"),
    "frozen_by_a_pattern": ("optimizer of frozen parameters", "norm.weight, which has a gradient, is in no optimizer"),
    "frozen_after_wrapping": (
        "frozen too late",
        "froze first.weight and 1 more too late, at step 1: the wrapper, which",
    ),
    "freezes_after_an_epoch": ("frozen too late", "at step 4 (freezes_after_an_epoch.py:15): train(), which freezes"),
    "freezes_at_the_end_of_a_round": ("frozen too late", "was not called before, and 2 steps had trained them"),
    "evaluates_a_fresh_spectral_norm": ("spectral norm not fitted", "value of module.0.weight was 9.3 in place of 1"),
    "scores_by_a_fresh_critic": ("spectral norm not fitted", "norm (scores_by_a_fresh_critic.py:28): the largest"),
    "restores_weights_alone": ("spectral norm not fitted", "singular value of 0.weight was"),
    "copied_after_its_optimizer": ("stray optimizer", "module.0.weight, which has a gradient, is in no optimizer"),
    "head_after_its_optimizer": ("stray optimizer", "has 2 parameters that no module in use has, and module.2.weight"),
    "made_again_for_each_fold": ("stray optimizer", "has 4 parameters"),
    "forgets_the_head": ("in no optimizer", "module.2.weight and 1 more of ranks 0 and 1 had a gradient"),
    "head_with_a_wrapper_of_its_own": ("in no optimizer", "module.weight and 1 more of ranks 0 and 1 had a gradient"),
    "waits_too_late": (
        "not waited for",
        "of 0.weight at step 1 while all_reduce (waits_too_late.py:",
    ),
    "checkpoints_on_data": (
        "checkpoint without gradients",
        "that calls its module (checkpoints_on_data.py:",
    ),
    "adapter_of_zeros": ("zeros by zeros", "module.down.weight and 1 more of ranks 0 and 1 are zeros, and so are"),
    "sends_what_it_fills_again": (
        "changed in flight",
        "changed what send 1 (sends_what_it_fills_again.py:",
    ),
    "reduces_for_the_first": (
        "reduced for one rank",
        "(reduces_for_the_first.py:11) gave the sum of its gradient",
    ),
    "groups_by_prefix": ("in no optimizer", "norm.weight and 3 more of ranks 0 and 1 had a gradient"),
}
#: The causes that are found by a run of the same training as one rank.
WITH_A_REFERENCE = ("gradients scaled", "reference mismatch")


def _framework(pair: str) -> str:
    return "tensorflow" if pair.startswith("keras") else "torch"


#: The first pair of each cause, of each framework.
FIRST = {(_framework(pair), cause): pair for pair, (cause, _) in reversed(CAUSES.items())}.values()
PAIRS_TRIED = [pair if pair in FIRST else soak(pair) for pair in CAUSES]


def judged(bench: Bench, program: str, **settings: Any) -> Verdict:
    """Return the verdict on a program that runs undisturbed."""
    compared = ("reference",) if CAUSES[program.partition(":")[0]][0] in WITH_A_REFERENCE else ()
    oracles = (*DEFAULT_ORACLES, "collectives", *compared)
    plan = plan_of(program, steps=0, oracles=oracles, framework=_framework(program))
    return bench.run(Request(replace(plan, **settings), programs=PAIRS)).verdict


@pytest.mark.parametrize("pair", PAIRS_TRIED)
def test_the_mistake_is_found_and_named(bench, pair):
    verdict, (cause, words) = judged(bench, f"{pair}:broken"), CAUSES[pair]
    assert (verdict.outcome, verdict.findings[:1] and verdict.findings[0].cause) == (Outcome.SILENT, cause), verdict
    assert words in verdict.sentence()


@pytest.mark.parametrize("pair", PAIRS_TRIED)
def test_the_sound_twin_is_left_alone(bench, pair):
    verdict = judged(bench, f"{pair}:sound")
    assert (verdict.outcome, verdict.findings, verdict.also) == (Outcome.SURVIVED, (), ()), verdict.sentence()


def test_parameters_that_the_person_sets_apart_are_no_replicas(bench):
    verdict = judged(bench, "head_of_its_own:broken", apart=("2.*",))
    assert (verdict.outcome, verdict.findings, verdict.also) == (Outcome.SURVIVED, (), ()), verdict.sentence()
    verdict = judged(bench, "head_of_its_own:broken", apart=("head.*",))
    assert verdict.findings and "no parameter has a name like 'head.*'" in verdict.notes


def test_each_pair_is_tried():
    beside = {"attention_common", "common", "divided_by_hand", "divided_common", "frozen_by_choice", "keras_common"}
    beside |= {"keras_averages_by_hand", "left_out_by_choice"}
    assert {path.stem for path in PAIRS.glob("*.py")} - beside == CAUSES.keys()
