"""n-best lists and samples: full, without repeats, the same in any company, and as exact as the model."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from indigo_cli.core.vocab import NUM_SPECIALS
from indigo_cli.data.collate import collate, collate_source
from indigo_cli.decoding.search import Sentence, search_batch
from indigo_cli.engine import generator as module
from indigo_cli.engine import searcher
from indigo_cli.engine.generator import Generator, block_size
from indigo_cli.engine.lines import EncodedLine
from indigo_cli.engine.loaded_run import load_run
from indigo_cli.engine.nbest import LARGEST, NOTHING, Output, num_finished
from indigo_cli.engine.runtime import Runtime
from indigo_cli.errors import UsageError
from tests.tiny import WORDS, Tiny

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
TEXT = [" ".join(words) for words in product(WORDS[::3], WORDS[1::5], WORDS[4:6])] + ["jay koi lærk gnu fox eel", "ant"]


def make(run: Path, *overrides: str, n_best: int = 1, seed: int | None = None) -> Generator:
    loaded = load_run(run, overrides=overrides, device=CPU)
    return Generator(loaded, device=CPU, runtime=Runtime(), n_best=n_best, seed=seed)


def lists(generator: Generator, lines: Sequence[str] = TEXT, first: int = 0) -> list[list[Output]]:
    return generator.decode([generator.encode(first + i, line) for i, line in enumerate(lines)])


def texts(found: Sequence[Output]) -> list[str]:
    return [output.text for output in found]


@pytest.mark.parametrize("options", [[], ["decode.merge_strings=false"], ["decode.search=joint"]])
def test_lists_of_a_model_of_random_orders_are_full_and_never_repeat(tiny: Tiny, options: list[str]) -> None:
    """Many orders spell one string: the plain beam of 6 does not hold 4 strings of every line, the wider ones do."""
    generator = make(tiny.run, "decode.beam_size=6", *options, n_best=4)
    plain = make(tiny.run, "decode.beam_size=6", *options, n_best=4)
    plain.wider = []
    found = lists(generator)
    full = [num_finished(outputs) == 4 for outputs in found]
    assert sum(full) >= 0.9 * len(full)
    assert any(num_finished(outputs) < 4 for outputs in lists(plain))
    for outputs in found:
        assert len(set(texts(outputs))) == len(outputs) <= 4
        scores = [output.hypothesis.score for output in outputs if output.hypothesis.finished]
        assert scores == sorted(scores, reverse=True)
    for before, after in zip(lists(plain), found, strict=True):
        for rank, output in enumerate(before):
            if output.hypothesis.finished:  # what was found first is found still, or something better took its place
                assert after[rank].hypothesis.score >= output.hypothesis.score - 1e-6


def test_only_lists_that_are_not_full_are_searched_again(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, bool, list[int]]] = []

    def spy(decoder: Any, source: Any, config: Any, sentences: Sequence[Sentence], **options: Any) -> Any:
        calls.append((options["width"], options["distinct"], [sentence.line for sentence in sentences]))
        return search_batch(decoder, source, config, sentences, **options)

    generator = make(tiny.run, "decode.beam_size=6", "decode.batch_tokens=100000", n_best=4)
    plain = make(tiny.run, "decode.beam_size=6", n_best=4)
    plain.wider = []
    short = {i for i, outputs in enumerate(lists(plain)) if num_finished(outputs) < 4}
    monkeypatch.setattr(searcher, "search_batch", spy)
    lists(generator)
    assert calls[0][:2] == (6, False) and len(calls[0][2]) == len(TEXT)
    assert calls[1][:2] == (6, True) and set(calls[1][2]) == short
    for (narrow, _, before), (wide, distinct, after) in pairwise(calls[1:]):
        assert distinct and wide == 2 * narrow and set(after) <= set(before)
    calls.clear()
    lists(make(tiny.run, "decode.beam_size=6", "decode.batch_tokens=100000"))
    assert [call[:2] for call in calls] == [(6, False)]  # the best alone: one search, as ever


def test_a_beam_that_was_not_filled_is_widened_all_the_same(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead ends of a rule empty a narrow beam of all else; only the widest one here finds a second string."""

    def narrow(decoder: Any, source: Any, config: Any, sentences: Sequence[Sentence], **options: Any) -> Any:
        found = search_batch(decoder, source, config, sentences, **options)
        return found if options["width"] == 8 else [hypotheses[:1] for hypotheses in found]

    monkeypatch.setattr(searcher, "search_batch", narrow)
    found = lists(make(tiny.run, "decode.beam_size=2", n_best=2), ["jay koi", "ant"])
    assert [num_finished(outputs) for outputs in found] == [2, 2]


