"""What the hostile tests share."""

from __future__ import annotations

from watched import watch

__all__ = ["watch"]
