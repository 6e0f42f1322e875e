"""Where the words of targets begin, and that only pieces are pieces."""

import pytest
import torch

from indigo_cli.core.bpe import BPE, HEADER
from indigo_cli.core.text import SideCodec
from indigo_cli.core.vocab import NUM_SPECIALS, PAD, Vocabulary
from indigo_cli.engine.whole_words import whole_words

CPU = torch.device("cpu")
NAMES = Vocabulary(("a", "b@@", "c"), (3, 2, 1))
A, B, C = range(NUM_SPECIALS, NUM_SPECIALS + 3)


def codec(bpe: BPE | None) -> SideCodec:
    return SideCodec("none", "xx", False, bpe, NAMES)


def test_the_piece_behind_one_that_goes_on_begins_no_word() -> None:
    words = whole_words(codec(BPE(HEADER + "\n")), CPU)
    assert words is not None
    first = words.first_pieces(torch.tensor([[A, B, B, C, A], [B, A, PAD, PAD, PAD], [C, A, B, PAD, PAD]]))
    assert first.int().tolist() == [[1, 1, 0, 0, 1], [1, 0, 1, 1, 1], [1, 1, 1, 0, 1]]
    assert words.first_pieces(torch.zeros(2, 0, dtype=torch.int64)).shape == (2, 0)


def test_without_bpe_a_token_that_looks_like_a_piece_is_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert whole_words(codec(None), CPU) is None
    assert "search.whole_words has no effect: the targets have no pieces of words" in capsys.readouterr().err
