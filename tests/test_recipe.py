"""Recipes: what a good one becomes, and that every bad one says what is wrong, where, and how to mend it."""

from dataclasses import replace
from pathlib import Path

import pytest

from indigo_cli.engine.assess import EvaluateConfig
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.errors import DataError, RecipeError, UsageError
from indigo_cli.models import MODELS
from indigo_cli.recipe import LATER, NAMES, SECTIONS, dump_recipe, load_recipe
from tests.recipes import SMALLEST, faults_of, load


def test_the_smallest_recipe_has_a_default_for_everything_else(tmp_path: Path) -> None:
    recipe = load(tmp_path, SMALLEST)
    assert recipe.name == "my recipe"
    assert recipe.seed == 1
    assert recipe.system == "indigo"
    assert recipe.order.name == "l2r"
    assert recipe.train.batch_tokens == 4096
    assert recipe.search == SearchConfig()
    assert recipe.data.splits["train"].source == [str(tmp_path / "t.en")]


CONTRACT_RECIPE = """\
name = "multi30k-en-de"
seed = 1
[data]
task = "translation"
source_lang = "en"
target_lang = "de"
[data.splits]
train = { source = ["train.en.gz"], target = ["train.de.gz"] }
valid = { source = ["valid.en.gz"], target = ["valid.de.gz"] }
test  = { source = ["test_2016_flickr.en.gz"], target = ["test_2016_flickr.de.gz"], references = [["a"], ["b", "c"]] }
[preprocess]
tokenizer = "moses"
lowercase = false
vocabulary = "bpe"
merges = 8000
joint = true
max_length = 250
[order]
name = "l2r"
file = ""
[model]
system = "indigo"
model_dim = 256
ff_dim = 1024
num_heads = 4
encoder_layers = 3
decoder_layers = 3
dropout = 0.1
share_embeddings = true
source_positions = "auto"
positions = "auto"
length_unit = "character"
aca = false
[train]
batch_tokens = 4096
accumulate = 1
max_steps = 20000
learning_rate = 5e-4
warmup_steps = 4000
label_smoothing = 0.1
clip_norm = 1.0
log_every = 50
validate_every = 500
save_every = 500
keep = 3
given_rate = 0.0
[search]
beam_size = 8
dropout = 0.1
refresh = 1
train_on = "best"
reference = "l2r"
slot_weight = 1.0
bootstrap_order = "l2r"
bootstrap_steps = 0.5
[decode]
beam_size = 5
length_penalty = 1.0
merge_strings = true
max_length_ratio = 3.0
max_length = 250
canvas_order = "l2r"
batch_tokens = 4096
[evaluate]
metrics = ["bleu", "chrf"]
tokenize = "auto"
"""


def test_every_key_of_the_contract_is_known_and_has_its_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = load(tmp_path, CONTRACT_RECIPE)
    notes = capsys.readouterr().err.splitlines()
    assert all(line.startswith("note: ") and "has no effect" in line for line in notes)
    assert not any("[search]" in line for line in notes)  # `search-orders` and files of orders use it: train says so
    bare = load(tmp_path, SMALLEST)
    assert replace(full, name="", data=bare.data) == replace(bare, name="")


def test_a_dumped_recipe_loads_back_equal_and_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = load(tmp_path, CONTRACT_RECIPE, "train.learning_rate=1e-20", 'name="ă ü"', "model.dropout=0.25")
    capsys.readouterr()
    (tmp_path / "elsewhere").mkdir()
    text = dump_recipe(first)
    second = load(tmp_path / "elsewhere", text)
    assert second == first
    assert dump_recipe(second) == text
    assert capsys.readouterr().err == ""
    assert second.data.splits["test"].references == [[str(tmp_path / "a")], [str(tmp_path / x) for x in "bc"]]


@pytest.mark.parametrize("system", sorted(MODELS))
def test_every_system_can_be_chosen_and_dumped(tmp_path: Path, system: str) -> None:
    recipe = load(tmp_path, SMALLEST, f"model.system={system}")
    assert recipe.system == system
    assert load(tmp_path, dump_recipe(recipe)) == recipe


def test_paths_are_relative_to_the_recipe_and_may_lead_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "recipes" / "deep"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder.parent)
    (folder / "r.toml").write_text(
        SMALLEST.replace('"t.en"', '"../../data/my t.en.gz", "/absolute/t.en"')
        + '[order]\nname = "syn"\nparse = { train = "-x.conllu" }\nparser = "models/mine"\n'
    )
    recipe = load_recipe(Path("deep/r.toml"))
    assert recipe.data.splits["train"].source == [str(tmp_path / "data/my t.en.gz"), "/absolute/t.en"]
    assert recipe.order.parse == {"train": str(folder / "-x.conllu")}
    assert recipe.order.parser == str(folder / "models" / "mine")
    assert recipe.order.file == ""


