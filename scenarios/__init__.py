"""The scenarios that come with Breakrank: one file each, with one value `SCENARIO`."""
