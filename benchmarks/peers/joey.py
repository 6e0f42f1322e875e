"""JoeyNMT: training by its own loop, which here neither validates nor saves."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import workload
from joeynmt.config import parse_global_args, set_validation_args
from joeynmt.prediction import prepare
from joeynmt.training import TrainManager


def configuration(folder: Path) -> dict[str, Any]:
    """Return what its YAML file would hold."""
    words = "".join(f"w{number}\n" for number in range(workload.VOCABULARY - 4))
    (folder / "words").write_text(words, "utf-8")
    for split in ("train", "dev", "test"):
        pairs = workload.sentence_pairs(workload.SENTENCES["train"] if split == "train" else 1)
        for side, name in enumerate(("src", "trg")):
            lines = "".join(" ".join(f"w{word}" for word in pair[side]) + "\n" for pair in pairs)
            (folder / f"{split}.{name}").write_text(lines, "utf-8")
    text = {"max_length": 100, "level": "word", "tokenizer_type": "none", "voc_file": str(folder / "words")}
    layers = {
        "type": "transformer",
        "num_layers": workload.LAYERS,
        "num_heads": workload.HEADS,
        "embeddings": {"embedding_dim": workload.MODEL_DIM, "scale": True, "dropout": 0.0},
        "hidden_size": workload.MODEL_DIM,
        "ff_size": workload.FF_DIM,
        "dropout": workload.DROPOUT,
        "layer_norm": "pre",
    }
    specials = {"unk": 0, "pad": 1, "bos": 2, "eos": 3}
    tokens = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    return {
        "name": "peers",
        "model_dir": str(folder),
        "use_cuda": False,
        "data": {
            **{split: str(folder / split) for split in ("train", "dev", "test")},
            "dataset_type": "plain",
            "src": {"lang": "src", **text},
            "trg": {"lang": "trg", **text},
            "special_symbols": tokens | {f"{name}_id": number for name, number in specials.items()},
        },
        "testing": {"beam_size": 1},
        "training": {
            "optimizer": "adamw",
            "adam_betas": [0.9, 0.98],
            "learning_rate": workload.LEARNING_RATE,
            "scheduling": "warmupinversesquareroot",  # its default breaks with this torch
            "learning_rate_warmup": 50,
            "normalization": "tokens",
            "label_smoothing": workload.SMOOTHING,
            "clip_grad_norm": workload.CLIP_NORM,
            "batch_size": workload.BATCH_TOKENS,
            "batch_type": "token",
            "epochs": 1,
            "logging_freq": 100_000,
            "validation_freq": 100_000,
        },
        "model": {"tied_embeddings": False, "tied_softmax": True, "encoder": layers, "decoder": layers},
    }


def tasks() -> dict[str, Callable[[], None]]:
    """Return training: one call is one epoch of one and the same model."""
    folder = tempfile.TemporaryDirectory()
    arguments = parse_global_args(configuration(Path(folder.name)), mode="train")
    model, training, validation, _ = prepare(arguments, rank=0, mode="train")
    manager = TrainManager(
        rank=0,
        model=model,
        model_dir=arguments.model_dir,
        device=arguments.device,
        autocast=arguments.autocast,
        train_args=arguments.train,
        dev_args=set_validation_args(arguments.test),
    )
    manager._save_checkpoint = lambda new_best, score: None

    def train() -> None:
        assert folder, "the folder lives as long as this"
        before = manager.stats.total_tokens
        manager.train_and_validate(training, validation)
        print("joey: batches", manager.stats.steps, "tokens", manager.stats.total_tokens - before)

    return {"train": train}
