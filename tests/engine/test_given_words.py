"""`train.given_rate`: which words a visit is given, whatever batch and process it comes in, and trainings with it."""

import itertools
import random
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from indigo_cli.core.bpe import BPE, CONTINUES, learn
from indigo_cli.core.text import SideCodec
from indigo_cli.core.vocab import NUM_SPECIALS, Vocabulary
from indigo_cli.data.batch import Batch
from indigo_cli.data.corpus import Corpus
from indigo_cli.engine.assign import OrderConfig
from indigo_cli.engine.given_words import GivenDraw
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.prepare import prepare
from indigo_cli.errors import UsageError
from indigo_cli.recipe import load_recipe
from tests import tiny as tiny_task
from tests.engine.test_several_orders import orders_file
from tests.engine.test_train_on_processes import STEPS, check_alike, on_two
from tests.runs import same, state_of, training_rows, valid_rows
from tests.tiny import Tiny, write_task

SPLIT_WORDS = ("preprocess.vocabulary=bpe", "preprocess.merges=15", "preprocess.max_length=40")
BPE_OF_A = BPE(learn({"ab": 2}, 0))
PIECES = sorted({piece for word in ("abc", "c") for piece in BPE_OF_A.split(word)})
CODEC = SideCodec("none", "en", False, BPE_OF_A, Vocabulary(tuple(PIECES), (1,) * len(PIECES)))


def ids(text: str) -> list[int]:
    return [NUM_SPECIALS + PIECES.index(piece) for word in text.split() for piece in BPE_OF_A.split(word)]


def drawn(target: list[int], *, rate: float, line: int, epoch: int = 0, seed: int = 1) -> tuple[list[int], int]:
    order = list(range(len(target)))[::-1]
    (found,), (count,) = GivenDraw(CODEC, rate=rate, seed=seed).first(
        [target], [order], lines=np.array([line]), epoch=epoch
    )
    return found.tolist(), count


def test_given_words_come_first_from_left_to_right_and_the_rest_keeps_its_order() -> None:
    target = ids("abc c c abc c abc")
    counts = set()
    for line in range(40):
        order, count = drawn(target, rate=0.4, line=line)
        assert sorted(order) == list(range(len(target)))
        assert order[:count] == sorted(order[:count]) and order[count:] == sorted(order[count:], reverse=True)
        given = [index in order[:count] for index in range(len(target))]
        goes_on = [PIECES[token - NUM_SPECIALS].endswith(CONTINUES) for token in target]
        assert all(a == b for a, b, inside in zip(given, given[1:], goes_on, strict=False) if inside)
        counts.add(count)
    assert len(counts) > 5


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_the_rate_is_the_mean_share(rate: float) -> None:
    target = ids("c " * 20)
    shares = np.array([drawn(target, rate=rate, line=line)[1] / 20 for line in range(200)])
    assert abs(shares.mean() - rate) < 0.06
    low, high = max(0.0, 2 * rate - 1), min(1.0, 2 * rate)
    spread = (high - low) / np.sqrt(12)  # of the even share, and of twenty words beside it
    assert shares.std() > spread
    assert shares.min() < low + 0.1 and shares.max() > high - 0.1


def test_a_draw_depends_on_seed_epoch_and_line_alone() -> None:
    target = ids("abc c c abc c abc c c")
    visits = itertools.product((1, 2), (0, 1), range(6))
    found = [tuple(drawn(target, rate=0.5, line=line, epoch=epoch, seed=seed)[0]) for seed, epoch, line in visits]
    assert len({*found}) > 12
    many = GivenDraw(CODEC, rate=0.5, seed=1).first(
        [ids("c"), target, [], target], [[0], range(len(target))[::-1], [], range(len(target))[::-1]],
        lines=np.array([9, 3, 5, 0]), epoch=1,
    )  # fmt: skip
    assert many[0][1].tolist() == drawn(target, rate=0.5, line=3, epoch=1)[0]
    assert many[0][3].tolist() == drawn(target, rate=0.5, line=0, epoch=1)[0]
    assert many[1][2] == 0


