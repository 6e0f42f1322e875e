"""The recipes of English-Vietnamese: equal where they are compared, and the paper's numbers where it has some."""

from dataclasses import replace
from pathlib import Path

from indigo_cli.recipe import load_recipe

FOLDER = Path(__file__).resolve().parent.parent / "recipes" / "translation"


def test_the_four_systems_on_news_differ_in_the_model_only() -> None:
    lstm, aca, transformer, indigo = (
        load_recipe(FOLDER / f"evbnews_en_vi_{name}.toml") for name in ("lstm", "lstm_aca", "transformer", "indigo")
    )
    for other in (aca, transformer, indigo):
        assert replace(other, name=lstm.name, model=lstm.model) == lstm
    assert replace(aca.model, aca=False) == lstm.model and aca.model.aca
    assert {recipe.model.model_dim for recipe in (lstm, aca, transformer, indigo)} == {256}
    assert (transformer.system, indigo.system) == ("transformer", "indigo")
    assert lstm.train.max_cpu_minutes == 40


def test_the_recipe_of_the_paper_has_its_numbers() -> None:
    """Lin et al. 2018, PAPERS.md C."""
    recipe = load_recipe(FOLDER / "iwslt15_en_vi_lstm_aca.toml")
    model, train, decode = recipe.model, recipe.train, recipe.decode
    assert (model.model_dim, model.encoder_layers, model.decoder_layers) == (512, 3, 2)
    assert (model.dropout, model.aca) == (0.2, True)
    assert (train.learning_rate, train.clip_norm, train.label_smoothing) == (1e-3, 10.0, 0.0)
    assert (decode.beam_size, decode.length_penalty, decode.length_formula) == (10, 1.0, "power")
