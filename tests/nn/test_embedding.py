"""Embeddings of both sides, and the output layer tied to the target's."""

import pytest
import torch

from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.data.collate import collate_source
from indigo_cli.nn import embedding
from indigo_cli.nn.embedding import Embeddings
from indigo_cli.nn.positions.sinusoidal import sinusoid
from tests.tensors import assert_close


def make(*, shared: bool = True, source_size: int = 9) -> Embeddings:
    torch.manual_seed(0)
    return Embeddings(source_size, 9, 4, shared=shared, dropout=0.1).eval()


def test_inputs_are_scaled_by_the_root_of_the_width() -> None:
    table = make()
    source = collate_source([[6, 7], [8]])
    assert_close(table.embed_source(source, sinusoidal=False), 2.0 * table.target.weight[source.values])
    assert_close(table.embed_target(torch.tensor([5, EOD])), 2.0 * table.target.weight[[5, EOD]])


def test_positions_are_added_where_asked() -> None:
    table, source = make(), collate_source([[6, 7, 8]])
    plain, placed = (table.embed_source(source, sinusoidal=flag) for flag in (False, True))
    assert_close(placed - plain, sinusoid(torch.arange(4), 4)[None])
    ids = torch.tensor([[6], [7]])
    code = sinusoid(torch.tensor([5]), 4)
    assert_close(table.embed_target(ids, code) - table.embed_target(ids), code.expand(2, 1, 4))


def test_sides_share_a_table_or_not() -> None:
    source = collate_source([[5]])
    assert make().source is None
    own = make(shared=False, source_size=6)
    assert own.source is not None and own.source.weight.shape == (6, 4)
    assert_close(own.embed_source(source, sinusoidal=False), 2.0 * own.source.weight[source.values])


def test_two_vocabularies_cannot_share() -> None:
    with pytest.raises(ValueError, match="one vocabulary, got sizes 8 and 9"):
        make(source_size=8)


@pytest.mark.parametrize(("tile", "fewest"), [(1, 1), (1, 4), (6, 1), (99, 1), (1, 99)])
def test_scores_are_the_softmax_over_words(tile: int, fewest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`<eod>` is the first column: PAD, `<s>` and `</s>` have none. However many words are scored at a time."""
    monkeypatch.setattr(embedding, "TILE", tile)
    monkeypatch.setattr(embedding, "FEWEST_COLUMNS", fewest)
    rows, table = 3, make()
    hidden = torch.randn(rows, 4)
    logits, log_z = table.scores(hidden)
    assert logits.shape == (rows, 9 - FIRST_WORD)
    assert_close(logits - log_z[:, None], (hidden @ table.target.weight.T)[:, FIRST_WORD:].log_softmax(1))
