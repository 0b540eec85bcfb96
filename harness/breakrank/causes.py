"""Causes: all that a finding can object to, each with its sentence, below the property of a training it belongs to."""

from __future__ import annotations

from collections.abc import Mapping

# In a sentence `{who}` is one or several ranks, `{step}` a step, and the other names come from the finding's evidence.

_ENDS = {
    "training incomplete": "{who} ended with exit code 0 after {done} of {expected} steps",
    "killed by a signal": "{who} died of {signal} {when} {where}{meanwhile}",
    "out of memory": "the kernel killed {who} at step {step}: its control group had no memory left",
    "endless training": "{who} did not end by itself: a job of {expected} steps had come to step {step}",
    "no progress": "{who} reached no new point for {seconds} s, last seen in {where} at step {step}{absent}",
    "peer stopped": "{who} {waits} in {where} at step {step} for rank {peer}, which stands still{would}",
    "peer ended": "{who} {waits} in {where} at step {step} for rank {peer}, which has ended{would}",
    "deadlock": "{who} {waits} in {where} at step {step} for each other, and for nobody else{would}",
    "participant missing": "{wait}, which {whom} will never enter{elsewhere}{would}",
    "crossed process groups": "{wait}, which {whom} will enter only after a collective of "
    "another group{elsewhere}{would}",
    "unmatched receive": "{wait}, which {whom} never sends{elsewhere}{would}",
    "unmatched send": "{wait}, which {whom} never receives{elsewhere}{would}",
    "message cycle": "{circle}{elsewhere}{would}",
    "group mismatch": "{shown}: every rank has to make every group, in one order; {wait}{elsewhere}{would}",
    "blocked in a lock": "{wait}, which {whom} will never enter, waiting for a lock "
    "or queue of its own process{elsewhere}{would}",
    "GIL deadlock": "at step {step} {whom} holds Python's global lock (GIL), and joins a thread that "
    "waits for it{elsewhere}",
    "lock cycle": "{who} cannot go on at step {step}: {cycle}",
    "rank missing": "{wait}, to which {whom} will never come{elsewhere}{would}",
    "duplicate rank": "{wait}, to which {whom} came under the number of another rank{elsewhere}{would}",
    "world size mismatch": "{wait}, but {whom} came with another world size{elsewhere}{would}",
    "master mismatch": "{wait}, but {whom} came to another master{elsewhere}{would}",
    "backend mismatch": "{wait}, but {whom} came with another backend{elsewhere}{would}",
    "interface mismatch": "{wait}, but {whom} came on another interface{elsewhere}{would}",
    "cluster mismatch": "{wait}, but {whom} came with another list of workers{elsewhere}{would}",
    "proxy in path": "{wait}, but {whom} asks a proxy for the way to its peers{elsewhere}{would}",
    "connection held by orphan": "{who} {waits} in {where} at step {step} for rank {peer}, which has ended and left a "
    "process behind that holds its connections open{would}",
    "unreachable": "{wait}, and {shown}{elsewhere}{would}",
}

_REPLICAS = {
    "replicas differ": "the parameters of {who} part from {others} {at}{first}",
    "local replicas differ": "the replicas of {who} part {at}{first}",
    "wrapper bypassed": "replicas part {at}{first}: {who} went past the wrapper that reduces gradients",
    "gradients not reduced": "replicas part {at}{first}: the last backward of {who} reduced nothing",
    "parameter replaced": "replicas part {at}{first}: put in later, the wrapper of {who} does not know it",
    "module not wrapped": "replicas part at step {step}{first}: {who} had it in no wrapper that reduces gradients",
    "settings differ": "{settings}, and so replicas part {at}{first}",
    "step skipped": "replicas part {at}{first}: the scaler of {who} skipped step {skipped} for gradients that "
    "overflowed{called}, and that of {others_too} did not",
    "replicas differ from the start": "the parameters of {who} differ from {others} before the first "
    "step{first}{alone}",
    "gradients differ": "replicas part {at}{first}: its gradient differed on {who} when the optimizer took it",
    "reduction dropped": "replicas part {at}{first}: {op} ({site}) reduced a copy of its gradient, and the optimizers "
    "of {who} took the gradient as it was",
    "gradient in flight": "replicas part {at}{first}: {op} ({site}) was at work on its gradient when the optimizers of "
    "{who} took it, and nobody had waited for it",
    "reduced for one rank": "replicas part {at}{first}: {op} ({site}) gave the sum of its gradient to {root} alone",
    "reduced over another group": "replicas part {at}{first}: {op} ({site}) reduced its gradient over {over}, and "
    "{who} hold it",
    "unused parameter": "replicas part {at}{first}: {who} had no gradient for it, and others had",
    "reduction incomplete": "replicas part {at}{first}: for lack of {lacking}, {who} did not reduce it",
    "buffers differ": "the buffers of {who} differ in each step from step {step} on, in {first} first: "
    "nothing brings them into line",
    "averages differ": "the averaged models of {who} differ after update {number} at step {step}, although the models "
    "do not",
    "unreduced assignment": "replicas part {at}{first}: {site} assigns to it {how}, with nothing to reduce",
    "variable not mirrored": "{who} trained {names} at step {step}, beside the {kind}: nothing holds replicas alike",
    "strategy bypassed": "{who} made step {step} past the {kind}: of {replicas} replicas one computed",
    "device missing": "{who} asked for {device}, which is not there, and trained on {on} at step {step}",
    "single device": "all that {who} trained at step {step} lay on {device}, and nothing of it on {idle}",
}