def test_windows_line_ends_and_a_byte_order_mark_are_tolerated(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALLEST.replace("\n", "\r\n").encode())
    assert load_recipe(path).data == load(tmp_path, SMALLEST).data


def test_all_faults_are_reported_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    text = """\
name = "a/b"
beam_size = 3
[data]
task = "translatoin"
[data.splits]
train = { source = ["a", 3], target = [] }
"te st" = { source = ["a"], target = ["b"] }
[order]
name = "l2rr"
nmae = "l2r"
[evaluate]
metrics = ["bleu", "bleuu", "meteor"]
[search]
train_on = "bset"
[model]
system = "lstn"
modl_dim = 3
[trian]
x = 1
"""
    faults = faults_of(tmp_path, text, "seed=-1")
    path = tmp_path / "my recipe.toml"
    said = [(fault.where.removeprefix(f"{path}:"), fault.what.split(",")[0]) for fault in faults]
    assert said == [
        ("1", "name must do as the name of a folder (runs/NAME)"),
        ("2", "unknown key beam_size"),
        ("4", "data.task: there is no 'translatoin'"),
        ("5", "data.splits.valid is missing"),
        ("6", "data.splits.train.source[1] must be text in quotes"),
        ("6", "data.splits.train.target names no file"),
        ("7", "a split cannot be called 'te st': it becomes part of file names"),
        ("9", "order.name: there is no 'l2rr'"),
        ("10", "unknown key order.nmae"),
        ("12", "evaluate.metrics: there is no 'bleuu'"),
        ("12", 'evaluate.metrics = "meteor" is not in this version'),
        ("14", 'search.train_on must be one of "best"'),
        ("16", "model.system: there is no 'lstn'"),
        ("17", "unknown key model.modl_dim"),
        ("18", "unknown key trian"),
        ("--set seed=-1", "seed must be greater than or equal to 0"),
    ]
    rendered = RecipeError(faults).render()
    for hint in (
        "hint: `beam_size` belongs to [search] or [decode]",
        "hint: did you mean `translation`?",
        "hint: did you mean `name`?",
        "hint: did you mean `model_dim`?",
        "hint: did you mean `train`?",
        "hint: did you mean `best`?",
    ):
        assert hint in rendered


@pytest.mark.parametrize(("where", "value"), [(key, value) for key, values in LATER.items() for value in values])
def test_values_of_later_versions_are_named_as_such(tmp_path: Path, where: str, value: str) -> None:
    shown = f'["{value}"]' if where == "evaluate.metrics" else f'"{value}"'
    (fault,) = faults_of(tmp_path, SMALLEST, f"{where}={shown}")
    assert fault.what == f'{where} = "{value}" is not in this version'
    assert fault.fix.startswith("available: ")


@pytest.mark.parametrize(("section", "name"), sorted(NAMES))
def test_every_name_of_a_table_is_taken_and_a_slip_finds_it(tmp_path: Path, section: str, name: str) -> None:
    for known in NAMES[section, name]:
        slip = f"{known}x" if name != "metrics" else f'["{known}x"]'
        (fault,) = faults_of(tmp_path, SMALLEST, f"{section}.{name}={slip}")
        assert f"`{known}`" in fault.fix


def test_a_task_brings_its_metrics_where_none_are_named(tmp_path: Path) -> None:
    headlines = ["rouge1", "rouge2", "rougeL", "length"]
    assert load(tmp_path, SMALLEST).evaluate == EvaluateConfig()
    assert load(tmp_path, SMALLEST, "data.task=summarization").evaluate == EvaluateConfig(metrics=headlines)
    recipe = load(tmp_path, SMALLEST, "data.task=summarization", "evaluate.rouge_bytes=75")
    assert recipe.evaluate == EvaluateConfig(metrics=headlines, rouge_bytes=75)
    assert load(tmp_path, SMALLEST, "data.task=summarization", 'evaluate.metrics=["bleu"]').evaluate.metrics == ["bleu"]


def test_unknown_keys_on_the_command_line_are_refused_too(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, SMALLEST, "train.learning_rte=0.001")
    assert fault.render().splitlines() == [
        "error: unknown key train.learning_rte",
        "at: --set train.learning_rte=0.001",
        "hint: did you mean `learning_rate`?",
    ]


