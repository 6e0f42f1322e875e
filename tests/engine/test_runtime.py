"""Device, precision and threads as they are asked for on the command line."""

from collections.abc import Iterator

import pytest
import torch

from indigo_cli.engine.runtime import Runtime
from indigo_cli.errors import UsageError


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_cpu_and_its_threads() -> None:
    before = torch.get_num_threads()
    assert Runtime("cpu").start() == torch.device("cpu")
    assert torch.get_num_threads() == before  # 0 leaves them alone
    Runtime("cpu", threads=3).start()
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("available", [True, False])
def test_auto_takes_cuda_where_there_is_one(monkeypatch: pytest.MonkeyPatch, available: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int(available))
    assert Runtime().start().type == ("cuda" if available else "cpu")


@pytest.mark.parametrize(("name", "chosen"), [("cuda", []), ("cuda:1", [1])])
def test_a_numbered_device_becomes_the_current_one(
    monkeypatch: pytest.MonkeyPatch, name: str, chosen: list[int]
) -> None:
    """Torch refuses a device without a number there."""
    seen: list[int | None] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: seen.append(device.index))
    assert Runtime(name).start() == torch.device(name)
    assert seen == chosen


@pytest.mark.parametrize(
    ("runtime", "where"),
    [
        (Runtime("gpu"), "--device"),
        (Runtime("meta"), "--device"),
        (Runtime("cuda:x"), "--device"),
        (Runtime(precision="fp16"), "--precision"),
        (Runtime(threads=-1), "--threads"),
    ],
)
def test_what_nobody_knows_is_refused(runtime: Runtime, where: str) -> None:
    with pytest.raises(UsageError) as caught:
        runtime.start()
    assert caught.value.where == where
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("name", "count"), [("cuda", 0), ("cuda:0", 0), ("cuda:2", 2)])
def test_a_cuda_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch, name: str, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(UsageError, match=f"no device '{name}'"):
        Runtime(name).start()


def test_every_process_of_a_machine_says_that_devices_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    for rank in range(3):
        with pytest.raises(UsageError, match="3 processes on this machine, but 2 CUDA devices"):
            Runtime().start(local_rank=rank, local_world=3)
    assert Runtime().start(local_rank=1, local_world=2) == torch.device("cuda:1")


def test_one_device_is_not_for_several_processes() -> None:
    with pytest.raises(UsageError, match="--device cuda:0 would put all 2 processes"):
        Runtime("cuda:0").start(local_rank=1, local_world=2)


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_precision_is_that_of_matrix_products(precision: str, dtype: torch.dtype) -> None:
    with Runtime("cpu", precision).autocast(torch.device("cpu")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
