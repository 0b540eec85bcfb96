from typing_extensions import NotRequired as NotRequired
