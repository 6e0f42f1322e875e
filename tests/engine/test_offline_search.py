"""Searched orders of a split: clean prices, the same bytes whatever happens on the way, every wrong input named."""

import json
import os
import random
import shutil
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from indigo_cli.data.orders_file import OrdersRow, read_order_rows
from indigo_cli.engine import offline_search
from indigo_cli.engine.offline_search import search_split
from indigo_cli.engine.order_searcher import OrderSearcher
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.search_parts import FACTS_FILE, SearchParts
from indigo_cli.errors import DataError, IndigoError, PeerError, RecipeError, RunError, UsageError
from tests.kill import killed_at
from tests.ranks import on_ranks
from tests.runs import multiply_weights
from tests.scoring import Score, near, tolerance
from tests.tiny import Tiny

ONE_THREAD = Runtime(threads=1)
SEEDED = (*(f"search.{setting}" for setting in ("beam_size=3", "dropout=0.2")),)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight blocks, the last one smaller."""
    monkeypatch.setattr(offline_search, "BLOCK_TARGETS", 8)


class Search:
    """Searches into a file of a folder."""

    def __init__(self, run: Path, folder: Path) -> None:
        self.run, self.folder, self.output = run, folder, folder / "out.orders.jsonl"

    def __call__(self, *settings: str, **options: Any) -> list[OrdersRow]:
        """Search anew and return the rows."""
        options = {"runtime": ONE_THREAD, "settings": (*SEEDED, *settings), "output": str(self.output), **options}
        self.summary = search_split(self.run, **options)
        return list(read_order_rows(self.output)[1])

    @property
    def parts(self) -> Path:
        return Path(f"{self.output}.parts")


@pytest.fixture
def search(scaled: Path, tmp_path: Path) -> Search:
    """Of a model that is as sure of itself as a trained one."""
    return Search(scaled, tmp_path)


def prices(row: OrdersRow) -> dict[tuple[int, ...], float]:
    assert row.log_probs is not None and row.parts is None and row.bound is None
    return dict(zip(row.orders, row.log_probs, strict=True))


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_scores_are_clean(search: Search, scored: Score, dropout: float) -> None:
    """Without dropout they come from the search itself, with it from a prefix tree: both are those of `score`."""
    rows = search(f"search.dropout={dropout}")
    again = scored(search.run, split="train", orders=search.output)
    assert len(rows) == len(again) == 60
    for row, wanted in zip(rows, again, strict=True):
        assert len(set(row.orders)) == len(row.orders) == len(wanted.orders) <= 3
        found = prices(row)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        for order, log_prob in zip(wanted.orders, wanted.log_probs or (), strict=True):
            assert found[order] == near(log_prob, abs=tolerance(log_prob))
    assert {len(row.orders) for row in rows if len(row.orders[0]) == 2} == {2}  # no more exist
    assert any(row.orders[0] != tuple(range(len(row.orders[0]))) for row in rows)


def test_what_is_found_depends_on_seed_and_dropout(search: Search) -> None:
    def bytes_of(*settings: str, **options: Any) -> bytes:
        search(*settings, overwrite=True, **options)
        return search.output.read_bytes().partition(b"\n")[2]

    usual = bytes_of()
    assert bytes_of() == usual == bytes_of(overrides=["search.beam_size=9", "train.max_steps=7"])
    others = (
        bytes_of(seed=5),
        bytes_of("search.dropout=0"),
        bytes_of("search.gumbel=3"),
        bytes_of("search.slot_weight=5"),
    )
    assert len({usual, *others}) == 5


@pytest.mark.parametrize(("tokens", "lines"), [(1, 512), (19, 7), (1000, 512)])
def test_neither_batches_nor_blocks_matter(
    search: Search, monkeypatch: pytest.MonkeyPatch, tokens: int, lines: int
) -> None:
    usual = search("search.gumbel=0.5")
    monkeypatch.setattr(offline_search, "BLOCK_TARGETS", lines)
    changed = search("search.gumbel=0.5", f"search.batch_tokens={tokens}", overwrite=True)
    for row, other in zip(usual, changed, strict=True):
        assert row.id == other.id and prices(other) == near(prices(row), abs=3e-4)  # 1e-4, and six digits


def test_the_header_says_how(search: Search, tiny: Tiny) -> None:
    search("search.whole_words=true", split="valid", seed=9)
    header = read_order_rows(search.output)[0]
    assert {"order": "sao", "split": "valid", "seed": 9, "beam": 3, "dropout": 0.2, "whole_words": True}.items() <= (
        header.items()
    )
    assert {"slot_weight", "gumbel", "weights", "corpus", "run", "checkpoint", "vocabulary"} <= header.keys()
    assert not search.parts.exists()


def test_training_takes_the_file_and_no_other_corpus_does(search: Search, tiny: Tiny, tmp_path: Path) -> None:
    search()
    options: dict[str, Any] = {"orders": [search.output], "runtime": ONE_THREAD}
    assert tiny.train(tmp_path / "run", "train.max_steps=2", **options).step == 2
    header, *rows = search.output.read_text("utf-8").splitlines(keepends=True)
    search.output.write_text(header.replace(json.loads(header)["corpus"], "0" * 64) + "".join(rows), "utf-8")
    with pytest.raises(DataError, match="another corpus"):
        tiny.train(tmp_path / "other", "train.max_steps=2", **options)


def test_without_an_output_it_stands_in_the_corpus(tiny: Tiny, scaled: Path, tmp_path: Path) -> None:
    corpus = Path(shutil.copytree(tiny.corpus, tmp_path / "corpus"))
    search_split(scaled, corpus_folder=corpus, runtime=ONE_THREAD)
    header, rows = read_order_rows(corpus / "train.sao.orders.jsonl")
    assert (header["beam"], header["dropout"], header["seed"]) == (8, 0.1, 1) and len(list(rows)) == 60


def test_standard_output_has_no_parts(
    search: Search, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    search()
    monkeypatch.chdir(search.folder)
    search_split(search.run, output="-", settings=SEEDED, runtime=ONE_THREAD)
    assert capsysbinary.readouterr().out == search.output.read_bytes()
    assert os.listdir(search.folder) == [search.output.name]
    with pytest.raises(UsageError, match="output is a stream"):
        search_split(search.run, output="-", resume=True, runtime=ONE_THREAD)


@pytest.mark.usefixtures("small_blocks")
class TestStopped:
    @pytest.fixture
    def counted(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """The number of targets of every block that is searched in this process."""
        sizes: list[int] = []
        find = OrderSearcher.find

        def counting(self: OrderSearcher, block: Any, *rest: Any) -> Any:
            sizes.append(len(block))
            return find(self, block, *rest)

        monkeypatch.setattr(OrderSearcher, "find", counting)
        return sizes

    @pytest.fixture
    def stopped(self, search: Search, monkeypatch: pytest.MonkeyPatch) -> Iterator[bytes]:
        """A search that ended when three of eight blocks were finished; gives the bytes of a whole one."""
        search()
        whole = search.output.read_bytes()
        search.output.unlink()
        write = SearchParts.write
        with monkeypatch.context() as patched:

            def failing(parts: SearchParts, number: int, *rest: Any) -> None:
                if number == 3:
                    raise RunError("disk full")
                write(parts, number, *rest)

            patched.setattr(SearchParts, "write", failing)
            with pytest.raises(RunError):
                search()
        assert len(list(search.parts.glob("0*.jsonl"))) == 3 and not search.output.exists()
        yield whole

    def test_it_goes_on_with_what_is_missing(self, search: Search, stopped: bytes, counted: list[int]) -> None:
        search(resume=True)
        assert search.output.read_bytes() == stopped and counted == [8, 8, 8, 8, 4]
        assert search.summary is not None and search.summary.health.targets == 60
        assert not search.parts.exists()

    def test_it_must_be_told_to(self, search: Search, stopped: bytes) -> None:
        with pytest.raises(UsageError, match="3 of 8 blocks") as caught:
            search()
        assert "--resume" in caught.value.fix and "--overwrite" in caught.value.fix

    def test_it_begins_anew_if_told_to(self, search: Search, stopped: bytes, counted: list[int]) -> None:
        (search.parts / "mine.txt").write_text("kept")
        search("search.beam_size=2", overwrite=True)
        assert len(counted) == 8 and search.output.read_bytes() != stopped
        assert os.listdir(search.parts) == ["mine.txt"] or set(os.listdir(search.parts)) == {"mine.txt", ".lock"}

    @pytest.mark.parametrize(
        ("settings", "options", "name"),
        [
            (["search.beam_size=4"], {}, "beam 3, not 4"),
            (["search.dropout=0.1"], {}, "dropout 0.2, not 0.1"),
            (["search.slot_weight=2"], {}, "slot_weight"),
            (["search.gumbel=1"], {}, "gumbel"),
            (["search.whole_words=true"], {}, "whole_words False, not True"),
            ([], {"seed": 8}, "seed 1, not 8"),
            ([], {"split": "valid"}, "split train, not valid"),
            ([], {"checkpoint": "step-00000060"}, "weights"),
            ([], {"overrides": ["model.pointer_scale=none"]}, "model"),
            ([], {"runtime": Runtime(precision="bf16", threads=1)}, "precision fp32, not bf16"),
        ],
    )
    def test_other_settings_are_refused(
        self, search: Search, stopped: bytes, settings: list[str], options: dict[str, Any], name: str
    ) -> None:
        before = {path.name: path.read_bytes() for path in search.parts.iterdir()}
        with pytest.raises(UsageError, match=f"searched with {name}"):
            search(*settings, resume=True, **options)
        assert {path.name: path.read_bytes() for path in search.parts.iterdir()} == before

    def test_other_blocks_are_refused(self, search: Search, stopped: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(offline_search, "BLOCK_TARGETS", 16)
        with pytest.raises(UsageError, match="block 8, not 16"):
            search(resume=True)

    def test_less_memory_is_no_other_search(self, search: Search, stopped: bytes, counted: list[int]) -> None:
        search("search.batch_tokens=16", resume=True)
        assert counted == [8, 8, 8, 8, 4]

    def test_damage_is_named(self, search: Search, stopped: bytes) -> None:
        part = search.parts / "00000001.jsonl"
        content = part.read_bytes()
        for wrong in (content[: len(content) // 2], content[: content.rindex(b"\n", 0, -1) + 1], b"", b"{}\n"):
            part.write_bytes(wrong)
            with pytest.raises(DataError) as caught:
                search(resume=True)
            assert part.name in caught.value.where and "delete this file" in caught.value.fix
        part.unlink()
        search(resume=True)
        assert search.output.read_bytes() == stopped

    def test_blocks_of_nobody_are_refused(self, search: Search, stopped: bytes) -> None:
        (search.parts / FACTS_FILE).unlink()
        with pytest.raises(DataError, match=r"search\.json is missing"):
            search(resume=True)

    def test_two_at_a_time_are_refused(self, search: Search, stopped: bytes) -> None:
        with (
            SearchParts(search.parts, {}, 0).lock(),
            pytest.raises(UsageError, match="another process searches"),
        ):
            search(resume=True)

    def test_a_whole_file_is_left_alone(self, search: Search, counted: list[int]) -> None:
        search()
        before = search.output.stat()
        search.parts.mkdir()  # a kill came between the file and the end of the folder
        (search.parts / "00000003.jsonl").write_text("{}")
        search(resume=True)
        assert search.output.stat() == before and not search.parts.exists() and len(counted) == 8
        with pytest.raises(UsageError, match="made with beam 3, not 4"):
            search("search.beam_size=4", resume=True)

    def test_nothing_to_go_on_from_is_a_beginning(self, search: Search) -> None:
        assert len(search(resume=True)) == 60

    @pytest.mark.slow
    def test_killed_at_every_step(self, search: Search, counted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(offline_search, "BLOCK_TARGETS", 25)
        search()
        whole = search.output.read_bytes()
        search.output.unlink()
        instants = [(OrderSearcher, "find"), (os, "replace"), (os, "unlink"), (os, "rmdir"), (os, "fsync")]
        work = partial(search_split, search.run, output=str(search.output), settings=SEEDED, runtime=ONE_THREAD)
        for instant in range(1, 100):
            if not killed_at(instant, work, instants):
                break
            missing = 3 - len(list(search.parts.glob("0*.jsonl"))) if not search.output.exists() else 0
            del counted[:]
            search(resume=True)
            assert (len(counted), search.output.read_bytes()) == (missing, whole), f"instant {instant}"
            assert os.listdir(search.folder) == [search.output.name]
            search.output.unlink()
        assert instant > 15

    @pytest.mark.slow
    def test_killed_at_random_again_and_again(self, search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
        began = time.monotonic()
        search()
        seconds, whole = time.monotonic() - began, search.output.read_bytes()
        search.output.unlink()
        draw, kills, done = random.Random(1), 0, 0
        while not killed_after(draw.uniform(0, seconds), partial(search, resume=True)):
            kills += 1
            stands = len(list(search.parts.glob("0*.jsonl"))) if search.parts.exists() else 0
            assert stands >= done  # nothing that was finished is lost
            done = stands
            if kills > 4:
                search(resume=True)
                break
        assert search.output.read_bytes() == whole and not search.parts.exists()


def killed_after(seconds: float, action: Callable[[], object]) -> bool:
    """Kill a forked process after so many seconds; True if it had ended by then."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where there are threads
        child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
