"""The options of sessions that withdraw wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from cuwheel.cli.parser import Parser


def add_yank_options(parser: Parser) -> None:
    """Let a session withdraw wheels, and take that back."""
    add = parser.add_argument
    add(
        "--yank",
        metavar="FILE|NAME==VERSION",
        help="yank wheels: installers only use them where they are pinned",
    )
    add(
        "--reason",
        default="",
        metavar="TEXT",
        help="with --yank: the reason, shown to users who pinned the wheel",
    )
    add("--unyank", metavar="FILE|NAME==VERSION", help="undo --yank")


def yanks_of(given: argparse.Namespace) -> dict[str, str | None]:
    """What was asked for, as `index.yanks.yank` takes it.

    Raises:
        UsageError: the options don't fit together.
    """
    if given.reason and not given.yank:
        raise UsageError(
            "--reason is for --yank, and nothing is yanked",
            why="it tells users who pinned a wheel why it was yanked",
            fix="choose the wheel: -- --yank NAME==VERSION --reason TEXT",
        )
    if given.yank and given.yank == given.unyank:
        raise UsageError(
            f"--yank and --unyank were both given for {given.yank}",
            why="a wheel is either yanked or not",
            fix="leave out one of them",
        )
    if given.yank and not given.reason:
        raise UsageError(
            "--yank needs a reason",
            why="installers show it to users who pinned the wheel",
            fix='add it: -- --yank NAME==VERSION --reason "crashes on sm_120"',
        )
    pairs = ((given.yank, given.reason), (given.unyank, None))
    return {name: reason for name, reason in pairs if name}
