"""Red flags of searched orders: each appears, stays away from what is healthy, and is said once."""

from typing import Any

import pytest

from indigo_cli.core.vocab import Vocabulary
from indigo_cli.engine.health_flags import HealthWatch, flat_flag, frequent_types, red_flags
from indigo_cli.engine.search_config import SearchConfig

FREE = SearchConfig(reference="none")
Row = dict[str, Any]


def first(word: str = ",", share: float = 0.17, l2r: float = 0.02, *, frequent: bool = True) -> Row:
    return {"word": word, "share": share, "l2r": l2r, "frequent": frequent}


def likely(best: float = 0.2, l2r: float = 0.23) -> Row:
    return {"best": best, "log_sum": best, "l2r": l2r}


def figures(**changes: Any) -> Row:
    """Of a healthy run."""
    usual = {"targets": 200, "best": 4.5, "log_sum": 4.2, "l2r": 4.6, "word": 3.0, "slot": 1.3, "end": 0.2}
    return {**usual, "likely": likely(), "first_words": [first(share=0.1)], **changes}


@pytest.mark.parametrize(
    ("changes", "config", "wanted"),
    [
        ({}, FREE, ""),
        ({"targets": 0, "best": 0.0, "l2r": 0.0, "word": 0.0}, FREE, ""),
        ({"best": 4.604, "l2r": 4.6}, FREE, ""),  # rounding
        ({"best": 5.1, "l2r": 4.6}, FREE, 'cost 0.50 nats a target more than left to right: search.reference = "l2r"'),
        ({"best": 5.1}, SearchConfig(reference="r2l"), 'search.reference = "l2r"'),
        ({"best": 5.1}, SearchConfig(), "competes, and is taken where it is the better one (search.slot_weight = 3"),
        ({"word": 1.3, "slot": 3.0}, FREE, "words are 28.9 % of -log p, slots 66.7 %"),
        ({"word": 1.36}, FREE, ""),
        ({"word": 0.5}, SearchConfig(bootstrap_order="rnd"), ""),
        ({"first_words": [first()]}, FREE, "17.0 % of the orders begin with ',', 2.0 % of the targets do"),
        ({"first_words": [first("x", 0.6, frequent=False), first()]}, FREE, "begin with ','"),
        ({"first_words": [first(), first("and")]}, FREE, "begin with ','"),
        ({"first_words": [first(frequent=False)]}, FREE, ""),
        ({"first_words": [first(share=0.15)]}, FREE, ""),
        ({"first_words": [first("the", 0.5, 0.16)]}, FREE, ""),  # so in left to right
        ({"first_words": [first("the", 0.16, 0.14)]}, FREE, ""),  # nearly so
        ({"first_words": [first()], "targets": 40}, FREE, ""),  # seven
    ],
)
def test_signs(changes: Row, config: SearchConfig, wanted: str) -> None:
    flags = list(red_flags(figures(**changes), config))
    assert len(flags) == bool(wanted) and all(wanted in flag.text for flag in flags)
    assert [flag.harmless for flag in flags] == ["is taken where" in wanted] * len(flags)
    assert all("search." in flag.text for flag in flags)


@pytest.mark.parametrize(
    ("now", "before", "flagged"),
    [
        (figures(log_sum=4.6, likely=likely(0.02)), [], True),
        (figures(log_sum=4.6, likely=likely(0.02, 0.0)), [figures()], True),  # left to right was unlearnt since
        (figures(log_sum=4.6, likely=likely(0.02, 0.0)), [figures(likely=likely(0.0, 0.05))], False),
        (figures(log_sum=4.6, likely=likely(0.12)), [], False),
        (figures(log_sum=5.2, likely=likely(0.02)), [], False),  # it costs more: another flag
        (figures(likely=likely(0.0, 0.0)), [], False),
    ],
)
def test_flat(now: Row, before: list[Row], flagged: bool) -> None:
    flag = flat_flag(now, before)
    assert (flag is not None) == flagged
    if flag is not None:
        assert "2.0 % of the targets have p > 0.5" in flag.text and "had 23.0 %" in flag.text


class TestWatch:
    BAD = figures(best=5.1)

    @pytest.fixture
    def said(self, capsys: pytest.CaptureFixture[str]) -> Any:
        return lambda: capsys.readouterr().err.splitlines()

    def watch(self, rows: dict[int, Row], config: SearchConfig = FREE) -> HealthWatch:
        watch = HealthWatch(config, bootstrap_updates=100)
        for step, row in rows.items():
            watch.add(step, {"loss": 1.0, "search": row})
        return watch

    def test_not_while_bootstrapping(self, said: Any) -> None:
        self.watch({50: self.BAD, 100: self.BAD})
        assert said() == []

    def test_once_and_again_when_it_comes_back(self, said: Any) -> None:
        watch = self.watch({101: self.BAD, 102: self.BAD})
        (line,) = said()
        assert line.startswith("warning: the best orders found cost 0.50 nats")
        watch.add(103, {"search": figures()})
        assert said() == []
        watch.add(104, {"search": figures(best=5.1, word=1.0)})
        assert [line.split()[1] for line in said()] == ["the", "words"]

    def test_what_the_settings_deal_with_is_a_note(self, said: Any) -> None:
        self.watch({101: self.BAD}, SearchConfig())
        assert said()[0].startswith("note: ")

    def test_a_resumed_run_knows_what_was_said(self, said: Any) -> None:
        likely_once = figures(likely=likely(0.2, 0.4))
        watch = HealthWatch(FREE, bootstrap_updates=100)
        watch.restore([{"step": 100, "search": likely_once}, {"step": 101, "search": self.BAD}, {"step": 102}])
        watch.add(103, {"search": figures(best=5.1, log_sum=4.6, likely=likely(0.1, 0.0))})
        (line,) = said()
        assert "left to right had 40.0 %" in line
        watch.add(104, {"loss": 1.0})
        assert said() == []


def test_the_most_frequent_types() -> None:
    names = tuple(f"w{i}" for i in range(250))
    assert frequent_types(Vocabulary(names, (1,) * 250)) == {"w0", "w1", "w2"}
    assert frequent_types(Vocabulary(("a", "b"), (2, 1))) == {"a"}
    assert frequent_types(Vocabulary((), ())) == frozenset()
