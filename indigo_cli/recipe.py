"""The recipe: one TOML file -> one frozen dataclass a section, each of which stands beside the code that reads it.

Everything that is wrong with a recipe is reported at once. Paths in it are relative to the recipe's folder; in a loaded
recipe they are absolute.
"""

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from indigo_cli.core import console
from indigo_cli.core.settings import (
    NonNegativeInt,
    apply_overrides,
    did_you_mean,
    parse_section,
    place_of,
    spell,
    unknown_key,
)
from indigo_cli.core.toml import Key, Places, dump_toml, read_toml
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.engine.assess import EvaluateConfig
from indigo_cli.engine.assign import OrderConfig
from indigo_cli.engine.prepare_settings import DataConfig, PreprocessConfig
from indigo_cli.engine.search_config import NO_REFERENCE, SEARCHED, SearchConfig, searched_faults, with_preset
from indigo_cli.engine.train_config import TrainConfig, given_faults
from indigo_cli.engine.unused_decoding import unused_decoding
from indigo_cli.errors import DataError, IndigoError, RecipeError, UsageError
from indigo_cli.metrics import METRICS
from indigo_cli.metrics import PLANNED as PLANNED_METRICS
from indigo_cli.models import MODELS
from indigo_cli.orders import ORDERS
from indigo_cli.tasks import PLANNED as PLANNED_TASKS
from indigo_cli.tasks import TASKS


@dataclass(frozen=True)
class _Head:
    name: str
    seed: NonNegativeInt = 1


@dataclass(frozen=True)
class Recipe:
    """Everything that defines an experiment; `dump_recipe` writes it, `load_recipe` reads it back equal."""

    name: str
    seed: int
    data: DataConfig
    preprocess: PreprocessConfig
    order: OrderConfig
    model: Any  # the dataclass that MODELS gives for `system`
    train: TrainConfig
    search: SearchConfig = field(default_factory=SearchConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)

    @property
    def system(self) -> str:
        """Name of the model's kind in MODELS."""
        return next(name for name, system in MODELS.items() if type(self.model) is system.config)