class TestProcesses:
    def test_the_bytes_are_those_of_one(self, search: Search) -> None:
        search()
        whole = search.output.read_bytes()
        search.output.unlink()
        answers = on_ranks(2, partial(_text_of, search))
        assert search.output.read_bytes() == whole and not search.parts.exists()
        assert answers[1] == "" and "60 targets" in str(answers[0])

    def test_what_is_in_the_way_ends_all(self, search: Search) -> None:
        search.output.write_text("mine")
        answers = on_ranks(2, partial(_text_of, search))
        assert [type(answer) for answer in answers] == [UsageError, PeerError]
        assert search.output.read_text() == "mine"


def _text_of(search: Search) -> str:
    options: dict[str, Any] = {"settings": SEEDED, "output": str(search.output), "runtime": ONE_THREAD}
    summary = search_split(search.run, **options)
    return "" if summary is None else summary.text()


def test_what_is_in_the_way_is_left_alone(search: Search) -> None:
    search.output.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        search()
    with pytest.raises(UsageError, match="keeps what --overwrite deletes"):
        search(resume=True, overwrite=True)
    with pytest.raises(DataError):
        search(resume=True)
    assert search.output.read_text() == "mine" and not search.parts.exists()
    with pytest.raises(UsageError, match="folder"):
        search(output=str(search.folder), overwrite=True)
    assert len(search(overwrite=True)) == 60


