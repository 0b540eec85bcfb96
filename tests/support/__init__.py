"""Helpers of the tests: plans, golden histories, jobs of launchers, images, hostile parties."""
