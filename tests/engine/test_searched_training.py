"""`train --order sao`: phases, kept orders, resuming, several processes, and the figures of its validations."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from indigo_cli.data import batching
from indigo_cli.data.batch import Plan
from indigo_cli.data.corpus import Corpus
from indigo_cli.decoding.order_search import FoundOrders, SearchOptions, search_orders
from indigo_cli.engine import order_planner, valid_search
from indigo_cli.engine.assign import OrderConfig
from indigo_cli.engine.distributed import Processes
from indigo_cli.engine.loaded_run import load_run
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.engine.valid_search import search_valid
from indigo_cli.errors import UsageError
from tests.ranks import on_ranks
from tests.runs import log_of, same, state_of, training_rows, valid_rows
from tests.scoring import Score
from tests.tiny import Tiny

pytestmark = pytest.mark.slow

SAO = ("order.name=sao", "search.beam_size=3", "train.validate_every=100")
NOW = "search.bootstrap_steps=0"
"""Search from the first update on."""
CPU = torch.device("cpu")


def count_searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of sentences of every search in training."""
    counts: list[int] = []

    def counted(*args: Any, **options: Any) -> FoundOrders:
        counts.append(len(args[3]))
        return search_orders(*args, **options)

    monkeypatch.setattr(order_planner, "search_orders", counted)
    return counts


