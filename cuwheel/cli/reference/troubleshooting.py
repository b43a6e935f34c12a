"""TROUBLESHOOTING.md: what cuwheel itself says, what tools say, what the audit finds."""

from __future__ import annotations

import inspect
import io
import itertools
from typing import TYPE_CHECKING

from cuwheel import errors
from cuwheel.audit import findings
from cuwheel.cli.reference.pages import MARK, page, read_docstring, table
from cuwheel.cuda import toolkits
from cuwheel.diagnose import verdict
from cuwheel.errors import CuwheelError
from cuwheel.explain.catalogue import groups
from cuwheel.explain.explanation import Explainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.explain.catalogue import FailureCause, Group


# Exit codes are given out by what a reader was doing: each of these opens a group of errors.
_GROUPS = {
    2: "The command line and the recipe",
    10: "Locks and packages",
    20: "The CUDA toolchain",
    30: "The source and its patches",
    50: "Before the build",
    60: "The package's own build",
    70: "The finished wheel",
    100: "Publishing",
    110: "Single stages",
    120: "The machine",
}
_AUDIT_INTRO = """\
The rules of `nox -s audit` and of a build's stage `audit`. An `error` means that the wheel can't
do what it promises, a `warning` that it only does so under conditions that it doesn't state, a
`note` is for information. Violations of a recipe's contract are always errors."""
_DIAGNOSE_INTRO = """\
Problems that only `nox -s diagnose` finds; its other verdicts link to the entries of known
failures.
[docs/how-to/diagnose.md](docs/how-to/diagnose.md) shows reports of broken environments."""
_INTRO = """\
Pass any log to `nox -s explain -- LOG` (a failed build of cuwheel does so automatically): it
finds the decisive line, and says what to do in your case. The failures that it knows are
[below](#tools)."""
_TOOLS_INTRO = """\
Errors of compilers, installers, loaders and frameworks, for packages built by anyone. Each entry
begins with a sample; paths and versions differ from case to case. The entries are data under
cuwheel/explain/failures/; [how to add one](docs/how-to/failure-catalogue.md)."""


def error_classes() -> tuple[type[CuwheelError], ...]:
    """Every error that a reader can meet, by exit code."""
    classes = [
        kind
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, CuwheelError) and kind.anchor
    ]
    return tuple(sorted(classes, key=lambda kind: kind.exit_code))


def troubleshooting() -> str:
    """The page."""
    index = [row for group in groups() for row in _rows(group)]
    explainer = Explainer()
    parts = [
        "# Troubleshooting",
        MARK.format(source="errors.py, explain/failures/ and audit/findings.py"),
        _INTRO,
        "## What cuwheel says",
        *errors_section("###"),
        '<a id="tools"></a>\n\n## What tools say',
        _TOOLS_INTRO,
        table(("what", "where it shows"), index),
    ]
    for one in groups():
        parts += [f"### {one.title}", one.about]
        parts += [_cause_entry(cause, explainer) for cause in one.causes]
    return page([*parts, *findings_section()])


def errors_section(level: str) -> list[str]:
    """What cuwheel says, error by error.

    Args:
        level: of the headings of groups, `###`; those of errors are one below.
    """
    found = error_classes()
    rows = [
        (str(kind.exit_code), f"[{_title(kind)}](#{kind.anchor})", read_docstring(kind).summary)
        for kind in found
    ]
    parts = [_errors_intro(), table(("exit code", "error", "what it says"), rows)]
    for group, kinds in itertools.groupby(found, _group):
        parts += [f"{level} {group}", *(_entry(kind, f"{level}#") for kind in kinds)]
    return parts


def findings_section() -> list[str]:
    """What the audit finds, and what only diagnose does."""
    parts = ["## What the audit finds", _AUDIT_INTRO, *map(_rule_entry, findings.RULES)]
    parts += ["## What diagnose finds", _DIAGNOSE_INTRO]
    return parts + [
        f'<a id="{anchor}"></a>\n\n### {entry.title}\n\n{entry.text}'
        for anchor, entry in verdict.OWN_ENTRIES.items()
    ]


def _rows(group: Group) -> Iterator[tuple[str, str]]:
    yield f"**{group.title}**", ""
    for cause in group.causes:
        yield f"[{cause.title}](#{cause.slug})", cause.stage


def _cause_entry(cause: FailureCause, explainer: Explainer) -> str:
    heading = f'<a id="{cause.slug}"></a>\n\n#### {cause.title}'
    return f"{heading}\n\n{cause_text(cause, explainer)}"


def cause_text(cause: FailureCause, explainer: Explainer) -> str:
    """What a page says of a cause, without its title.

    Its sample is explained as a log would be, so that the page shows what `explain` says.
    """
    sample = cause.examples[0]
    answer = explainer.explain(io.BytesIO(sample.encode())).causes[0]
    fix = " ".join(cause.fix[-1].split())
    links = "; ".join(f"<{link}>" for link in cause.links)
    parts = [
        f"```\n{sample}\n```",
        f"**Root cause.** {' '.join(cause.why[-1].split())}",
        f"**Fix.** {fix}",
        f"**With this sample.** {answer.fix}" if answer.fix != fix else "",
        f"**Confirm.** {cause.confirm}",
        f"**More.** {links}" if links else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _rule_entry(rule: findings.Rule) -> str:
    heading = f'<a id="{rule.anchor}"></a>\n\n### {rule.name[0].upper()}{rule.name[1:]}'
    return f"{heading}\n\n{rule.summary} {rule.text}"


def _group(kind: type[CuwheelError]) -> str:
    return _GROUPS[max(first for first in _GROUPS if first <= kind.exit_code)]


def _errors_intro() -> str:
    return f"""\
An error is printed once, at the end:

```
{_sample_error()}
```

The last line refers to one of the entries below. nox itself always exits with status 1 on failure;
the exit codes are those of the engine (`python -m cuwheel`), and nox prints them. 130 means that
Ctrl-C was pressed, 143 that cuwheel received SIGTERM or SIGHUP: no partial files are left, and the
next run continues from there."""


def _sample_error() -> str:
    try:
        toolkits.check_archs("causal-conv1d", toolkits.TOOLKITS[-1], ("70",))
    except CuwheelError as error:
        return str(error)
    raise ValueError("the table of toolkits now knows sm_70: take another sample")


def _title(kind: type[CuwheelError]) -> str:
    """`Unsupported arch` for `UnsupportedArchError`."""
    name = kind.__name__.removesuffix("Error")
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return words.strip().capitalize()


def _entry(kind: type[CuwheelError], level: str) -> str:
    heading = f'<a id="{kind.anchor}"></a>\n\n{level} {_title(kind)}'
    return f"{heading}\n\nExit code {kind.exit_code}. {read_docstring(kind).text}"
