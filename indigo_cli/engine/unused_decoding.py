"""Keys of [decode] that are set, but do nothing as a recipe stands."""

from collections.abc import Iterator
from typing import Any

from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.models import MODELS
from indigo_cli.tasks import TASKS


def unused_decoding(task: str, decode: DecodeConfig, system: str, model: Any) -> Iterator[str]:
    """Yield one note for each key.

    Args:
        task: Name in TASKS.
        system: Name in MODELS.
        model: Its [model] section.
    """
    parallel, ends_at_once = MODELS[system].parallel, getattr(model, "termination", "slot") == "sequence"
    unused: dict[str, list[str]] = {f'data.task = "{task}"': [], f'model.system = "{system}"': []}
    for_task, for_system = unused.values()
    if not TASKS[task].source_is_bag:
        for_task.append("restrict_to_bag")
    if parallel or MODELS[system].orders is not None:
        for_system.append("canvas_order")
    if not parallel:
        for_system += "close_penalty", "serial"
    elif not (decode.serial or ends_at_once):
        bag = [] if for_task else ["restrict_to_bag"]
        unused["words that come in together"] = ["eod_penalty", "block_ngrams", *bag]
    of_samples, of_lists = ["temperature", "top_k", "top_p"], ["rerank"]
    unused[f'decode.search = "{decode.search}"'] = of_lists if decode.search == "sample" else of_samples
    if decode.rerank == "none":
        unused['decode.rerank = "none"'] = ["rerank_from", "rerank_stemmed"]
    usual = DecodeConfig()
    for why, keys in unused.items():
        changed = (key for key in keys if getattr(decode, key) != getattr(usual, key))
        yield from (f"decode.{key} has no effect with {why}" for key in changed)
