"""Verdicts on failures: by a variable, by the message, or by what experiments have isolated."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from cuwheel.check.diagnose.facts.environment import Distribution
from cuwheel.check.diagnose.facts.installed_files import Shadow
from cuwheel.check.diagnose.facts.isolation import Isolation
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.rules.import_failures import (
    FIRST,
    exception_in,
    explain,
    explain_variable,
)
from cuwheel.check.diagnose.rules.known_causes import BACKENDS, judge_known
from cuwheel.check.diagnose.rules.requirements import requirers
from cuwheel.check.diagnose.rules.shadows import fix_shadow
from cuwheel.check.diagnose.verdict import Diagnosis, broken

_OF_BACKEND = re.compile(r"backend\b|No module named")
_UNCLEAR = frozenset({"diagnose-import-failed", "numpy-abi-mismatch"})
_SHOWN = 300  # characters of a message


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Something that fails.

    Attributes:
        what: fails, `jax 0.5.3 can't be imported`.
        text: the end of a traceback.
        owner: of what fails.
        state: what is so where it doesn't fail.
        remedy: the command (may be empty) of a fault that is to be fixed first; None: none is.
        is_clear: its message is enough, so that it needs no experiment.
    """

    what: str
    text: str
    owner: Distribution
    state: str = "it can be imported"
    remedy: str | None = None
    is_clear: bool = False


def judge_cause(failure: Failure, context: RuleContext) -> Diagnosis | None:
    """Return the verdict on a failure; None: neither a rule nor an experiment shows the cause.

    Experiments take long: there are none where another fault is known, or the message is enough.
    """
    what, text, owner = failure.what, failure.text, failure.owner
    if change := context.changes.get(owner.name):
        anchor, line, fix, command = explain_variable(text, change, failure.state)
        return broken(anchor, what, line, fix, command)
    if known := judge_known(what, text, owner, context, failure.remedy):
        return known
    is_clear = failure.is_clear or explain(text, "")[0] not in _UNCLEAR
    if failure.remedy is not None or is_clear or not text:
        return None
    isolation = context.isolate(owner.name)
    return _judge(failure, isolation, context) if isolation else None


def _judge(failure: Failure, isolation: Isolation, context: RuleContext) -> Diagnosis | None:
    line = explain(failure.text, "")[1]
    if not isolation.kind:
        return _judge_place(failure, isolation, line, context)
    anchor, without, fix, command = _explain(isolation, line, context)
    if command and command in context.printed():
        fix = FIRST
    state = "it fails otherwise" if isolation.rest else failure.state
    cause = f"{line}; {without} {state}"
    return broken(anchor, failure.what, f"{cause} ({isolation.evidence})", fix, command)


def _judge_place(
    failure: Failure, isolation: Isolation, line: str, context: RuleContext
) -> Diagnosis | None:
    """Judge a failure that no experiment removes, in a file of another package."""
    if isolation.is_cut:
        name = failure.owner.name
        return broken(
            "diagnose-import-failed",
            failure.what,
            f"{line}; the search for the cause ended at its limit ({isolation.evidence})",
            f"name it alone, which gives it all the time: nox -s diagnose -- {name}",
        )
    owner = context.environment.distributions.get(isolation.project)
    if owner is None or owner.name == failure.owner.name or explain(failure.text, "")[2]:
        return None
    tried = f" ({isolation.evidence})" if isolation.trials else ""
    return broken(
        "diagnose-import-failed",
        failure.what,
        f"{line}; it comes from {isolation.path} of {owner.title}{tried}",
        f"install {owner.title} again, or another release that {failure.owner.title} works with",
    )


def _explain(isolation: Isolation, line: str, context: RuleContext) -> tuple[str, str, str, str]:
    """Return the entry, the change after which it works, and the fix in words and as a command."""
    path, installed = isolation.path or Path(), context.environment.distributions
    if isolation.kind == "package":
        return _explain_package(installed[isolation.project], isolation, context)
    if isolation.kind == "home":
        words = f"look for settings and caches in {path}, and move them away one by one"
        return "diagnose-import-failed", f"with another home folder than {path}", words, ""
    away = shlex.join(("mv", str(path), f"{path}.off"))
    if isolation.kind == "file":
        fix, command = f"correct {path}, or move it away", "" if isolation.rest else away
        backend = next((name for name in (*BACKENDS, "tensorflow") if name in installed), "")
        if path.name == "keras.json" and backend and isolation.rest:  # it needs one all the same
            choice = f"export KERAS_BACKEND={backend}"
            fix = f"correct {path}: {backend} is installed"
            command = choice if _OF_BACKEND.search(line) else f"{away} && {choice}"
        return "diagnose-import-failed", f"without {path}", fix, command
    if isolation.kind == "startup":
        fix = f"correct {path}, which each start of Python runs, or move it away"
        return "diagnose-startup-file", f"without {path}", fix, away
    if isolation.kind == "entry":
        shadow = Shadow(distribution="", module="", path=path, entry=path)
        fix, command = fix_shadow(context, shadow)
        return "diagnose-shadowed-module", f"without {path} on sys.path", fix, command
    fix = "no installed package has that file: rename it, or move it away"
    return "diagnose-shadowed-module", f"without {path}", fix, away


def _explain_package(
    own: Distribution, isolation: Isolation, context: RuleContext
) -> tuple[str, str, str, str]:
    users = sorted(requirers(context.environment).get(own.name, {}))
    alone = exception_in(isolation.failure)[:_SHOWN]
    why = f" (alone it fails too: {alone})" if alone else ""
    without = f"without {own.title}{why}"
    if users:
        fix = f"install {own.name} again, or another release: {', '.join(users)} requires it"
        return "diagnose-import-failed", without, fix, context.installer.reinstall(own)
    fix = f"remove {own.name}, which is optional, or install another release of it"
    return "diagnose-import-failed", without, fix, context.installer.remove((own.name,))
