"""A run folder alone is enough to compute, and one that was tampered with is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from indigo_cli.core.text import Codecs
from indigo_cli.core.vocab import Vocabulary
from indigo_cli.data.corpus import Corpus
from indigo_cli.engine.assign import OrderConfig
from indigo_cli.engine.checkpoint import open_checkpoint
from indigo_cli.engine.generator import Generator
from indigo_cli.engine.loaded_run import load_ensemble, load_run
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.run_folder import vocabulary_digests
from indigo_cli.engine.runtime import Runtime
from indigo_cli.errors import CheckpointError, DataError, IndigoError, RecipeError, UsageError
from tests.tiny import Tiny

CPU = torch.device("cpu")


@pytest.fixture
def run(tiny: Tiny, tmp_path: Path) -> Path:
    """A copy of the trained run far from its corpus, to be spoilt."""
    return Path(shutil.copytree(tiny.run, tmp_path / "run", symlinks=True))


def valid_loss(tiny: Tiny, system: torch.nn.Module) -> float:
    split = OrderedSplit(Corpus.open(tiny.corpus), "valid", OrderConfig(name="rnd"), seed=1, batch_tokens=64)
    with torch.no_grad():
        parts = [system(micro_batch.load()) for micro_batch in split.once()]
    total = sum(float(nats) for losses in parts for nats, _ in losses.parts.values())
    return total / float(sum(losses.weight for losses in parts))


def test_the_weights_are_those_that_were_trained(tiny: Tiny, run: Path) -> None:
    """The loss of the loaded model on `valid` is the one that training logged."""
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    logged = {row["step"]: row["loss"] for row in rows if row.get("split") == "valid"}
    for name in ("best", "last"):
        loaded = load_run(run, checkpoint=name, device=CPU)
        assert not loaded.system.training
        assert valid_loss(tiny, loaded.system) == pytest.approx(logged[loaded.checkpoint.facts["step"]], rel=1e-5)
    best = load_run(run, device=CPU).checkpoint.facts
    assert logged[best["step"]] == min(logged.values())


def test_overrides_and_header(run: Path) -> None:
    loaded = load_run(run, checkpoint="last", overrides=["decode.beam_size=7"], device=CPU)
    assert loaded.recipe.decode.beam_size == 7
    assert loaded.header() == {
        "run": "run",
        "checkpoint": "step-00000120",
        "system": "indigo",
        "source_lang": "en",
        "target_lang": "en",
        "vocabulary": loaded.codecs.target.vocabulary.digest,
    }
    with pytest.raises(RecipeError, match="beam_sise"):
        load_run(run, overrides=["decode.beam_sise=7"], device=CPU)


def swapped(vocabulary: Vocabulary) -> Vocabulary:
    """The same words, the first two in each other's place."""
    return replace(vocabulary, tokens=(*vocabulary.tokens[1::-1], *vocabulary.tokens[2:]))


def test_case_43_an_exchanged_vocabulary_file(run: Path) -> None:
    path = run / "assets" / "vocabulary.json"
    path.write_text(swapped(Vocabulary.from_json(path.read_text("utf-8"), where=str(path))).to_json(), "utf-8")
    with pytest.raises(IndigoError, match="does not belong"):
        load_run(run, device=CPU)


def test_case_43_all_assets_of_another_run(tiny: Tiny, run: Path) -> None:
    """Consistent in themselves, but another vocabulary of the same size: only the checkpoint can tell."""
    codecs = Corpus.open(tiny.corpus).codecs
    side = replace(codecs.target, vocabulary=swapped(codecs.target.vocabulary))
    replace(codecs, source=side, target=side).save(run / "assets")
    with pytest.raises(CheckpointError, match="vocabulary does not belong to this checkpoint"):
        load_run(run, device=CPU)


def test_another_recipe_than_the_one_of_the_weights(run: Path) -> None:
    path = run / "recipe.toml"
    path.write_text(path.read_text("utf-8").replace("ff_dim = 32", "ff_dim = 64"), "utf-8")
    with pytest.raises(CheckpointError, match="do not fit the recipe"):
        load_run(run, device=CPU)


def test_a_newer_run_and_a_newer_checkpoint_are_refused(run: Path) -> None:
    facts = open_checkpoint(run).folder / "checkpoint.json"
    facts.write_text(facts.read_text("utf-8").replace('"version": 1', '"version": 2'), "utf-8")
    with pytest.raises(CheckpointError, match="newer"):
        load_run(run, device=CPU)
    facts = run / "run.json"
    facts.write_text(facts.read_text("utf-8").replace('"version": 1', '"version": 2'), "utf-8")
    with pytest.raises(DataError, match="newer"):
        load_run(run, device=CPU)


