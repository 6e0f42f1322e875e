"""Every reader of files: which valid files it starts from, how they are damaged, and what reading them whole means."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

from indigo_cli.core.vocab import Vocabulary
from indigo_cli.data.conllu import UNKNOWN
from tests.fuzz.mutate import damaged_bytes, damaged_json, damaged_lines, damaged_toml_line, free_bytes
from tests.fuzz.subject import Files, Subject

RELEASE = Path(__file__).resolve().parent.parent / "fixtures" / "release-0.1"
CONLLU = """\
# line = 0
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\t_\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\t_\t_\t3\tadvmod\t_\t_
3\tpanic\tpanic\tVERB\t_\t_\t0\troot\t_\t_
3.1\tnow\tnow\tADV\t_\t_\t_\t_\t_\t_
4\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_

# line = 2
1\tEin\tein\tDET\t_\t_\t2\tdet\t_\t_
2\tHund\tHund\tNOUN\t_\t_\t0\troot\t_\t_

1\tläuft\tlaufen\tVERB\t_\t_\t0\troot\t_\t_
"""
TOKENS = (["Do", "n't", "panic", "."], ["Ein", UNKNOWN], ["lä", "uft"])


def copy_release(folder: Path, *names: str) -> Path:
    """Copy some files and folders of the stored release."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        source = RELEASE / name
        shutil.copytree(source, folder / name, symlinks=True) if source.is_dir() else shutil.copy(source, folder)
    return folder


def _json_lines(content: bytes) -> st.SearchStrategy[bytes]:
    """Lines of JSON, damaged."""
    return st.one_of(damaged_lines(content, damaged_json), damaged_bytes(content, head=400), free_bytes())


def _json_file(content: bytes) -> st.SearchStrategy[bytes]:
    """One JSON document, damaged."""
    changed = damaged_json(content.decode("utf-8")).map(lambda text: text.encode("utf-8", "surrogatepass"))
    return st.one_of(changed, damaged_bytes(content), free_bytes())


def _one(name: str, damaged: st.SearchStrategy[bytes]) -> st.SearchStrategy[Files]:
    return damaged.map(lambda content: {name: content})


def _recipe(folder: Path) -> Subject:
    copy_release(folder, "recipe.toml")
    content = (folder / "recipe.toml").read_bytes()
    damaged = st.one_of(damaged_lines(content, damaged_toml_line), damaged_bytes(content), free_bytes())

    def read(folder: Path) -> None:
        from indigo_cli.recipe import dump_recipe, load_recipe

        recipe = load_recipe(folder / "recipe.toml")
        again = folder / "again.toml"
        again.write_text(dump_recipe(recipe), encoding="utf-8")
        assert load_recipe(again) == recipe

    return Subject("recipe", folder, _one("recipe.toml", damaged), read)


def _orders(folder: Path) -> Subject:
    copy_release(folder, "corpus", "train.odd.orders.jsonl", "valid.scores.orders.jsonl")
    names = ("train.odd.orders.jsonl", "valid.scores.orders.jsonl")
    damaged = st.one_of(*(_one(name, _json_lines((folder / name).read_bytes())) for name in names))

    def read(folder: Path) -> None:
        from indigo_cli.data.corpus import Corpus
        from indigo_cli.data.orders_file import read_orders
        from indigo_cli.engine.present import read_views

        corpus = Corpus.open(folder / "corpus")
        for name in names:
            split = corpus.split(name.split(".")[0])
            found = read_orders(
                folder / name, ids=split.lines, lengths=split.target.lengths, split=split.name, corpus=corpus.digest
            )
            assert len(found.flat) == len(split.target.ids)
            read_views([folder / name], corpus=folder / "corpus")

    return Subject("orders", folder, damaged, read)


def _traces(folder: Path) -> Subject:
    name = "test.traces.jsonl"
    copy_release(folder, name)

    def read(folder: Path) -> None:
        from indigo_cli.data.traces_file import read_traces
        from indigo_cli.engine.outputs import read_output
        from indigo_cli.engine.present import present, read_views

        for record in read_traces(folder / name)[1]:
            assert record.ids is None or len(record.trace()) == len(record.tokens)
        read_output(str(folder / name), 6)
        present(read_views([folder / name]))

    return Subject("traces", folder, _one(name, _json_lines((folder / name).read_bytes())), read)


