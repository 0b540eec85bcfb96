"""For one rank, the master's name has an IPv6 address before the IPv4 one, and nobody listens on that.

The host of rank 1 takes the master's name for its own, as `localhost`, with ::1 first. A program that looks
the name up and takes the first address meets nobody there, or itself. To ask for IPv4 alone is no cure: glibc takes
127.0.0.1 for the other half of ::1.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, hung

SCENARIO = Scenario(
    family="environment",
    job=Job(ranks=2, steps=4, deadline_s=5.0, data="digits"),
    strikes=[faults.PreferIpv6() @ at(rank=1, step=0, point="start")],
    cases=[
        Case("torch-first-address", "rendezvous:first_address", expect=hung(oracle="progress")),
        Case("torch-first-ipv4-address", "rendezvous:first_ipv4_address", expect=hung(oracle="progress")),
        Case("torch-first-address-elsewhere", "rendezvous:first_address_elsewhere", expect=SURVIVED),
        *(
            Case(f"tf-{name.replace('_', '-')}", f"clusters:{name}", framework="tensorflow", expect=expect)
            for name, expect in (
                ("first_address", hung(oracle="progress", cause="master mismatch")),
                ("name_for_grpc", hung(oracle="progress")),
                ("first_address_elsewhere", SURVIVED),
            )
        ),
    ],
)
