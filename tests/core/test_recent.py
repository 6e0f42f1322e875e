"""What is remembered is what was computed, and never too much of it."""

import pytest

from indigo_cli.core import recent
from indigo_cli.core.recent import LONGEST_WORD, remember


def test_few_short_words_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "RECENT_WORDS", 3)
    asked: list[str] = []

    def length(word: str) -> int:
        asked.append(word)
        return len(word)

    remembered = remember(length)
    assert [remembered(word) for word in ("a", "bb", "a", "ccc", "a")] == [1, 2, 1, 3, 1]
    assert asked == ["a", "bb", "ccc"]
    remembered("dddd")  # there is no room for a fourth: the one that was not asked for longest is forgotten
    assert [remembered(word) for word in ("a", "bb")] == [1, 2]
    assert asked == ["a", "bb", "ccc", "dddd", "bb"]


def test_long_words_take_no_room() -> None:
    asked: list[str] = []
    remembered = remember(lambda word: asked.append(word))
    for word in ("a" * LONGEST_WORD, "a" * (LONGEST_WORD + 1)) * 2:
        remembered(word)
    assert [len(word) for word in asked] == [LONGEST_WORD, LONGEST_WORD + 1, LONGEST_WORD + 1]