_SAMPLES = {
    "once per worker": "{who} trained on each sample {workers} times in an epoch, again from step {step} on: each of "
    "the {workers} workers of the loader hands out the whole stream",
    "one order": "{who} drew the same batches in one order epoch after epoch, again at step {step}: nothing told the "
    "sampler, which shuffles, that the epoch is another (set_epoch)",
    "shuffled once": "{who} drew the same batches in one order epoch after epoch, again at step {step}: what "
    "shuffles draws the order of the first one anew",
    "one batch on all": "{who} trained on one batch in each of {steps} steps, the first at step {step}: the ranks "
    "share nothing out",
    "first batch again": "{who} trained on one batch at {steps} steps in a row, the first at step {step}: each began a "
    "new iterator of {batches} batches",
    "alike in workers": "several of the {workers} workers of a loader of {who} draw the same random numbers from "
    "{generator}, first seen at step {step}",
    "alike on ranks": "the loaders of {who} draw the same random numbers from {generator} in their workers, and those "
    "of the control do not, first seen at step {step}: the seed of a worker leaves the rank out",
    "shared file position": "workers of a loader of {who} read {path} from one position: it was open before they were "
    "forked, first seen at step {step}",
    "overlapping shards": "{who} drew {count} of {drawn} samples on several ranks within one epoch, the first at step "
    "{step}",
    "samples never drawn": "{count} of {total} samples were drawn by no rank in {epochs} whole epochs",
    "validated on training": "{who} validated on {count} samples, of {of}, on which {whose} had trained, the first at "
    "step {step}",
    "counted twice": "{who} counted {count} of {of} samples twice in a validation, the first at step {step}: the "
    "sampler draws some again, so that all ranks have as many, and the sums of the ranks are added up",
    "validated otherwise": "{who} validated on other samples than the control, first at step {step}: {said}",
    "samples lost": "{count} of {expected} samples did not reach the final state, the first at step {step}",
    "samples duplicated": "{count} samples were trained on more often than in the control, the first at step {step}",
    "samples changed": "{count} of the samples of {who} are none of the control's, the first at step {step}",
    "share of the old world": "{who} went on with the same share of each batch from step {step} on, although the ranks "
    "are {now} now in place of {before}: nobody took the {count} samples of those that are gone",
    "duplicate shard": "{who} trained on the same samples, from step {step} on: "
    "{count} of {expected} took others' places",
    "batch mismatch": "the result differs from the control's at step {step}, where {who} alone had another batch{how}",
    "batch not split": "{who} handed one batch to all {replicas} replicas of the {kind} at step {step}",
    "idle replica": "{idle} had an empty batch at step {step}, and the others {samples} samples",
}