SECTIONS: dict[str, type[Any]] = {
    "data": DataConfig,
    "preprocess": PreprocessConfig,
    "order": OrderConfig,
    "train": TrainConfig,
    "search": SearchConfig,
    "decode": DecodeConfig,
    "evaluate": EvaluateConfig,
}
"""The dataclass of each section but [model], whose dataclass `system` picks."""
DEFAULT_SYSTEM = "indigo"
PATH_KEYS = (
    ("data", "splits", "*", "source"),
    ("data", "splits", "*", "target"),
    ("data", "splits", "*", "references"),
    ("preprocess", "codecs"),
    ("order", "file"),
    ("order", "parse", "*"),
)
LATER: dict[str, tuple[str, ...]] = {
    "data.task": PLANNED_TASKS,
    "evaluate.metrics": PLANNED_METRICS,
}
"""Values of the contract that this version does not have."""
NAMES: dict[tuple[str, str], Sequence[str]] = {
    ("data", "task"): tuple(TASKS),
    ("order", "name"): (*ORDERS, SEARCHED, "file"),
    ("search", "reference"): (*ORDERS, NO_REFERENCE),
    ("search", "bootstrap_order"): tuple(ORDERS),
    ("evaluate", "metrics"): tuple(METRICS),
}
"""Keys whose values are names in a table."""
_FOLDER_NAME = re.compile(r"(?!\.{1,2}$)[^/\x00-\x1f]{1,100}")


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe file, apply `section.key=value` overrides and check everything.

    Raises:
        RecipeError: all faults together, each with its key, place and nearest known key.
        UsageError: there is no such file, or an override is not KEY=VALUE.
        DataError: the file is not UTF-8 text.
    """
    path = Path(path)
    mapping, places = read_toml(_read_text(path), name=str(path))
    mapping, set_places = apply_overrides(mapping, overrides)
    for key in set_places:
        places = {old: place for old, place in places.items() if old[: len(key)] != key}
    for pattern in PATH_KEYS:
        mapping = _absolute(mapping, pattern, path.parent)
    order = mapping.get("order")
    if isinstance(order, Mapping) and os.sep in str(order.get("parser", "")):  # a folder; else the name of a package
        mapping = _absolute(mapping, ("order", "parser"), path.parent)
    if isinstance(search := mapping.get("search"), Mapping):
        mapping = {**mapping, "search": with_preset(search)}
    draft = _Draft(mapping, {(): str(path), **places, **set_places})
    recipe = draft.finish(default_name=path.stem)
    for text in draft.notes:
        console.note(text)
    return recipe


def dump_recipe(recipe: Recipe) -> str:
    """Return the recipe as TOML with every setting written out and absolute paths."""
    table = _without_none(dataclasses.asdict(recipe))
    table["model"] = {"system": recipe.system, **table["model"]}
    if recipe.search == SearchConfig() and recipe.order.name != SEARCHED:
        del table["search"]
    return dump_toml(table)


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise UsageError("there is no such recipe", where=str(path), fix="give the path of a TOML file") from error
    except (OSError, ValueError) as error:  # a folder, no permission, a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"the recipe cannot be read: {reason}", where=str(path)) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{content[error.start]:02x} is not UTF-8"
        raise DataError(what, where=f"{path}:{line}", fix="save the recipe as UTF-8") from error


def _absolute(value: Any, pattern: Sequence[str], folder: Path) -> Any:
    """Return the tables with the paths at `pattern` made absolute; anything else there is left for the checks."""
    if isinstance(value, Mapping) and pattern:
        first, *rest = pattern
        return {k: _absolute(v, rest, folder) if first in ("*", k) else v for k, v in value.items()}
    if isinstance(value, list):
        return [_absolute(item, pattern, folder) for item in value]
    if isinstance(value, str) and not pattern and value:
        return os.path.abspath(folder.resolve() / value)
    return value


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return value


def _section_classes() -> dict[str, list[type[Any]]]:
    """Return the dataclasses that each section may have."""
    return {**{name: [cls] for name, cls in SECTIONS.items()}, "model": [system.config for system in MODELS.values()]}


def _keys_of(classes: Iterable[type[Any]]) -> list[str]:
    return list(dict.fromkeys(known.name for cls in classes for known in dataclasses.fields(cls)))


def _homes() -> dict[str, str]:
    """Return the sections that know each key: the mend for a key under the wrong heading."""
    homes: dict[str, list[str]] = {}
    for section, classes in _section_classes().items():
        for key in _keys_of(classes):
            homes.setdefault(key, []).append(f"[{section}]")
    return {key: " or ".join(sections) for key, sections in homes.items()}


class _Draft:
    """A recipe while it is checked: its tables, and what has been found wrong or without effect so far."""

    def __init__(self, mapping: Mapping[str, Any], places: Places) -> None:
        self.mapping = mapping
        self.places = places
        self.homes = _homes()
        self.faults: list[IndigoError] = []
        self.notes: list[str] = []

    def finish(self, *, default_name: str) -> Recipe:
        """Return the recipe; raise all faults together, in the order of their lines."""
        known = ["name", "seed", *SECTIONS, "model"]
        self.unknown((), self.mapping, known)
        self.drop_sources()
        head = self.head(default_name)
        system = self.system()
        self.order_by_default(system)
        self.metrics_by_default()
        sections = {name: self.section(name, cls, system) for name, cls in SECTIONS.items()}
        if system in MODELS:
            sections["model"] = self.section("model", MODELS[system].config, system)
        else:
            self.unknown(("model",), self.mapping.get("model"), ["system", *_keys_of(_section_classes()["model"])])
        self.check_names()
        self.check_order(system)
        self.check_search(sections["search"], sections["train"])
        self.check_given(sections["train"], system)
        self.check_splits()
        if self.faults or head is None:
            raise RecipeError(sorted(self.faults, key=_line_of))
        self.notes += unused_decoding(sections["data"].task, sections["decode"], system, sections["model"])
        return Recipe(name=head.name, seed=head.seed, **sections)

    def fault(self, key: Key, what: str, fix: str = "") -> None:
        self.faults.append(UsageError(what, where=place_of(key, self.places), fix=fix))

    def unknown(self, prefix: Key, table: Any, known: Sequence[str]) -> None:
        for key in table if isinstance(table, Mapping) else ():
            if key not in known:
                self.faults.append(unknown_key((*prefix, key), known, self.places, self.homes))

    def table(self, section: str) -> Mapping[str, Any]:
        """Return a section for a look across sections; its own check has reported it if it is no table."""
        table = self.mapping.get(section)
        return table if isinstance(table, Mapping) else {}

    def head(self, default_name: str) -> _Head | None:
        """Check what stands above the sections."""
        table = {"name": default_name, **{key: self.mapping[key] for key in ("name", "seed") if key in self.mapping}}
        head, faults = parse_section(_Head, table, prefix=(), places=self.places)
        self.faults += faults
        name = table["name"]
        if isinstance(name, str) and "\0" not in name and not _FOLDER_NAME.fullmatch(name):
            self.fault(("name",), f"name must do as the name of a folder (runs/NAME), got {name!r}")
        return head

    def system(self) -> str:
        """Return the name of the model's kind, and report one that there is not."""
        system = self.table("model").get("system", DEFAULT_SYSTEM)
        if not isinstance(system, str):
            self.fault(("model", "system"), "model.system must be text in quotes", f"available: {', '.join(MODELS)}")
        elif system not in MODELS:
            self.wrong_name(("model", "system"), system, MODELS)
        return str(system)

    def order_by_default(self, system: str) -> None:
        """Name the order that the system learns where the recipe names none."""
        order = self.mapping.get("order", {})
        if system in MODELS and isinstance(order, Mapping) and "name" not in order:
            self.mapping = {**self.mapping, "order": {**order, "name": MODELS[system].default_order}}

    def metrics_by_default(self) -> None:
        """Name the metrics of the task where the recipe names none."""
        task, evaluate = self.table("data").get("task"), self.mapping.get("evaluate", {})
        if isinstance(task, str) and task in TASKS and isinstance(evaluate, Mapping) and "metrics" not in evaluate:
            self.mapping = {**self.mapping, "evaluate": {**evaluate, "metrics": [*TASKS[task].metrics]}}

    def section(self, name: str, cls: type[Any], system: str) -> Any:
        """Return a section's dataclass, None if something is wrong with it."""
        table = self.mapping.get(name, {})
        if isinstance(table, Mapping):
            table = self.without_unused(name, cls, table, system)
        value, faults = parse_section(cls, table, prefix=(name,), places=self.places, known_elsewhere=self.homes)
        self.faults += faults
        return value

    def without_unused(self, name: str, cls: type[Any], table: Mapping[str, Any], system: str) -> dict[str, Any]:
        """Return the table without the keys that only another system knows; note each."""
        own = {known.name for known in dataclasses.fields(cls)}
        others = _keys_of(_section_classes()[name])
        kept: dict[str, Any] = {}
        for key, value in table.items():
            if key in others and key not in own:
                self.notes.append(f'{name}.{key} has no effect with model.system = "{system}"')
            else:
                kept[key] = value
        return kept

    def wrong_name(self, key: Key, value: str, known: Iterable[str]) -> None:
        """Report a name that the table it picks from does not have."""
        setting = ".".join(part for part in key if isinstance(part, str))
        available = f"available: {', '.join(known)}"
        if value in LATER.get(setting, ()):
            self.fault(key, f'{setting} = "{value}" is not in this version', available)
        else:
            self.fault(key, f"{setting}: there is no {value!r}", f"{did_you_mean(value, known)} {available}".strip())

    def check_names(self) -> None:
        """Check names that pick from a table, also in sections with other faults."""
        for (section, name), known in NAMES.items():
            value = self.table(section).get(name)
            for i, item in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(item, str) and item not in known:
                    self.wrong_name((section, name, i) if isinstance(value, list) else (section, name), item, known)

    def check_order(self, system: str) -> None:
        """Check that the order has what it needs and that the system can learn it."""
        order = self.table("order")
        name = order.get("name")
        if name == "file" and not order.get("file"):
            self.fault(("order", "name"), 'order.name = "file" needs order.file', 'file = "train.orders.jsonl"')
        learns = MODELS[system].orders if system in MODELS else None
        if learns is not None and isinstance(name, str) and name in (*ORDERS, SEARCHED) and name not in learns:
            what = f'order.name = "{name}" does not go with model.system = "{system}"'
            self.fault(("order", "name"), what, f"it generates {', '.join(sorted(learns))} only")
        if system in MODELS and MODELS[system].parallel and name == SEARCHED:
            what = f'order.name = "{SEARCHED}" does not go with model.system = "{system}"'
            self.fault(("order", "name"), what, 'model.system = "indigo" searches its orders')

    def check_search(self, search: SearchConfig | None, train: TrainConfig | None) -> None:
        """Check that a run which is to search its orders can and will."""
        if self.table("order").get("name") == SEARCHED and search is not None and train is not None:
            tables = {name: self.table(name) for name in ("model", "train")}
            for key, what, fix in searched_faults(tables, search, train.max_steps):
                self.fault(key, what, fix)

    def check_given(self, train: TrainConfig | None, system: str) -> None:
        """Check that given words can come before what is learnt."""
        if train is not None and train.given_rate and system in MODELS:
            for what, fix in given_faults(system, self.table("order").get("name")):
                self.fault(("train", "given_rate"), what, fix)

    def reads_source(self) -> bool:
        task = self.table("data").get("task")
        return TASKS[task].reads_source if isinstance(task, str) and task in TASKS else True

    def drop_sources(self) -> None:
        """Leave out the source files of a task that makes its source from the target; note each."""
        splits = self.table("data").get("splits")
        if self.reads_source() or not isinstance(splits, Mapping):
            return
        kept = {}
        for name, split in splits.items():
            kept[name] = split
            if isinstance(split, Mapping) and split.get("source"):
                kept[name] = {side: files for side, files in split.items() if side != "source"}
                task = self.table("data")["task"]
                setting = spell(("data", "splits", name, "source"))
                self.notes.append(f'{setting} has no effect with data.task = "{task}"')
        self.mapping = {**self.mapping, "data": {**self.table("data"), "splits": kept}}

    def check_splits(self) -> None:
        """Check that train and valid are there, with files for each side that the task reads."""
        splits = self.table("data").get("splits", {})
        if not isinstance(splits, Mapping):
            return
        sides = ("source", "target") if self.reads_source() else ("target",)
        for name in ("train", "valid"):
            if name not in splits:
                files = ", ".join(f'{side} = ["{name}.{side}.gz"]' for side in sides)
                key = ("data", "splits", name)
                self.fault(key, f"{spell(key)} is missing", f"e.g. {name} = {{ {files} }}")
        for name, split in splits.items():
            key = ("data", "splits", name)
            if not re.fullmatch(r"[\w-]{1,60}", name):
                what = f"a split cannot be called {name!r}: it becomes part of file names"
                self.fault(key, what, "use letters, digits, _ and -")
            if not isinstance(split, Mapping):
                continue
            for side in sides:
                if split.get(side, []) == []:
                    self.fault(key, f"{spell((*key, side))} names no file", f'e.g. {side} = ["{name}.{side}.gz"]')


def _line_of(fault: IndigoError) -> tuple[bool, int]:
    """Return what sorts faults by line, those of --set last."""
    line = fault.where.rpartition(":")[2]
    return fault.where.startswith("--set"), int(line) if line.isdecimal() else 0