def _corpus(folder: Path) -> Subject:
    copy_release(folder, "corpus", "test.src", "test.tgt")
    corpus = folder / "corpus"
    manifest = json.loads((corpus / "manifest.json").read_text("utf-8"))
    for split in manifest["splits"].values():
        for side in ("source", "target"):
            split["inputs"][side][0]["path"] = str(folder / Path(split["inputs"][side][0]["path"]).name)
    (corpus / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    arrays = [name for name in manifest["files"] if name.startswith("test.")]
    settings = [name for name in manifest["files"] if not name.endswith((".ids", ".offsets", ".lines"))]

    @st.composite
    def damaged(draw: st.DrawFn) -> Files:
        kind = draw(st.sampled_from(("manifest", "arrays", "settings")))
        if kind == "manifest":
            content = draw(_json_file((corpus / "manifest.json").read_bytes()))
            return {"corpus/manifest.json": _sealed(content) if draw(st.booleans()) else content}
        name = draw(st.sampled_from(arrays if kind == "arrays" else settings))
        old = (corpus / name).read_bytes()
        new = draw(st.one_of(damaged_bytes(old), free_bytes()))
        if draw(st.booleans()):
            return {f"corpus/{name}": new}
        changed = {**manifest["files"], name: {"bytes": len(new), "sha256": hashlib.sha256(new).hexdigest()}}
        listed = json.dumps({**manifest, "files": changed}).encode()
        return {f"corpus/{name}": new, "corpus/manifest.json": _sealed(listed)}

    def read(folder: Path) -> None:
        from indigo_cli.data.corpus import Corpus
        from indigo_cli.data.references import read_references

        corpus = Corpus.open(folder / "corpus")
        for name in corpus.splits:
            split = corpus.split(name)
            for store, codec in ((split.source, corpus.codecs.source), (split.target, corpus.codecs.target)):
                assert (store.lengths >= 0).all()
                for item in range(len(split)):
                    codec.text_of_ids(store[item].tolist())
        if "test" in corpus.splits:
            read_references(corpus, "test")

    return Subject("corpus", folder, damaged(), read)


def _sealed(content: bytes) -> bytes:
    """Give a manifest the digest that belongs to what it says now, as far as it can be read."""
    from indigo_cli.data.corpus import corpus_digest

    try:
        manifest = json.loads(content)
        manifest["digest"] = corpus_digest(manifest["task"], manifest["files"])
        return json.dumps(manifest).encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        return content


def _codecs(folder: Path) -> Subject:
    copy_release(folder, "corpus-two-vocabularies")
    shutil.copytree(folder / "corpus-two-vocabularies", folder, dirs_exist_ok=True)
    names = ("codecs.json", "source.vocabulary.json", "target.bpe.codes")

    def resealed(content: bytes) -> bytes:
        """Give a vocabulary the digest that belongs to its tokens, as far as it can be read."""
        try:
            said = json.loads(content)
            said["header"]["digest"] = Vocabulary(tuple(token for token, _ in said["tokens"]), ()).digest
            return json.dumps(said).encode()
        except (ValueError, KeyError, TypeError, RecursionError, IndexError):
            return content

    settings, vocabulary, codes = ((folder / name).read_bytes() for name in names)
    damaged = st.one_of(
        _one(names[0], _json_file(settings)),
        _one(names[1], _json_file(vocabulary)),
        _one(names[1], _json_file(vocabulary).map(resealed)),
        _one(names[2], st.one_of(damaged_bytes(codes), free_bytes())),
    )

    def read(folder: Path) -> None:
        from indigo_cli.core.text import Codecs

        codecs = Codecs.load(folder)
        for side in (codecs.source, codecs.target):
            side.text_of_ids(side.encode("Ant bee, don't 3.5 \u2028 x@@ lærk."))
        codecs.to_files()

    return Subject("codecs", folder, damaged, read)


def _checkpoint(folder: Path) -> Subject:
    copy_release(folder, "run")
    where = "run/checkpoints/step-00000800"
    facts, model, training = (
        f"{where}/{name}" for name in ("checkpoint.json", "model.safetensors", "training.safetensors")
    )
    tensors = {name: (folder / name).read_bytes() for name in (model, training)}
    damaged = st.one_of(
        _one(facts, _json_file((folder / facts).read_bytes())),
        *(
            _one(name, st.one_of(damaged_bytes(content, head=3000), _damaged_header(content), free_bytes()))
            for name, content in tensors.items()
        ),
    )

    def read(folder: Path) -> None:
        import torch

        from indigo_cli.core.text import Codecs
        from indigo_cli.engine.build import build_system
        from indigo_cli.engine.checkpoint import newest_whole_checkpoint, open_checkpoint, restore_training_state
        from indigo_cli.engine.optim import make_optimizer
        from indigo_cli.engine.run_folder import RunFolder
        from indigo_cli.recipe import load_recipe

        codecs = Codecs.load(folder / "run" / "assets")
        system = build_system(load_recipe(folder / "run" / "recipe.toml"), codecs)
        found = open_checkpoint(folder / "run", "step-00000800")
        RunFolder.open(folder / "run").check_checkpoint(found.facts, codecs)
        found.load_into(system, whose="the recipe", fix="another")
        before = torch.get_rng_state()
        try:
            restore_training_state(found.training(), make_optimizer(system), dict(system.named_parameters()))
        finally:
            torch.set_rng_state(before)
        newest_whole_checkpoint(folder / "run")

    return Subject("checkpoint", folder, damaged, read)


@st.composite
def _damaged_header(draw: st.DrawFn, content: bytes) -> bytes:
    """Change values of a safetensors header, whose length stays right."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = draw(damaged_json(content[8:end].decode("utf-8"))).encode("utf-8", "surrogatepass")
    return len(header).to_bytes(8, "little") + header + content[end:]


def _run(folder: Path) -> Subject:
    copy_release(folder, "run")
    recipe, assets = (folder / "run/recipe.toml").read_bytes(), folder / "run/assets"
    damaged = st.one_of(
        _one("run/run.json", _json_file((folder / "run/run.json").read_bytes())),
        _one("run/recipe.toml", st.one_of(damaged_lines(recipe, damaged_toml_line), damaged_bytes(recipe))),
        _one("run/assets/codecs.json", _json_file((assets / "codecs.json").read_bytes())),
    )

    def read(folder: Path) -> None:
        import torch

        from indigo_cli.engine.loaded_run import load_run

        load_run(folder / "run", device=torch.device("cpu"))

    return Subject("run", folder, damaged, read)


def _log(folder: Path) -> Subject:
    copy_release(folder, "run")
    name = "run/log.jsonl"

    def read(folder: Path) -> None:
        from indigo_cli.engine.average import validations_of
        from indigo_cli.engine.run_log import Log

        validations_of(folder / "run").ranked()
        with Log(folder / name, last_step=400) as log:
            log.write({"step": 401})

    return Subject("log", folder, _one(name, _json_lines((folder / name).read_bytes())), read)


def _conllu(folder: Path) -> Subject:
    folder.mkdir(parents=True)
    content = CONLLU.encode()
    (folder / "parse.conllu").write_bytes(content)

    @st.composite
    def damaged_row(draw: st.DrawFn, line: str) -> str:
        columns = line.split("\t")
        column = draw(st.integers(0, len(columns) - 1))
        values = (
            "",
            "_",
            "0",
            "-1",
            "1",
            "2-3",
            "3-2",
            "1.1",
            f"1-{'9' * 5000}",
            "99",
            "9" * 5000,
            "\u0663",
            "x y",
            "\0",
            "# line = 5",
        )
        columns[column] = draw(st.sampled_from((*values, "1-999999999", "# line = 999999999", "\u2028")))
        return "\t".join(columns)

    damaged = st.one_of(damaged_lines(content, damaged_row), damaged_bytes(content), free_bytes())

    def read(folder: Path) -> None:
        from indigo_cli.data.conllu import align, read_conllu

        for (_, tree), tokens in zip(read_conllu(folder / "parse.conllu"), TOKENS, strict=False):
            spans = align(tokens, tree)
            assert all(0 <= first <= last < len(tree.heads) for first, last in spans)

    return Subject("conllu", folder, _one("parse.conllu", damaged), read)


def _packed(folder: Path) -> Subject:
    import bz2
    import gzip
    import lzma

    folder.mkdir(parents=True)
    text = (RELEASE / "train.src").read_bytes()
    packers: dict[str, Callable[[bytes], bytes]] = {"a.gz": gzip.compress, "a.bz2": bz2.compress, "a.xz": lzma.compress}
    for name, pack in packers.items():
        (folder / name).write_bytes(pack(text))
    damaged = st.one_of(
        *(_one(name, st.one_of(damaged_bytes(pack(text), head=30), free_bytes())) for name, pack in packers.items())
    )

    def read(folder: Path) -> None:
        from indigo_cli.data.files import read_lines

        for name in packers:
            for line in read_lines(folder / name):
                assert "\n" not in line

    return Subject("packed text", folder, damaged, read)


MAKERS: dict[str, Callable[[Path], Subject]] = {
    "recipe": _recipe,
    "orders": _orders,
    "traces": _traces,
    "corpus": _corpus,
    "codecs": _codecs,
    "checkpoint": _checkpoint,
    "run": _run,
    "log": _log,
    "conllu": _conllu,
    "packed": _packed,
}