class TestPhases:
    def test_bootstrapping_ends_after_its_last_update(
        self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Until then the run is one in the bootstrap order, redrawn each epoch (there are two here), bit for bit."""
        counts = count_searched(monkeypatch)
        tiny.train(tmp_path / "rnd", "order.name=rnd", "train.max_steps=7")
        boot = (*SAO, "search.bootstrap_order=rnd", "search.bootstrap_steps=6", "train.max_steps=7")
        tiny.train(tmp_path / "sao", *boot, "train.save_every=6")
        assert len(counts) == 1
        plain, searched = training_rows(tmp_path / "rnd"), training_rows(tmp_path / "sao")
        assert [row.pop("searched") for row in searched] == [0.0] * 6 + [1.0]
        assert plain[:6] == searched[:6] and plain[6] != searched[6]
        assert plain[5]["epoch"] == 1

    def test_from_the_weights_of_another_run(self, tiny: Tiny, tmp_path: Path) -> None:
        tiny.train(tmp_path / "run", *SAO, NOW, "train.max_steps=1", init=tiny.run)
        (row,) = training_rows(tmp_path / "run")
        assert row["searched"] == 1.0 and row["loss"] < 2.5, "a fresh model is at 3.3"

    def test_a_share_stays_what_it_was_when_the_run_goes_on_for_longer(self, tiny: Tiny, tmp_path: Path) -> None:
        half = (*SAO, "search.bootstrap_steps=0.5")
        tiny.train(tmp_path / "run", *half, "train.max_steps=4")
        tiny.train(tmp_path / "run", *half, "train.max_steps=8", resume=True)
        assert [row["searched"] for row in training_rows(tmp_path / "run")] == [0, 0, 1, 1, 1, 1, 1, 1]

    def test_one_seed_one_run(self, tiny: Tiny, tmp_path: Path) -> None:
        drawn = (*SAO, NOW, "search.train_on=sample", "search.gumbel=1", "train.max_steps=2")
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            tiny.train(tmp_path / name, *drawn, f"seed={seed}")
        assert same(state_of(tmp_path / "a"), state_of(tmp_path / "b"))
        assert not same(state_of(tmp_path / "a"), state_of(tmp_path / "c"))


class TestKept:
    def test_an_example_is_searched_at_every_refresh_th_visit(
        self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        counts = count_searched(monkeypatch)
        epochs = ("train.max_epochs=4", "train.max_steps=0")
        tiny.train(tmp_path / "run", *SAO, NOW, "search.refresh=3", *epochs)
        by_epoch = Counter[int]()
        for row in training_rows(tmp_path / "run"):
            by_epoch[row["epoch"]] += row["searched"] > 0
            assert row["searched"] in (0.0, 1.0)
        assert by_epoch[1] == by_epoch[2] == 0
        assert sum(counts) == 2 * 60, "in epochs 0 and 3"
        tiny.train(tmp_path / "fresh", *SAO, NOW, *epochs)
        assert sum(counts) == (2 + 4) * 60

    @pytest.mark.parametrize("train_on", ["best", "sample", "average"])
    def test_what_is_kept_is_what_a_search_of_the_same_weights_finds(
        self, tiny: Tiny, tmp_path: Path, train_on: str
    ) -> None:
        """With a rate of next to nothing and no dropout, keeping orders changes nothing."""
        still = (*SAO, NOW, f"search.train_on={train_on}", "search.dropout=0", "model.dropout=0", "train.max_steps=16")
        for refresh in (1, 2):
            tiny.train(tmp_path / str(refresh), *still, "train.learning_rate=1e-12", f"search.refresh={refresh}")
        rows = [training_rows(tmp_path / name) for name in ("1", "2")]
        assert {row.pop("searched") for row in rows[0]} == {1.0}
        assert {row.pop("searched") for row in rows[1]} == {0.0, 1.0}
        for one, other in zip(*rows, strict=True):
            assert other == pytest.approx(one, rel=1e-4)


class TestResume:
    @pytest.mark.parametrize(
        "settings",
        [
            ("search.train_on=best", "search.bootstrap_steps=2"),
            ("search.train_on=sample", NOW, "search.dropout=0.2"),
            ("search.train_on=average", NOW, "search.reference=none", "train.accumulate=2"),
        ],
        ids=lambda settings: settings[0].split("=")[1],
    )
    def test_case_75_it_ends_as_a_run_that_was_not_stopped(
        self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Sequence[str]
    ) -> None:
        """Stopped in mid-epoch, while kept orders are in use, and between two rows of the log; trees are cut."""
        monkeypatch.setattr(batching, "FEWEST_NODES", 100)
        options = (*SAO, *settings, "search.refresh=2", "train.save_every=100", "train.log_every=5")
        tiny.train(tmp_path / "whole", *options, "train.max_steps=14", "train.validate_every=7")
        tiny.train(tmp_path / "run", *options, "train.max_steps=7", "train.validate_every=7")
        assert "training.search.searched" in state_of(tmp_path / "run")
        tiny.train(tmp_path / "run", *options, "train.max_steps=14", "train.validate_every=7", resume=True)
        assert same(state_of(tmp_path / "whole"), state_of(tmp_path / "run"))
        assert log_of(tmp_path / "whole") == log_of(tmp_path / "run")

    def test_what_may_change_and_what_may_not(self, tiny: Tiny, tmp_path: Path) -> None:
        run, options = tmp_path / "run", (*SAO, NOW)
        tiny.train(run, *options, "train.max_steps=1")
        tiny.train(run, *options, "train.max_steps=2", "search.sentences=4", resume=True)
        for changed in ("search.refresh=2", "search.train_on=average", "search.reference=r2l"):
            with pytest.raises(UsageError, match=changed.split("=")[0]):
                tiny.train(run, *options, "train.max_steps=3", changed, resume=True)

    def test_unused_keys_may_change_and_are_named(
        self, tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        tiny.train(tmp_path / "run", "train.max_steps=1")
        assert "search." not in capsys.readouterr().err
        tiny.train(tmp_path / "run", "train.max_steps=2", "search.refresh=4", "search.gumbel=1", resume=True)
        said = " ".join(capsys.readouterr().err.split())
        assert "search.refresh, search.gumbel have no effect: a run on rnd does not search" in said


class TestProcesses:
    @pytest.mark.parametrize("train_on", ["best", "average"])
    def test_contract_4_two_are_one_that_accumulates_twice_as_much(
        self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train_on: str
    ) -> None:
        """Orders that one process found are used by the other in the next epoch; trees are cut into several parts.

        Targets have equal words: which of two comes first must not hang on the rounding of the weights.
        """
        monkeypatch.setattr(batching, "FEWEST_NODES", 100)
        still = ("model.dropout=0", "search.refresh=2", f"search.train_on={train_on}", "train.max_steps=7")
        options = (*SAO, "search.bootstrap_steps=1", *still)
        tiny.train(tmp_path / "one", *options, "train.accumulate=2")
        answers = on_ranks(2, partial(tiny.train, tmp_path / "two", *options))
        assert not [answer for answer in answers if isinstance(answer, BaseException)]
        rows = log_of(tmp_path / "one"), log_of(tmp_path / "two")
        assert {row.get("searched") for row in rows[0]} >= {0.0}
        for one, other in zip(*rows, strict=True):
            assert one.keys() == other.keys()
            for key in one.keys() - {"split", "search"}:
                assert other[key] == pytest.approx(one[key], rel=1e-4 if key == "grad_norm" else 1e-5), key
        states = state_of(tmp_path / "one"), state_of(tmp_path / "two")
        assert states[0].keys() == states[1].keys()
        assert torch.equal(states[0]["training.search.orders"], states[1]["training.search.orders"])


class TestValidation:
    def test_the_loss_is_that_of_the_best_candidate(self, tiny: Tiny, tmp_path: Path) -> None:
        """Against teacher forcing of everything that competes; also while the run is bootstrapping."""
        run = tmp_path / "run"
        options = ("search.reference=blt", "search.bootstrap_steps=1", "train.max_steps=2", "train.validate_every=1")
        tiny.train(run, *SAO, *options, "search.beam_size=2", "train.save_every=1")
        corpus = Corpus.open(tiny.corpus)
        for step in (1, 2):
            system = load_run(run, checkpoint=f"step-{step:08d}", device=CPU).system
            total = words = slots = 0.0
            split = OrderedSplit(corpus, "valid", OrderConfig(name="blt"), seed=1, batch_tokens=64)
            for micro_batch in split.once():
                batch = micro_batch.load()
                found = search_orders(
                    system.known,
                    system.known.encode(batch.source, None),
                    batch.source.mask,
                    batch.target,
                    batch.lengths,
                    SearchOptions(beam_size=2),
                )
                everything = torch.cat((found.orders, batch.plan.orders), dim=1)
                steps = system.log_probs(replace(batch, plan=Plan(everything, torch.ones(everything.shape[:2]))))
                best = (steps.words.sum(dim=2) + steps.slots.sum(dim=2)).max(dim=1)
                words -= float(steps.words.sum(dim=2).gather(1, best.indices[:, None]).sum())
                slots -= float(steps.slots.sum(dim=2).gather(1, best.indices[:, None]).sum())
                total += batch.num_predictions
            row = valid_rows(run)[step]
            assert row["loss"] == pytest.approx((words + slots) / total, rel=1e-5)
            assert row["loss_word"] == pytest.approx(words / total, rel=1e-5)
            assert row["loss_position"] == pytest.approx(slots / (total - 8), rel=1e-5)

    @pytest.mark.parametrize(("reference", "lower"), [("l2r", True), ("none", False)])
    def test_left_to_right_counts_where_it_is_the_reference(
        self, tiny: Tiny, tmp_path: Path, reference: str, lower: bool
    ) -> None:
        """A model of l2r searches with a beam of 1: what it finds is worse than what it has learnt."""
        l2r = tmp_path / "l2r"
        tiny.train(l2r, "order.name=l2r", "train.max_steps=60", "train.validate_every=60", "train.save_every=60")
        options = (*SAO, "search.beam_size=1", f"search.reference={reference}", "search.bootstrap_steps=1")
        still = ("train.learning_rate=1e-12", "train.max_steps=2")
        tiny.train(tmp_path / "run", *options, *still, init=l2r)
        loss = valid_rows(tmp_path / "run")[2]["loss"]
        assert (loss < valid_rows(l2r)[60]["loss"] + 1e-4) == lower

    def test_the_sentences_are_drawn_once(self, tiny: Tiny) -> None:
        system = load_run(tiny.run, device=CPU).system
        split = OrderedSplit(Corpus.open(tiny.corpus), "valid", OrderConfig(), seed=5, batch_tokens=20)

        def ids(sentences: int, *, rank: int = 0, world: int = 1, split: OrderedSplit = split) -> list[str]:
            config, processes = SearchConfig(sentences=sentences, beam_size=2), Processes(rank, world)
            found = search_valid(system, split, config, words=None, processes=processes, runtime=Runtime())
            return [name for batch, orders in found for name in batch.ids if len(orders.orders) == len(batch.ids)]

        drawn = ids(5)
        assert len(set(drawn)) == 5 and ids(5) == drawn
        assert sorted(ids(5, rank=0, world=2) + ids(5, rank=1, world=2)) == sorted(drawn)
        other = OrderedSplit(Corpus.open(tiny.corpus), "valid", OrderConfig(), seed=6, batch_tokens=20)
        assert sorted(ids(5, split=other)) != sorted(drawn)
        assert len(set(ids(0))) == len(set(ids(100))) == 8

    def test_what_rides_along_is_the_order_of_the_split(self, tiny: Tiny) -> None:
        """Its score is that of teacher forcing, whether the search finds it, too, or not."""
        system = load_run(tiny.run, device=CPU).system
        split = OrderedSplit(Corpus.open(tiny.corpus), "valid", OrderConfig(), seed=1, batch_tokens=64)
        config = SearchConfig(beam_size=2)
        for batch, found in search_valid(system, split, config, words=None, processes=Processes(), runtime=Runtime()):
            assert torch.equal(found.orders[:, -1], batch.plan.orders[:, 0])
            steps = system.log_probs(batch)
            taught = steps.words[:, 0].sum(dim=1) + steps.slots[:, 0].sum(dim=1)
            torch.testing.assert_close(found.score[:, -1], taught, rtol=1e-5, atol=1e-4)


def test_scoring_says_that_it_takes_left_to_right(
    tiny: Tiny, tmp_path: Path, scored: Score, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.train(tmp_path / "run", *SAO, NOW, "train.max_steps=1")
    capsys.readouterr()
    rows = scored(tmp_path / "run", split="valid")
    said = " ".join(capsys.readouterr().err.split())
    assert "the run was trained on orders that it searched: scored in l2r; `indigo search-orders` writes" in said
    assert all(row.orders == (tuple(range(len(row.orders[0]))),) for row in rows)


def test_whole_words_are_searched_with_their_pieces_in_a_row(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.train(tmp_path / "words", *SAO, NOW, "search.whole_words=true", "train.max_steps=1")
    assert "search.whole_words has no effect: the targets have no pieces of words" in capsys.readouterr().err
    pieces = ("preprocess.vocabulary=bpe", "preprocess.merges=15", "preprocess.max_length=40")
    prepare(tiny.recipe(*pieces), tmp_path / "corpus")
    broken: list[int] = []

    def watched(*args: Any, **options: Any) -> FoundOrders:
        found, first, lengths = search_orders(*args, **options), options["first_piece"], args[4]
        for row in range(len(lengths)):
            length = int(lengths[row])
            inside = {i for i in range(1, length) if not first[row, i]}
            for order, alive in zip(found.orders[row, :-1].tolist(), found.alive[row, :-1].tolist(), strict=True):
                steps = {place: step for step, place in enumerate(order[:length])}
                broken.append(alive and any(steps[i] != steps[i - 1] + 1 for i in inside))
        return found

    for module in (order_planner, valid_search):
        monkeypatch.setattr(module, "search_orders", watched)
    kept = (*SAO, NOW, *pieces, "train.max_steps=1")
    tiny.train(tmp_path / "kept", *kept, "search.whole_words=true", corpus_folder=tmp_path / "corpus")
    assert broken and not any(broken)