def visits(split: OrderedSplit, skip: int = 0) -> dict[tuple[int, str], tuple[object, int]]:
    found: dict[tuple[int, str], tuple[object, int]] = {}
    for micro_batch in split.stream(epoch=0, skip=skip, max_epochs=2):
        batch: Batch = micro_batch.load()
        assert batch.plan.given is not None and batch.num_given == int(batch.plan.given.sum())
        for i, name in enumerate(batch.ids):
            order = batch.plan.orders[i, 0, : int(batch.lengths[i])].tolist()
            found[micro_batch.epoch, name] = (order, int(batch.plan.given[i]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("order", ["l2r", "rnd"])
def test_a_visit_is_the_same_in_any_batch_and_after_a_stop(tiny: Tiny, order: str) -> None:
    def split(batch_tokens: int) -> OrderedSplit:
        corpus = Corpus.open(tiny.corpus)
        return OrderedSplit(corpus, "train", OrderConfig(name=order), seed=1, batch_tokens=batch_tokens, given_rate=0.4)

    whole = visits(split(40))
    assert visits(split(500)) == whole
    rest = visits(split(40), skip=3)
    assert rest == {visit: whole[visit] for visit in rest} and len(rest) < len(whole)
    assert any(whole[0, name] != whole[1, name] for epoch, name in whole if epoch)


@pytest.mark.slow
class TestTraining:
    def test_a_resumed_run_is_the_same_bit_for_bit(self, tiny: Tiny, tmp_path: Path) -> None:
        settings = ("train.given_rate=0.4",)
        tiny.train(tmp_path / "whole", *settings)
        tiny.train(tmp_path / "parts", *settings, "train.max_steps=4")
        tiny.train(tmp_path / "parts", *settings, resume=True)
        assert same(state_of(tmp_path / "whole"), state_of(tmp_path / "parts"))
        assert training_rows(tmp_path / "whole") == training_rows(tmp_path / "parts")
        with pytest.raises(UsageError, match="given_rate"):
            tiny.train(tmp_path / "parts", "train.given_rate=0.3", "train.max_steps=9", resume=True)

    def test_two_processes_are_one(self, tiny: Tiny, tmp_path: Path) -> None:
        settings = ("train.given_rate=0.4", "model.dropout=0")
        tiny.train(tmp_path / "one", *STEPS, *settings, "train.accumulate=2")
        on_two(tiny, tmp_path / "two", *settings)
        check_alike(tmp_path / "one", tmp_path / "two")

    def test_validation_gives_nothing(self, tiny: Tiny, tmp_path: Path) -> None:
        """Its loss is that of whole targets: another rate of the same weights is measured alike."""
        frozen = ("train.learning_rate=1e-30", "train.max_steps=1", "train.validate_every=1")
        for rate in (0, 0.5):
            tiny.train(tmp_path / str(rate), f"train.given_rate={rate}", *frozen)
        assert valid_rows(tmp_path / "0") == valid_rows(tmp_path / "0.5")

    def test_of_a_file_with_one_order_each(self, tiny: Tiny, tmp_path: Path) -> None:
        one = orders_file(tiny, tmp_path / "one.jsonl", ["l2r"])
        both = orders_file(tiny, tmp_path / "both.jsonl", ["l2r", "r2l"])
        settings = ("train.given_rate=0.4", "train.max_steps=2")
        tiny.train(tmp_path / "run", *settings, orders=[one])
        tiny.train(tmp_path / "rule", *settings, "order.name=l2r")
        assert same(state_of(tmp_path / "run"), state_of(tmp_path / "rule"))
        with pytest.raises(UsageError, match="several orders"):
            tiny.train(tmp_path / "both", *settings, "search.train_on=average", orders=[both])

    def test_words_split_anew_are_given_whole(self, tmp_path: Path) -> None:
        """The draw sees the pieces of the visit, not the stored ones."""
        rng = random.Random(1)
        with patch.object(tiny_task, "WORDS", ["".join(rng.choices("ab", k=rng.randint(1, 6))) for _ in range(60)]):
            write_task(tmp_path)
        prepare(load_recipe(tmp_path / "recipe.toml", SPLIT_WORDS), tmp_path / "corpus")
        corpus = Corpus.open(tmp_path / "corpus")
        split = OrderedSplit(corpus, "train", OrderConfig(), seed=1, batch_tokens=60, bpe_dropout=0.4, given_rate=0.5)
        inside = 0
        for micro_batch in split.once():
            batch = micro_batch.load()
            assert batch.plan.given is not None
            for i, count in enumerate(batch.plan.given.tolist()):
                tokens = corpus.codecs.target.vocabulary.decode(batch.target[i, : int(batch.lengths[i])].tolist())
                given = {*batch.plan.orders[i, 0, :count].tolist()}
                for index, token in enumerate(tokens):
                    if token.endswith(CONTINUES):
                        assert (index in given) == (index + 1 in given)
                        inside += index in given
        assert inside
