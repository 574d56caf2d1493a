"""Words that depend on a number."""

from __future__ import annotations


def counted(number: int, word: str) -> str:
    """`1 file`, `2 files`, `1,200 files`: for words whose plural takes an s."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
