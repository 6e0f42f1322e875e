"""The files under recipes/ and the page that says where their corpora come from: what they promise about each other."""

import fnmatch
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from indigo_cli.engine.prepare_settings import resolve_settings
from indigo_cli.orders import ORDERS
from indigo_cli.recipe import Recipe, load_recipe

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "recipes"
RECIPES = sorted(FOLDER.rglob("*.toml"))
PAGE = (ROOT / "data" / "README.md").read_text("utf-8")
PAPER_SIZE = [FOLDER / f"translation/{name}_indigo.toml" for name in ("wmt16_ro_en", "wmt18_en_tr", "kftt_en_ja")]


def name_of(path: Path) -> str:
    return str(path.relative_to(FOLDER))


def files_of(recipe: Recipe) -> list[Path]:
    return [
        Path(file)
        for split in recipe.data.splits.values()
        for file in [*split.source, *split.target, *(file for side in split.references for file in side)]
    ]


def section_of(corpus: str) -> str:
    """Return the part of the page under the heading of a corpus."""
    found = re.search(rf"^## {re.escape(corpus)}\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert found, f"data/README.md has no section {corpus}"
    return found[1]


def test_no_file_under_recipes_is_anything_but_a_recipe_or_its_page() -> None:
    others = [path for path in FOLDER.rglob("*") if path.is_file() and path.suffix != ".toml"]
    assert others == [FOLDER / "ablations" / "README.md"]


def test_recipes_that_share_a_name_share_a_corpus_and_nothing_else() -> None:
    """Corpora stand in `runs/NAME/corpus`, runs in `runs/NAME/ORDER`."""
    first: dict[str, Recipe] = {}
    runs: set[tuple[str, str]] = set()
    for recipe in map(load_recipe, RECIPES):
        other = first.setdefault(recipe.name, recipe)
        assert (recipe.data, recipe.preprocess) == (other.data, other.preprocess), recipe.name
        runs.add((recipe.name, recipe.order.name))
    assert len(runs) == len(RECIPES)


@pytest.mark.parametrize("path", RECIPES, ids=name_of)
def test_a_recipe_loads_in_silence(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = load_recipe(path)
    assert capsys.readouterr().err == ""
    _, _, notes = resolve_settings(recipe.data, recipe.preprocess)
    if recipe.data.target_lang == "tr":  # what the Perl script does, too; the recipe says it
        notes = [note for note in notes if "abbreviation" not in note]
    assert notes == []


@pytest.mark.parametrize("path", RECIPES, ids=name_of)
def test_the_page_describes_every_corpus_of_a_recipe_and_names_the_recipe(path: Path) -> None:
    corpora = {file.relative_to(ROOT / "data").parts[0] for file in files_of(load_recipe(path))}
    for corpus in corpora:
        (row,) = re.findall(rf"^\| (?:{corpus}|\[{corpus}\]\(#{corpus}\)) \|.*\|$", PAGE, flags=re.MULTILINE)
        named = re.findall(r"`([^`]+)`", row.split(" | ")[-1])
        assert any(fnmatch.fnmatch(name_of(path), pattern) for pattern in named), named
        assert section_of(corpus)


@pytest.mark.parametrize("path", [path for path in RECIPES if path.parent.name != "smoke"], ids=name_of)
def test_the_commands_of_the_page_make_every_file_of_a_recipe(path: Path) -> None:
    for file in files_of(load_recipe(path)):
        commands = re.findall(r"^```sh\n(.*?)^```$", section_of(file.parent.name), flags=re.DOTALL | re.MULTILINE)
        (block,) = commands
        assert f"mkdir -p data/{file.parent.name}\n" in block
        assert any(fnmatch.fnmatch(file.name, pattern) for pattern in made_by(block, file.parent.name)), file


def made_by(block: str, corpus: str) -> list[str]:
    """Return patterns of the files that commands write into the folder of a corpus."""
    written = re.findall(rf"(?:> |-o |cp .*)data/{corpus}/(\S*)$", block, flags=re.MULTILINE)
    copied = [
        source.rpartition("/")[2] for source in re.findall(rf"cp (\S+) data/{corpus}/$", block, flags=re.MULTILINE)
    ]
    return [re.sub(r"\$\{.*?\}|\$\w+", "*", name) for name in [*written, *copied] if name]


def test_the_commands_of_the_page_are_shell() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) > 5
    script = "".join(f"(\n{block})\n" for block in blocks)
    checked = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_links_of_the_page_lead_to_its_headings() -> None:
    anchors = {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^## (.*)$", PAGE, flags=re.MULTILINE)
    }
    assert {*re.findall(r"\]\(#([\w-]+)\)", PAGE)} <= anchors


@pytest.mark.parametrize("path", PAPER_SIZE, ids=name_of)
def test_recipes_of_paper_size_have_the_numbers_of_the_paper(path: Path) -> None:
    """Gu, Liu and Cho 2019, section 5, "Preprocessing" and "Models"."""
    recipe = load_recipe(path)
    model, train = recipe.model, recipe.train
    assert (recipe.preprocess.vocabulary, recipe.preprocess.merges, recipe.preprocess.joint) == ("bpe", 32000, True)
    assert (model.model_dim, model.ff_dim, model.num_heads, model.dropout) == (512, 2048, 8, 0.1)
    assert (model.encoder_layers, model.decoder_layers) == (6, 6)
    assert model.share_embeddings == (recipe.data.target_lang != "ja")
    assert (train.learning_rate, train.warmup_steps) == (5e-4, 4000)


@pytest.mark.parametrize("path", PAPER_SIZE, ids=name_of)
def test_recipes_of_paper_size_take_every_order_and_the_baseline(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = load_recipe(path)
    for order in ORDERS:
        assert replace(load_recipe(path, [f"order.name={order}"]), order=first.order) == first
    baseline = load_recipe(path, ["model.system=transformer"])
    assert replace(baseline, model=first.model) == first
    assert baseline.model.model_dim == first.model.model_dim
    assert capsys.readouterr().err == ""


def test_the_two_systems_of_multi30k_have_equal_recipes() -> None:
    indigo, baseline = (
        load_recipe(FOLDER / f"translation/multi30k_{name}_l2r.toml") for name in ("indigo", "transformer")
    )
    assert replace(baseline, name=indigo.name, model=indigo.model) == indigo
    for size in ("model_dim", "ff_dim", "num_heads", "encoder_layers", "decoder_layers", "dropout", "share_embeddings"):
        assert getattr(baseline.model, size) == getattr(indigo.model, size)


def test_recipes_of_the_insertion_transformer_differ_in_one_thing_and_have_the_sizes_of_the_baseline() -> None:
    kept, relative, absolute, distilled = (
        load_recipe(FOLDER / f"translation/multi30k_insertion_{name}.toml")
        for name in ("fractional", "relative", "absolute", "distilled")
    )
    for other in (relative, absolute):
        same = replace(other.model, positions=kept.model.positions)
        assert replace(other, name=kept.name, model=same) == kept
    train = replace(kept.data.splits["train"], target=distilled.data.splits["train"].target)
    data = replace(kept.data, splits={**kept.data.splits, "train": train})
    assert replace(distilled, name=kept.name) == replace(kept, data=data)
    baseline = load_recipe(FOLDER / "translation/multi30k_transformer_l2r.toml")
    limits = replace(
        kept.train, max_cpu_minutes=baseline.train.max_cpu_minutes, keep_cpu_minutes=baseline.train.keep_cpu_minutes
    )
    assert replace(kept, name=baseline.name, order=baseline.order, model=baseline.model, train=limits) == baseline
    for size in ("model_dim", "ff_dim", "num_heads", "encoder_layers", "decoder_layers", "dropout", "share_embeddings"):
        assert getattr(kept.model, size) == getattr(baseline.model, size)


@pytest.mark.parametrize(
    ("corpus", "kinds"), [("debian_synopses", ("ldpe", "lrpe", "lrpe_pe")), ("reuters", ("ldpe",))]
)
def test_recipes_of_headlines_differ_in_their_positions_only(corpus: str, kinds: tuple[str, ...]) -> None:
    """And have the sizes of the translation baseline."""
    plain = load_recipe(FOLDER / f"summarization/{corpus}_transformer.toml")
    assert plain.evaluate.metrics == ["rouge1", "rouge2", "rougeL", "length"]
    assert plain.train.max_cpu_minutes == 20
    for kind in kinds:
        other = load_recipe(FOLDER / f"summarization/{corpus}_{kind}.toml")
        assert other.model == replace(plain.model, positions=kind.replace("_", "+"), length_unit="character")
        assert replace(other, name=plain.name, model=plain.model) == plain
    baseline = load_recipe(FOLDER / "translation/multi30k_transformer_l2r.toml")
    assert plain.model == baseline.model


@pytest.mark.parametrize(("kind", "control"), [("leninit", "leninit"), ("indigo", "ldpe"), ("insertion", "ldpe")])
def test_recipes_of_headlines_by_other_systems_differ_in_their_model_only(kind: str, control: str) -> None:
    plain, other = (load_recipe(FOLDER / f"summarization/debian_synopses_{name}.toml") for name in ("ldpe", kind))
    assert replace(other, name=plain.name, model=plain.model, order=plain.order) == plain
    assert other.order.name == ("blt" if kind == "insertion" else "l2r")
    assert (other.model.length_control, other.model.length_unit) == (control, "character")
    assert (other.model.model_dim, other.model.share_embeddings) == (plain.model.model_dim, True)
