"""warp-rnnt against the transducer's forward algorithm in float64: losses and gradients."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from grid import case_of, cases_of, exactly, usual
from perf_case import Case
from warp_rnnt import rnnt_loss

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "warp_rnnt"
FRAMEWORK = "torch"
UNTOUCHED = (
    "labels that are the blank",
    # core_compact.cu launches on the default stream, which PyTorch's other streams don't wait for.
    "compact losses on a second stream, which are wrong upstream",
    "a second backward of the same loss, which multiplies the gradients again",
    "more than 2^31 elements",
)
DEVICE = "cuda"

LOSS = 1e-5  # relative: sums of up to 200 logarithms in float32
# A gradient is the exponential of such a sum, of up to 1300, where float32 has steps of 1.2e-4.
GRADIENT = 2e-3
LARGE = {"batch": 16, "frames": 400, "labels": 80, "symbols": 512}  # 1 GiB

Row = dict[str, Any]
Values = tuple[torch.Tensor, ...]

AXES: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "gradient"),
    "form": ("whole", "gather", "compact"),
    "batch": (4, 1, 17),
    "frames": (40, 1, 32, 33, 150),
    "labels": (10, 0, 1, 40),
    "symbols": (30, 2, 1000),
    "lengths": ("equal", "different"),
    "blank": ("first", "last"),
    "fastemit": (0.0, 0.1),
    "reduction": ("none", "sum", "mean"),
    "average": (False, True),
    "stream": ("current", "second"),
}


def exists(row: Row) -> bool:
    """Return False for what is wrong upstream."""
    return row["form"] != "compact" or row["stream"] == "current"


def inputs(row: Row, seed: int) -> Values:
    """Return log probabilities, labels, numbers of frames and labels, gradients of the losses."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    batch, frames, labels, symbols = (row[name] for name in LARGE)
    shape = (batch, frames, labels + 1, symbols)
    scores = torch.randn(shape, device=DEVICE, generator=draw)
    least = 0 if row["blank"] == "last" else 1
    spoken = torch.randint(
        least, least + symbols - 1, (batch, labels), device=DEVICE, generator=draw
    )
    counts = [torch.full((batch,), most, device=DEVICE) for most in (frames, labels)]
    if row["lengths"] == "different":  # the first is as long as the batch
        shares = torch.rand(2, batch, device=DEVICE, generator=draw)
        shares[:, 0] = 1
        counts[0] = (shares[0] * frames).ceil()
        counts[1] = (shares[1] * labels).floor()
    ahead = torch.rand(batch, device=DEVICE, generator=draw) + 0.5
    return (scores.log_softmax(-1), *(part.int() for part in (spoken, *counts)), ahead)


def package(row: Row, *arguments: torch.Tensor) -> torch.Tensor:
    """Return the package's loss."""
    logs, labels, frames, counts = arguments
    if row["form"] == "compact":
        sizes = list(zip(frames.tolist(), counts.tolist(), strict=True))
        parts = [one[:t, : u + 1].flatten(0, 1) for one, (t, u) in zip(logs, sizes, strict=True)]
        logs = torch.cat(parts)
        labels = torch.cat([one[:u] for one, (_, u) in zip(labels, sizes, strict=True)])
    loss: torch.Tensor = rnnt_loss(
        logs,
        labels,
        frames,
        counts,
        average_frames=row["average"],
        reduction=row["reduction"],
        blank=row["symbols"] - 1 if row["blank"] == "last" else 0,
        gather=row["form"] == "gather",
        fastemit_lambda=row["fastemit"],
        compact=row["form"] == "compact",
    )
    return loss


def exact(row: Row, *arguments: torch.Tensor) -> torch.Tensor:
    """Return the same, frame by frame, by `logcumsumexp` over the labels.

    FastEmit leaves the loss and makes the gradients of labels larger.
    """
    logs, labels, frames, counts = arguments
    silent = logs[..., -1] if row["blank"] == "last" else logs[..., 0]
    places = labels.long()[:, None, :, None].expand(-1, logs.shape[1], -1, -1)
    spoken = logs[:, :, :-1].gather(3, places)[..., 0]
    spoken = spoken + row["fastemit"] * (spoken - spoken.detach())
    emitted = torch.nn.functional.pad(spoken.cumsum(-1), (1, 0))
    reached = [emitted[:, 0]]
    for frame in range(1, logs.shape[1]):
        before = reached[-1] + silent[:, frame - 1] - emitted[:, frame]
        reached.append(emitted[:, frame] + before.logcumsumexp(-1))
    batch = torch.arange(len(logs), device=logs.device)
    at = batch, frames.long() - 1, counts.long()
    losses = -(torch.stack(reached, dim=1)[at] + silent[at])
    losses = losses / frames if row["average"] else losses
    return losses if row["reduction"] == "none" else getattr(losses, row["reduction"])()


def outputs(function: Callable[..., Any], row: Row, *arguments: torch.Tensor) -> Any:
    """Return the losses, or the gradients of the log probabilities."""
    logs, *lengths, ahead = arguments
    if row["what"] == "forward":
        return function(row, logs, *lengths)
    leaf = logs.detach().requires_grad_()
    loss = function(row, leaf, *lengths)
    return torch.autograd.grad(loss, leaf, ahead if loss.dim() else ahead[0])


CALL = functools.partial(outputs, package)
EXPECTED = functools.partial(exactly, functools.partial(outputs, exact))


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(
        row,
        inputs,
        CALL,
        EXPECTED,
        limit=LOSS if row["what"] == "forward" else GRADIENT,
        same_bits=True,
        memory=8 << 30,
    )


def timed_case(what: str, form: str) -> Case:
    """Return a case of speech recognition's size, of which at least the gradients are written."""
    row = usual(AXES, **LARGE, what=what, form=form)
    elements = LARGE["batch"] * LARGE["frames"] * (LARGE["labels"] + 1) * LARGE["symbols"]
    return Case(
        name=f"{what} {form} fp32 {'x'.join(map(str, LARGE.values()))}",
        inputs=functools.partial(inputs, row),
        call=functools.partial(CALL, row),
        expected=functools.partial(EXPECTED, row),
        limit=LOSS if what == "forward" else GRADIENT,
        bytes=4 * elements if what == "gradient" else 0,
        rival=functools.partial(outputs, exact, row),
        rival_name="torch logcumsumexp",
        memory=32 * elements,
    )


GRIDS = ((AXES, exists, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [
        timed_case("forward", "whole"),
        timed_case("gradient", "whole"),
        timed_case("gradient", "gather"),
        *cases_of(*GRIDS),
    ]