def test_what_is_missing_is_named(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run folder"):
        load_run(tmp_path, device=CPU)
    with pytest.raises(CheckpointError, match="'nope'"):
        load_run(run, checkpoint="nope", device=CPU)
    (run / "assets" / "codecs.json").unlink()
    with pytest.raises(DataError) as caught:
        load_run(run, device=CPU)
    assert caught.value.where.endswith("codecs.json")


def test_an_ensemble_of_a_run_with_itself_is_the_run(tiny: Tiny, run: Path) -> None:
    lines = ["ant bee", "koi", "jay koi fox", "hen hen dog"]
    lists = []
    for runs in ([tiny.run], [tiny.run, run], [tiny.run, run, tiny.run]):
        loaded = load_ensemble(runs, device=CPU)
        generator = Generator(loaded, device=CPU, runtime=Runtime(), n_best=3)
        lists.append(generator.decode([generator.encode(i, line) for i, line in enumerate(lines)]))
        assert len(loaded.others) == len(runs) - 1
    for other in lists[1:]:
        for found, expected in zip(other, lists[0], strict=True):
            assert [output.text for output in found] == [output.text for output in expected]
            for one, two in zip(found, expected, strict=True):
                assert one.hypothesis.trace.order() == two.hypothesis.trace.order()
                assert one.hypothesis.score == pytest.approx(two.hypothesis.score, abs=1e-4)


def test_an_ensemble_is_named_in_the_header_and_takes_its_settings_from_the_first(tiny: Tiny, run: Path) -> None:
    path = run / "recipe.toml"
    path.write_text(path.read_text("utf-8").replace("beam_size = 4", "beam_size = 2"), "utf-8")
    loaded = load_ensemble([tiny.run, run], checkpoint="last", device=CPU)
    assert loaded.header() == {
        **load_run(tiny.run, checkpoint="last", device=CPU).header(),
        "ensemble": [{"run": "run", "checkpoint": "step-00000120"}],
    }
    assert loaded.recipe.decode.beam_size == 4
    assert load_ensemble([tiny.run], device=CPU).header() == load_run(tiny.run, device=CPU).header()


@pytest.fixture(scope="module")
def transformer(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of another kind on the same corpus."""
    run = tmp_path_factory.mktemp("transformer") / "run"
    tiny.train(run, "model.system=transformer", "order.name=l2r", "train.max_steps=3")
    return run


def test_an_ensemble_is_of_one_kind(tiny: Tiny, transformer: Path) -> None:
    with pytest.raises(UsageError, match="one kind of model") as caught:
        load_ensemble([tiny.run, transformer], device=CPU)
    assert caught.value.where == str(transformer)
    assert "indigo" in caught.value.fix


def test_a_model_that_shows_one_slot_is_not_averaged(tiny: Tiny, tmp_path: Path) -> None:
    """Members would show the words of different slots, so the mean of their words is that of no slot."""
    run = tmp_path / "position-first"
    tiny.train(run, "model.predict=position_first", "train.max_steps=3")
    assert load_ensemble([run], device=CPU).system.greedy_only
    for runs in ([tiny.run, run], [run, tiny.run], [run, run]):
        with pytest.raises(UsageError, match="cannot be averaged") as caught:
            load_ensemble(runs, device=CPU)
        assert caught.value.where == str(run)


def other_codecs(run: Path, codecs: Codecs) -> None:
    """Make a run one of other codecs, consistent in itself."""
    codecs.save(run / "assets")
    facts = open_checkpoint(run).folder / "checkpoint.json"
    content = json.loads(facts.read_text("utf-8"))
    content["vocabularies"] = vocabulary_digests(codecs)
    del content["digest"], content["sha256"]
    facts.write_text(json.dumps(content), "utf-8")
    forget_assets(run)


def forget_assets(run: Path) -> None:
    """Leave out of run.json what the assets were: as 0.1 wrote it."""
    content = json.loads((run / "run.json").read_text("utf-8"))
    del content["assets"]
    (run / "run.json").write_text(json.dumps(content), "utf-8")


def test_case_43_an_ensemble_of_other_vocabularies(tiny: Tiny, run: Path) -> None:
    codecs = Corpus.open(tiny.corpus).codecs
    side = replace(codecs.target, vocabulary=swapped(codecs.target.vocabulary))
    other_codecs(run, replace(codecs, source=side, target=side))
    load_run(run, device=CPU)
    with pytest.raises(CheckpointError) as caught:
        load_ensemble([tiny.run, run], device=CPU)
    assert "the vocabulary (source, target) does not belong to the ensemble" in str(caught.value)
    assert (caught.value.where, str(tiny.run) in str(caught.value)) == (str(run), True)
    assert "one corpus" in caught.value.fix


def test_an_ensemble_reads_text_in_one_way(tiny: Tiny, run: Path) -> None:
    codecs = Corpus.open(tiny.corpus).codecs
    other_codecs(run, replace(codecs, source=replace(codecs.source, lowercase=True)))
    with pytest.raises(UsageError, match="not tokenised as in") as caught:
        load_ensemble([tiny.run, run], device=CPU)
    assert caught.value.where == str(run)
