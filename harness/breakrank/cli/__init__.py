"""The commands of `python -m breakrank`."""