@pytest.mark.parametrize(
    ("settings", "options", "kind", "message"),
    [
        (["search.dropout=1.5"], {}, RecipeError, "search.dropout"),
        (["search.beam_size=0"], {}, RecipeError, "search.beam_size"),
        ([], {"overrides": ["search.beam_sise=3"]}, RecipeError, "unknown key search.beam_sise"),
        ([], {"split": "tset"}, UsageError, "no split 'tset'"),
        ([], {"checkpoint": "step-9"}, IndigoError, "no checkpoint 'step-9'"),
    ],
)
def test_wrong_options(
    search: Search, settings: list[str], options: dict[str, Any], kind: type[IndigoError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        search(*settings, **options)
    assert os.listdir(search.folder) == []


def test_systems_without_a_choice_of_orders(transformer: Path, position_first: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="generates l2r only"):
        search_split(transformer, output=str(tmp_path / "x"))
    with pytest.raises(UsageError, match="position first"):
        search_split(position_first, output=str(tmp_path / "x"))


def test_weights_that_broke_are_named(scaled: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(scaled, tmp_path / "run", symlinks=True))
    multiply_weights(run, float("nan"))
    with pytest.raises(RunError, match="no finite log-probability"):
        search_split(run, output=str(tmp_path / "x"), checkpoint="last", runtime=ONE_THREAD)


def test_pieces_of_a_word_stay_together(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every second token went on: `first_pieces` is what the search is told."""

    def first_pieces(self: object, target: torch.Tensor) -> torch.Tensor:
        return (torch.arange(target.shape[1]) % 2 == 0).expand(target.shape)

    monkeypatch.setattr("indigo_cli.engine.whole_words.WholeWords.first_pieces", first_pieces)
    for row in search("search.whole_words=true"):
        for order in row.orders:
            for index in range(1, len(order), 2):
                assert order.index(index) == order.index(index - 1) + 1