_COLLECTIVES = {
    "collective mismatch": "collective {number} of a group is not the same on all ranks at step {step}: {held}",
    "root mismatch": "{op} {number} has no one root at step {step}: {held}",
    "reduce op mismatch": "{op} {number} reduces in several ways at step {step}: {held}",
    "dtype mismatch": "{op} {number} is of several dtypes at step {step}: {held}",
    "shape mismatch": "{op} {number} is of several sizes at step {step}: {held}",
    "layout mismatch": "{op} {number} takes the elements in several orders at step {step}: {held}",
    "order mismatch": "collective {number} of a group is out of order at step {step}: {held}",
    "new_group mismatch": "{shown}: every rank has to make every group, in one order; only the timing let this run end",
    "calls misaligned": "collective {number} of a group came out of turn at step {step}: {held}",
    "collective skipped": "{who} left out {op} ({site}) at step {step}, which is collective {number} of {others}",
    "collective added": "{who} called {op} ({site}) as collective {number} at step {step}, which {others} did not",
    "wrong collective result": "{op} {number} ({site}) is wrong on {who} at step {step}: {how}",
    "sum overflowed": "{op} {number} ({site}) made an infinity of finite numbers of {dtype} at step {step}: {how}",
    "outputs overlap": "{op} {number} ({site}) writes to one tensor what it gets from several ranks, on {who} at step "
    "{step}",
    "changed in flight": "{who} changed what {op} {number} ({site}) reads at step {step}, before the wait for it was "
    "over",
    "buffer overrun": "{op} {number} ({site}) changed what it must not on {who} at step {step}",
}

_GRADIENTS = {
    "gradients not zeroed": "nothing zeroed the gradients of optimizer {optimizer} on {who} in its first {steps} "
    "steps: each takes those of all steps before",
    "eval mode": "{who} trained in eval mode from step {step} on, without dropout and on the running statistics of "
    "batch norm{others}",
    "never trained": "{name} of {who} never had a gradient, from step {step} on: its module is called and an optimizer "
    "has it, and what it returns reaches no loss",
    "checkpoint without gradients": "{name}{more} of {who} never had a gradient, from step {step} on: the checkpoint "
    "with use_reentrant that calls its module{at} is handed nothing that needs a gradient",
    "zeros by zeros": "{name}{more} of {who} are zeros, and so are their gradients, from step {step} on: each is "
    "multiplied by another of them, and nothing will move them",
    "not waited for": "the optimizers of {who} took the gradient of {name} at step {step} while {op} ({site}) was at "
    "work on it: nobody had waited for it",
    "in no optimizer": "{name}{more} of {who} had a gradient in the first steps, and no optimizer has {them}: nothing "
    "trains {them}",
    "frozen too late": "{who} froze {name}{more} too late, at step {step}{at}: {why}",
    "optimizer of frozen parameters": "all parameters of optimizer {optimizer} of {who} ({parameters}) are frozen, and "
    "{unowned}, which has a gradient, is in no optimizer",
    "clipped while scaled": "{who} clipped gradients to {limit} at step {step}{at} while the scaler of the loss had "
    "them multiplied by {scale}: its unscale_() comes first",
    "spectral norm not fitted": "{who} evaluated a weight before any pass in train mode had fitted its spectral "
    "norm{at}: the largest singular value of {name} was {ratio} in place of 1",
    "dropout in eval mode": "{who} dropped elements at random in a validation at step {step}{at}: a function does not "
    "know that the model is in eval mode",
    "graph cut": "gradients of {who} end at {op} ({site}) at step {step}: what it reads needs them, and what it "
    "returns, which goes into the loss, has none",
    "unequal batches": "a sample weighs otherwise on each rank from step {step} on: the wrapper averages their losses, "
    "which are means over {said}",
    "loss scale differs": "the losses of {who} are scaled unlike from step {step} on, and the wrapper averages them: "
    "{said}",
    "loss scaled otherwise": "the result of {who} differs from the control's at step {step}, where losses were "
    "scaled otherwise: {said}",
    "norm miscounted": "{who} clip their gradients by a wrong norm from step {step} on{at}: {said}",
    "losses differ": "the losses of {who} differ from step {step} on, although these ranks hold shards of one model "
    "and were handed one batch: {said}",
    "replicas added up": "{op} ({site}) adds up in the forward pass of step {step} what {who} have alike, {numbers} "
    "numbers: the sum is a multiple of what each rank had",
    "stray optimizer": "optimizer {optimizer} of {who} has {parameters} parameters that no module in use has, and "
    "{unowned}, which has a gradient, is in no optimizer",
    "parameters frozen": "the parameters of {who} did not change at step {step}{later}",
    "gradients scaled": "the gradients of {who} are those of one rank on the same batches times a number, from step "
    "{step} on: {said}",
    "per-rank loss scaling": "{who} weigh samples otherwise than one rank would, from "
    "step {step} on: batches of {sizes}",
    "reference mismatch": "the parameters of {who} part from those of one rank on the same batches {at}{first}",
    "aliased parameters": "{who} trained {names} twice at step {step}: two layers have one memory",
    "replica not aggregated": "the result of {who} differs from the control's at step {step}: no gradient of {whose} "
    "goes into {into} ({site})",
    "stale gradients": "the result of {who} differs from the control's at step {step}: into {into} goes what was kept, "
    "and no gradient of that step ({site})",
}

