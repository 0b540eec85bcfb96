"""The disk of the rank that saves does not answer any more, as where the server of an NFS mount is gone.

No call that opens a file to write it, names one, or brings one to disk returns. All ranks wait for the one that saves
in its loop; a save in a thread is waited for only so long. A thread is no help to a rank whose
`torch.save` is given a name: it opens the file while it holds Python's lock (torch 2.13), so that no thread goes on.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, hung

#: All ranks stand still; the one that is to blame is in no collective, where the other waits.
STANDS = hung(oracle="progress", step=6, cause="no progress")

SCENARIO = Scenario(
    family="storage",
    job=Job(ranks=2, steps=9, data="digits", deadline_s=10.0, patience_s=5.0),
    strikes=[faults.HangDisk() @ at(rank=0, step=6, point="collective")],
    cases=[
        Case(
            "torch-in-the-loop",
            "stalled:in_the_loop",
            control="stalled:with_a_limit",
            expect=STANDS,
        ),
        Case(
            "torch-by-name-with-a-limit",
            "stalled:by_name_with_a_limit",
            control="stalled:with_a_limit",
            expect=STANDS,
        ),
        Case("torch-with-a-limit", "stalled:with_a_limit", expect=DETECTED),
        Case("torch-in-background", "stalled:in_background", expect=SURVIVED),
        Case("tf-in-the-loop", "stalled_workers:in_the_loop", framework="tensorflow", expect=STANDS),
        Case("tf-with-a-limit", "stalled_workers:with_a_limit", framework="tensorflow", expect=DETECTED),
        Case("tf-in-background", "stalled_workers:in_background", framework="tensorflow", expect=SURVIVED),
    ],
)
