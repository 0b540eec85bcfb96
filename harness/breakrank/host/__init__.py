"""The machine as the kernel shows it: processes, namespaces, control groups, stacks."""