_NUMBERS = {
    "non-finite value": "{what} in {who} {at}",
    "loss not decreasing": "{who} ended with loss {loss}, and its program asks for less than {goal}",
}

_MEMORY = {
    "leak": "at each step from step {step} on, {who} kept {more}, {made}",
    "native leak": "from step {step} on, {who} kept {bytes_per_step} bytes more of the C heap at each step",
}

_RACES = {
    "data race": "at step {step} {one} and {other}, with nothing between them: {what}",
    "lost update": "{how}",
}

_FILES = {
    "file race": "at step {step} {one} and {other} with nothing between them",
    "rename race": "at step {step} {one} and {other} with nothing between them: it is whoever comes last's",
    "append race": "at step {step} {one} and {other}, in whichever order they come",
    "interleaved file": "{path} holds what no rank has written: the writes of {who} at step {step} are mixed",
    "lost write": "{path} lacks what rank {loser} wrote at step {step}: rank {winner} {how}",
}

_CHECKPOINT = {
    "nothing loaded": "{who} loaded nothing at {site}: none of the {keys} keys of the state ({unread}) is one of the "
    "module's ({lacking})",
    "state not copied": "{who} loaded into a module its own state at {site}, which nothing had copied",
    "changed while saved": "{who} saved {path}{at} in a thread at step {step} while training went on: {count} of {of} "
    "tensors changed as they were written",
    "mapped file overwritten": "{path} was written over while {who} had it mapped{at}, seen at step {step}: what was "
    "loaded from it changes with it",
    "no checkpoint": "nothing can be resumed from: {what}",
    "torn checkpoint": "the checkpoint {path}, read by {who}, is not as it was written",
    "state of another": "{who} went on with the state of another: {path} holds what {whose} had saved as {other}",
    "checkpoint lost": "{path}, which {who} saved after {done} steps in the attempt before, was not on disk any more "
    "when the ranks had ended, and no rank had removed it: only what an fsync of the file and of its folder has "
    "reached is sure to stay",
    "older checkpoint": "{who} resumed with {path}, saved after {done} steps, although {newer}, saved after {later} "
    "steps, was there and whole",
    "partial restore": "{who} went on at step {step} with less of the checkpoint {path} than the control: {said}",
}

_RESUME = {
    "content mismatch": "the result of {who} differs from the control's, first {at}: its samples are the control's by "
    "their numbers, with other contents",
    "wrong result": "the result of {who} differs from the control's, first {at}",
    "wrong contribution": "the result differs from the control's at step {step}, where {who} alone put other numbers "
    "into {op} ({site})",
}

#: The properties of a training, in the order in which a check-up lists them, each with its causes.
CAUSES_BY_PROPERTY: Mapping[str, Mapping[str, str]] = {
    "ends": _ENDS,
    "replicas": _REPLICAS,
    "samples": _SAMPLES,
    "collectives": _COLLECTIVES,
    "gradients and optimizer": _GRADIENTS,
    "numbers": _NUMBERS,
    "memory": _MEMORY,
    "races": _RACES,
    "files": _FILES,
    "checkpoint": _CHECKPOINT,
    "resume": _RESUME,
}
#: The closed list of causes, each with its sentence.
CAUSES: Mapping[str, str] = {cause: said for causes in CAUSES_BY_PROPERTY.values() for cause, said in causes.items()}
#: The property that each cause belongs to.
PROPERTY_OF: Mapping[str, str] = {cause: name for name, causes in CAUSES_BY_PROPERTY.items() for cause in causes}
#: Causes that say what differs, and leave open why: another cause of the same property is the better headline.
VAGUE = frozenset(("replicas differ", "gradients differ", "buffers differ"))
#: Causes that are found whether or not they did harm in this run.
HAZARDS = frozenset(("data race", "file race", "rename race", "append race"))
