"""The processes of one command under `torchrun`: who they are, sums over all of them, and how they end together.

In training every process holds the whole model (DDP) or a part of every layer (`train.sharding = "full"`, FSDP2);
decoding and scoring share out blocks of lines. Process 0 alone writes files and speaks. A process that fails ends; the
others notice at their next exchange, and torchrun stops them. What shards is loaded where it is used only: it takes
more than a second, which every command would pay.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from indigo_cli.core.chunks import chunked
from indigo_cli.data.files import STANDARD_STREAM
from indigo_cli.engine.runtime import Runtime
from indigo_cli.errors import IndigoError, PeerError, UsageError

Block = TypeVar("Block")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Processes:
    """This process among those of the run; the default is one alone.

    Args:
        rank: Of this process, from 0.
        world: How many there are.
        device: Where this one computes.
    """

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_first(self) -> bool:
        """Tell whether this is the process that writes and speaks."""
        return self.rank == 0

    def total(self, values: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes, in place; every process must call."""
        if self.world > 1:
            distributed.all_reduce(values)
        return values

    def first_does(self, action: Callable[[], Result]) -> Result:
        """Let process 0 do something and give everybody its result, or its fault. The result must pickle."""
        if self.world == 1:
            return action()
        told: list[Result | PeerError | None] = [None]
        fault: Exception | None = None
        if self.is_first:
            try:
                told[0] = action()
            except Exception as error:
                told[0], fault = PeerError("process 0 could not go on"), error
        distributed.broadcast_object_list(told, src=0, device=self.device)
        answer = told[0]
        if isinstance(answer, PeerError):
            raise fault or answer
        return answer  # type: ignore[return-value]

    def lists(self, own: Sequence[Result]) -> list[Result]:
        """Return the things of all processes, one process after another; every process must call. They must pickle."""
        if self.world == 1:
            return list(own)
        found: list[list[Result]] = [[] for _ in range(self.world)]
        distributed.all_gather_object(found, list(own))
        return [thing for things in found for thing in things]

    def in_order(self, blocks: Iterable[Block], work: Callable[[Block], Result]) -> Iterator[tuple[Block, Result]]:
        """Yield every block with what `work` makes of it, in order, on process 0; the others do their part of the work.

        Every process must see the same blocks. Results must pickle; those of one block a process are held at a time.
        A fault of a block or of its work is one of the results, so that process 0 ends after the blocks before it, as
        one alone does.
        """
        for group in chunked(_with_fault(blocks), self.world):
            own = [_outcome(work, block) for block in group[self.rank : self.rank + 1]]
            found = [own]
            if self.world > 1:
                found = [[] for _ in range(self.world)]
                distributed.gather_object(own, found if self.is_first else None)
            if self.is_first:
                for block, result in zip(group, (result for results in found for result in results), strict=True):
                    if isinstance(block, IndigoError):
                        raise block
                    if isinstance(result, IndigoError):
                        raise result
                    yield block, result
            elif any(isinstance(found, IndigoError) for found in (*group, *own)):
                raise PeerError("process 0 says why")

    def gathered(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return tensors that may be sharded as whole ones in the memory of the host; nothing but on process 0.

        Every process must call. One tensor is whole at a time, so that a model larger than a device can be saved.
        """
        found: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            plain = whole(tensor.detach())
            if self.is_first:
                found[name] = plain.cpu()
        return found

    def spread(self, system: nn.Module, sharding: str) -> nn.Module:
        """Return what to call in training: the system itself, or the wrapper that adds gradients up.

        Args:
            system: With the weights to start from, on this process' device; sharded in place.
            sharding: `none` or `full`, see `TrainConfig`.
        """
        if sharding == "full":
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            mesh = init_device_mesh(self.device.type, (self.world,))
            for stack in [module for module in system.modules() if isinstance(module, nn.ModuleList)]:
                for layer in stack:
                    fully_shard(layer, mesh=mesh)
            fully_shard(system, mesh=mesh)
            return system
        if self.world == 1:
            return system
        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(system, device_ids=devices, gradient_as_bucket_view=True)


def _with_fault(blocks: Iterable[Block]) -> Iterator[Block | IndigoError]:
    """Yield the blocks, and behind them what a user can mend if they end with that."""
    try:
        yield from blocks
    except IndigoError as error:
        yield error


def _outcome(work: Callable[[Block], Result], block: Block | IndigoError) -> Result | IndigoError:
    """Return what comes of a block: the result, or what a user can mend about it."""
    try:
        return block if isinstance(block, IndigoError) else work(block)
    except IndigoError as error:
        return error


@contextmanager
def processes_of(runtime: Runtime, sharding: str = "none") -> Iterator[Processes]:
    """Join the other processes that `torchrun` started, if it did, and leave them at the end.

    Args:
        runtime: Device, precision, threads; with CUDA every process of a machine takes a device of its own.
        sharding: One process, too, needs a group to shard in.

    Raises:
        UsageError: an environment that is not torchrun's, fewer devices than processes.
    """
    rank, world, local, local_world = (
        _number(name, default)
        for name, default in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0), ("LOCAL_WORLD_SIZE", 1))
    )
    if world == 1 and sharding == "none":
        yield Processes(device=runtime.start())
        return
    if world == 1:
        raise UsageError("one process has nothing to shard the model over", where="train.sharding", fix=TORCHRUN)
    missing = [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise UsageError(f"WORLD_SIZE is {world}, but {' '.join(missing)} not set", where="environment", fix=TORCHRUN)
    device = runtime.start(local_rank=local, local_world=local_world)
    with peers():
        distributed.init_process_group(
            "nccl" if device.type == "cuda" else "gloo", device_id=device if device.type == "cuda" else None
        )
    failed = True
    try:
        with peers():
            yield Processes(rank, world, device)
        failed = False
    finally:
        if device.type == "cpu":
            # A thread of Gloo may still drop what belongs to Python from the last exchange, for which it wants the
            # interpreter; the end of the group waits for that thread and does not let the interpreter go: a deadlock
            # (torch 2.13). So let it finish first.
            time.sleep(GLOO_REST)
        if device.type == "cpu" or not failed:  # NCCL would wait for the others here
            distributed.destroy_process_group()


GLOO_REST = 0.05
"""Seconds; what it waits for takes microseconds."""
TORCHRUN = "start it with `torchrun --nproc-per-node N -m indigo_cli COMMAND ...`"


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise UsageError(f"{name} is no number: {text!r}", where="environment", fix=TORCHRUN)
    return int(text)


def check_shared(path: str, processes: Processes) -> None:
    """Refuse an input that only one process can read.

    Raises:
        UsageError: standard input, and several processes.
    """
    if path == STANDARD_STREAM and processes.world > 1:
        raise UsageError("several processes cannot share standard input", where="--input", fix="give a file")


@contextmanager
def peers() -> Iterator[None]:
    """Turn the error of an exchange with a process that is gone into PeerError."""
    try:
        yield
    except RuntimeError as error:
        lost = isinstance(error, distributed.DistError) or any(sign in str(error) for sign in _SIGNS_OF_LOSS)
        if not lost:
            raise
        raise PeerError("another process of this run ended; its own message says why") from error


_SIGNS_OF_LOSS = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer", "Broken pipe")


def accumulating(system: nn.Module, *, last: bool) -> AbstractContextManager[None]:
    """Return the context of one micro-batch of an update: gradients are exchanged in the last one only."""
    if isinstance(system, DistributedDataParallel):
        return nullcontext() if last else system.no_sync()
    sharded: Any = system
    if hasattr(system, "set_requires_gradient_sync"):  # FSDPModule
        sharded.set_requires_gradient_sync(last)
    return nullcontext()


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor that may be sharded as a plain one; every process must call, in the same order."""
    sharded: Any = tensor
    return sharded.full_tensor() if _is_sharded(tensor) else tensor


def like(value: Tensor, parameter: Tensor) -> Tensor:
    """Return a whole tensor on the device of a parameter, sharded as it is (scalars stay whole)."""
    if not _is_sharded(parameter) or not value.dim():
        return value.to(parameter.device)
    from torch.distributed.tensor import distribute_tensor

    sharded: Any = parameter
    return distribute_tensor(value.to(parameter.device), sharded.device_mesh, sharded.placements)


def _is_sharded(tensor: Tensor) -> bool:
    return hasattr(tensor, "full_tensor")  # DTensor