def test_an_override_mends_a_fault_of_the_file(tmp_path: Path) -> None:
    text = SMALLEST + "[train]\nmax_steps = 'many'\n"
    assert load(tmp_path, text, "train.max_steps=3").train.max_steps == 3
    (fault,) = faults_of(tmp_path, text, "train.max_steps=few")
    assert (fault.what, fault.where) == (
        'train.max_steps must be a whole number, got "few"',
        "--set train.max_steps=few",
    )


def test_an_overridden_table_forgets_the_lines_of_the_file(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, SMALLEST, "data.splits.train={ source = ['a'], target = [3] }")
    assert fault.where.startswith("--set data.splits.train=")


@pytest.mark.parametrize("section", [*SECTIONS, "model"])
@pytest.mark.parametrize("value", ["3", "[1]", '"x"', "2020-01-01"])
def test_a_section_that_is_no_table_is_a_fault(tmp_path: Path, section: str, value: str) -> None:
    text = f"{section} = {value}\n" + (SMALLEST if section != "data" else "")
    assert any(fault.what.startswith(f"{section} must be a table") for fault in faults_of(tmp_path, text))


def test_word_ordering_needs_no_source_and_says_that_it_ignores_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '[data]\ntask = "word_ordering"\n[data.splits]\ntrain = { target = ["t"] }\nvalid = { target = ["v"] }\n'
    assert load(tmp_path, text).data.splits["train"].source == []
    assert capsys.readouterr().err == ""
    recipe = load(tmp_path, text, 'data.splits.train.source=["s"]')
    assert 'data.splits.train.source has no effect with data.task = "word_ordering"' in capsys.readouterr().err
    assert load(tmp_path, dump_recipe(recipe)) == recipe
    assert capsys.readouterr().err == ""


def test_a_key_of_another_system_is_noted_not_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load(tmp_path, SMALLEST, "model.system=transformer", "model.aca=true", "model.length_unit=token")
    assert capsys.readouterr().err.splitlines() == ['note: model.aca has no effect with model.system = "transformer"']


def test_settings_of_decoding_without_effect_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load(tmp_path, SMALLEST, "decode.top_p=0.9", "decode.restrict_to_bag=true")
    assert capsys.readouterr().err.splitlines() == [
        'note: decode.restrict_to_bag has no effect with data.task = "translation"',
        'note: decode.top_p has no effect with decode.search = "beam"',
    ]
    load(tmp_path, SMALLEST, "decode.top_p=0.9", "decode.search=sample", "decode.canvas_order=best")
    assert capsys.readouterr().err == ""
    load(tmp_path, SMALLEST, "decode.rerank_stemmed=true", "decode.rerank_from=5")
    assert capsys.readouterr().err.splitlines() == [
        'note: decode.rerank_from has no effect with decode.rerank = "none"',
        'note: decode.rerank_stemmed has no effect with decode.rerank = "none"',
    ]
    load(tmp_path, SMALLEST, "decode.rerank=source_words", "decode.search=sample")
    assert capsys.readouterr().err == 'note: decode.rerank has no effect with decode.search = "sample"\n'
    load(tmp_path, SMALLEST, "decode.rerank=source_words", "decode.rerank_from=5")
    assert capsys.readouterr().err == ""
    load(tmp_path, SMALLEST, "model.system=insertion", "decode.canvas_order=best")
    assert capsys.readouterr().err == 'note: decode.canvas_order has no effect with model.system = "insertion"\n'


def test_files_that_are_no_recipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such recipe"):
        load_recipe(tmp_path / "missing.toml")
    with pytest.raises(UsageError, match="cannot be read"):
        load_recipe(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        load_recipe("a\0b")
    (tmp_path / "latin.toml").write_bytes(b'name = "x"\n# gr\xfcn\n')
    with pytest.raises(DataError) as caught:
        load_recipe(tmp_path / "latin.toml")
    assert caught.value.where == f"{tmp_path / 'latin.toml'}:2"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\u0000b", "a\\nb", "x" * 101])
def test_names_that_no_folder_can_have_are_refused(tmp_path: Path, name: str) -> None:
    assert len(faults_of(tmp_path, f'name = "{name}"\n' + SMALLEST)) == 1


def recipes_of_the_repository() -> list[Path]:
    root = Path(__file__).resolve().parent.parent
    return sorted([*root.glob("recipes/**/*.toml"), *root.glob("indigo_cli/**/*.toml")])


@pytest.mark.parametrize("path", recipes_of_the_repository(), ids=lambda path: path.name)
def test_recipes_of_the_repository_load_without_a_note(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = load_recipe(path)
    assert capsys.readouterr().err == ""
    for split in recipe.data.splits.values():
        for file in [*split.source, *split.target]:
            assert "/recipes/" not in file
