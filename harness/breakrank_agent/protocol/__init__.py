"""The protocol: plans, faults and logs, which both sides share."""