def test_a_list_that_takes_everything_is_the_brute_force(tiny: Tiny) -> None:
    """All strings of at most one word, with the probability that the training entry gives them."""
    generator = make(tiny.run, "decode.beam_size=1", "decode.max_length=2", "decode.length_penalty=0", n_best=100)
    vocabulary = generator.run.codecs.target.vocabulary
    line = "koi ant bee"
    strings = [[], *([token] for token in range(NUM_SPECIALS, len(vocabulary)))]
    ids = generator.run.codecs.encode_source(line)
    with torch.no_grad():
        expected = {}
        for string in strings:
            parts = generator.run.system.log_probs(collate(["x"], [ids], [string], [[range(len(string))]]))
            expected[" ".join(vocabulary.decode(string))] = float(parts.words.sum() + parts.slots.sum())
    (found,) = lists(generator, [line])
    finished = [output for output in found if output.hypothesis.finished]
    assert len(finished) == len(strings) == 1 + len(WORDS)
    assert texts(finished) == sorted(expected, key=lambda text: -expected[text])
    for output in finished:
        assert output.hypothesis.trace.log_prob == pytest.approx(expected[output.text], abs=1e-4)
        assert output.hypothesis.score == pytest.approx(expected[output.text], abs=1e-4)
    assert len(found) == 100 and len(set(texts(found))) == 100


def test_added_probabilities_are_those_of_all_traces_in_the_beam(tiny: Tiny) -> None:
    """The beam merged by hand."""
    alpha = 0.7
    generator = make(tiny.run, "decode.beam_size=6", f"decode.length_penalty={alpha}", n_best=6)
    generator.wider = []
    codecs = generator.run.codecs
    merged_any = False
    for line, found in zip(TEXT, lists(generator), strict=True):
        ids = codecs.encode_source(line)
        sentence = Sentence(0, 0, min(12, 3 * len(ids)))
        source = collate_source([ids])
        (beam,) = search_batch(generator.run.system, source, generator.config, [sentence], width=6, seed=1)
        groups: dict[str, list[float]] = {}
        for hypothesis in beam:
            if hypothesis.finished:
                text = codecs.target.text_of_ids(hypothesis.trace.tokens())
                groups.setdefault(text, []).append(hypothesis.trace.log_prob)
        merged_any |= len(groups) < sum(map(len, groups.values()))
        finished = [output for output in found if output.hypothesis.finished]
        assert set(texts(finished)) == set(groups)
        for output in finished:
            together = math.log(sum(map(math.exp, groups[output.text])))
            assert output.hypothesis.trace.log_prob == pytest.approx(max(groups[output.text]), abs=1e-4)
            assert output.hypothesis.merged_log_prob == pytest.approx(together, abs=1e-4)
            length = len(output.text.split()) + 1
            assert output.hypothesis.score == pytest.approx(together / length**alpha, abs=1e-4)
    assert merged_any


@pytest.mark.parametrize("options", [[], ["decode.merge_strings=false"], ["decode.search=joint"]])
def test_lists_do_not_depend_on_company(tiny: Tiny, options: list[str]) -> None:
    together = lists(make(tiny.run, *options, n_best=7), TEXT[:12])
    alone = make(tiny.run, *options, "decode.batch_tokens=1", n_best=7)
    for line, found in zip(TEXT, together, strict=False):
        (other,) = lists(alone, [line])
        assert texts(found) == texts(other)
        for one, two in zip(found, other, strict=True):
            assert one.hypothesis.trace.order() == two.hypothesis.trace.order()
            assert one.hypothesis.score == pytest.approx(two.hypothesis.score, abs=1e-4)


