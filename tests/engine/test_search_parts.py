"""Searches that were stopped: what is finished is never done again, and never mixed with anything else."""

import json
import os
import random
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from indigo_cli.engine import offline_search
from indigo_cli.engine.offline_search import search_split
from indigo_cli.engine.order_searcher import OrderSearcher
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.search_parts import SearchParts
from indigo_cli.errors import DataError, RunError, UsageError
from tests.kill import killed_at
from tests.searching import ONE_THREAD, SEEDED, Search

pytestmark = pytest.mark.slow


def fail_at(patched: pytest.MonkeyPatch, block: int) -> None:
    """Let a block be searched, but not kept."""
    write = SearchParts.write

    def failing(parts: SearchParts, number: int, *rest: Any) -> None:
        if number == block:
            raise RunError("disk full")
        write(parts, number, *rest)

    patched.setattr(SearchParts, "write", failing)


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
        with monkeypatch.context() as patched:
            fail_at(patched, 3)
            with pytest.raises(RunError):
                search()
        assert len(list(search.parts.glob("0*.jsonl"))) == 3 and not search.output.exists()
        yield whole

    def test_it_goes_on_with_what_is_missing(self, search: Search, stopped: bytes, counted: list[int]) -> None:
        search(resume=True)
        assert search.output.read_bytes() == stopped and counted == [8, 8, 8, 8, 4]
        assert search.summary is not None and search.summary.figures["targets"] == 60
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
        (search.parts / SearchParts.facts_file).unlink()
        with pytest.raises(DataError, match=r"search\.json is missing"):
            search(resume=True)

    def test_two_at_a_time_are_refused(self, search: Search, stopped: bytes) -> None:
        with (
            SearchParts(search.parts, {}, 0).lock(),
            pytest.raises(UsageError, match="another process searches"),
        ):
            search(resume=True)

    def test_a_whole_file_is_left_alone_and_reported(
        self, search: Search, counted: list[int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        search()
        before, summary = search.output.stat(), search.summary
        search.parts.mkdir()  # a kill came between the file and the end of the folder
        (search.parts / "00000003.jsonl").write_text("{}")
        search(resume=True)
        assert search.output.stat() == before and not search.parts.exists() and len(counted) == 8
        assert summary is not None and search.summary is not None
        assert search.summary.figures == summary.figures and "60 targets" in search.summary.text()
        assert "is complete already" in capsys.readouterr().err
        with pytest.raises(UsageError, match="made with beam 3, not 4"):
            search("search.beam_size=4", resume=True)

    def test_a_whole_file_without_figures_has_no_report(self, search: Search) -> None:
        search()
        header, rows = search.output.read_text("utf-8").split("\n", 1)
        facts = json.loads(header)
        for figures in (None, {"targets": 60}):
            search.output.write_text(json.dumps({**facts, "search": figures}) + "\n" + rows, "utf-8")
            search(resume=True)
            assert search.summary is None

    @pytest.mark.parametrize("blocks", [0, 3])
    def test_one_that_was_to_replace_a_file_goes_on(
        self, search: Search, counted: list[int], monkeypatch: pytest.MonkeyPatch, blocks: int
    ) -> None:
        """The file of other settings still stands; it is replaced at the end, and by no other search."""
        search("search.beam_size=2")
        old = search.output.read_bytes()
        with monkeypatch.context() as patched:
            fail_at(patched, blocks)
            with pytest.raises(RunError):
                search(overwrite=True)
        del counted[:]
        for other in (["search.beam_size=4"], ["search.beam_size=3", "search.gumbel=1"]):
            with pytest.raises(UsageError, match="made with"):
                search(*other, resume=True)
        assert search.output.read_bytes() == old
        with monkeypatch.context() as patched:
            fail_at(patched, 5)
            with pytest.raises(RunError):
                search(resume=True)
        rows = search(resume=True)
        assert len(counted) == 9 - blocks and {len(row.orders) for row in rows} == {2, 3}
        assert not search.parts.exists()

    def test_nothing_to_go_on_from_is_a_beginning(self, search: Search) -> None:
        assert len(search(resume=True)) == 60

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

    def test_killed_at_random_again_and_again(self, search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
        began = time.monotonic()
        search()
        seconds, whole = time.monotonic() - began, search.output.read_bytes()
        search.output.unlink()
        draw, kills, done = random.Random(1), 0, 0
        while not killed_after(draw.uniform(0, seconds), partial(search, resume=True)):
            kills += 1
            if search.output.exists():  # whole, and its parts are being removed
                assert search.output.read_bytes() == whole
                continue
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