def test_raw_lines_are_decoded_in_the_blocks_of_a_file(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = make(tiny.run, n_best=2)
    expected = lists(generator)
    sizes: list[int] = []
    decode = generator.decode

    def counting(block: Sequence[EncodedLine]) -> list[list[Output]]:
        sizes.append(len(block))
        return decode(block)

    monkeypatch.setattr(generator, "decode", counting)
    monkeypatch.setattr(module, "BLOCK_LINES", 12)
    found = list(generator.decode_lines(iter(TEXT)))
    assert [number for number, _ in found] == list(range(len(TEXT)))
    assert [texts(outputs) for _, outputs in found] == [texts(outputs) for outputs in expected]
    assert sizes == [6, 6, 6, 6, 2]  # lists of two take twice the room
    assert block_size(1) == 12 and block_size(100) == 1


def test_samples_come_in_the_order_of_their_draws(tiny: Tiny) -> None:
    sample = "decode.search=sample"
    five = lists(make(tiny.run, sample, n_best=5))
    three = lists(make(tiny.run, sample, "decode.beam_size=2", n_best=3))
    assert [texts(found)[:3] for found in five] == [texts(found) for found in three]
    assert all(len(found) == 5 for found in five)
    for found in five:
        assert all(output.hypothesis.merged_log_prob is None for output in found)
    assert len({tuple(texts(found)) for found in five}) > 1
    assert any([o.hypothesis.score for o in found] != sorted(o.hypothesis.score for o in found)[::-1] for found in five)
    recipe = load_run(tiny.run, device=CPU).recipe.seed
    same = lists(make(tiny.run, sample, n_best=3, seed=recipe))
    other = lists(make(tiny.run, sample, n_best=3, seed=recipe + 1))
    assert [texts(found) for found in same] == [texts(found) for found in three]
    assert [texts(found) for found in other] != [texts(found) for found in three]
    shifted = lists(make(tiny.run, sample, n_best=3), TEXT[4:], first=4)
    assert [texts(found) for found in shifted] == [texts(found) for found in three[4:]]


def test_repeated_samples_are_kept(tiny: Tiny) -> None:
    """300 draws: how often a string comes is how probable it is."""
    generator = make(tiny.run, "decode.search=sample", "decode.max_length=2", "decode.ban_unk=false", n_best=300)
    (found,) = lists(generator, ["koi ant"])
    counts = Counter(texts(found))
    assert len(found) == 300 > len(counts)
    (best, count), *_ = counts.most_common(1)
    exact = make(tiny.run, "decode.max_length=2", "decode.length_penalty=0", "decode.ban_unk=false", n_best=200)
    log_prob = {o.text: o.hypothesis.merged_log_prob for o in lists(exact, ["koi ant"])[0]}[best]
    assert log_prob is not None
    expected = math.exp(log_prob)
    assert count / 300 == pytest.approx(expected, abs=4.5 * math.sqrt(expected * (1 - expected) / 300))


def test_a_line_without_tokens_gives_nothing_once(tiny: Tiny) -> None:
    for options in ([], ["decode.search=sample"]):
        found = lists(make(tiny.run, *options, n_best=3), ["", "ant", " \u3000"])
        assert [len(outputs) for outputs in found] == [1, 3, 1]
        assert found[0] == found[2] == [NOTHING]


@pytest.mark.parametrize("n_best", [-1, 0, LARGEST + 1])
def test_lists_have_a_length(tiny: Tiny, n_best: int) -> None:
    with pytest.raises(UsageError) as caught:
        make(tiny.run, n_best=n_best)
    assert caught.value.where == "--n-best" and str(LARGEST) in caught.value.fix


@pytest.mark.parametrize(
    ("overrides", "n_best", "allowed"),
    [
        (["decode.beam_size=1"], 1, True),
        (["decode.beam_size=2"], 1, False),
        (["decode.beam_size=1"], 2, False),
        (["decode.beam_size=1", "decode.search=joint"], 1, False),
        (["decode.beam_size=1", "decode.search=sample"], 1, False),
    ],
)
def test_some_systems_are_decoded_greedily_only(tiny: Tiny, overrides: list[str], n_best: int, allowed: bool) -> None:
    loaded = replace(load_run(tiny.run, overrides=overrides, device=CPU), system=SimpleNamespace(greedy_only=True))
    if allowed:
        Generator(loaded, device=CPU, runtime=Runtime(), n_best=n_best)
        return
    with pytest.raises(UsageError) as caught:
        Generator(loaded, device=CPU, runtime=Runtime(), n_best=n_best)
    assert "--beam 1" in caught.value.fix
