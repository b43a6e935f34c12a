"""TROUBLESHOOTING.md: the commonest failures, and all that `nox -s explain -- NAME` has more on."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cuwheel.base import errors
from cuwheel.base.errors import EXIT_CODES, CuwheelError
from cuwheel.check.audit import findings
from cuwheel.check.cuda import toolkits
from cuwheel.check.diagnose import verdict
from cuwheel.check.explain.catalogue import FailureCause, causes, groups
from cuwheel.check.explain.explanation import Explainer
from cuwheel.cli.reference.pages import MARK, code, listed, page, read_docstring, table

# Chosen by hand: the causes that collected logs and threads have most, the commonest first.
COMMONEST = (
    *("missing-cuda-headers", "built-without-cuda", "cmake-cuda-compiler-not-found"),
    *("pip-index-lacks-version", "cuda-home-not-set", "isolated-build-no-torch"),
    *("no-cuda-device", "torch-cuda-mismatch", "torch-abi-mismatch", "no-kernel-image"),
    *("oom-killed-compile", "host-compiler-too-new", "arch-newer-than-nvcc", "nvcc-not-found"),
    *("driver-too-old", "glibcxx-too-old", "libcudart-not-found", "python-version-unsupported"),
    *("setuptools-pkg-resources-removed", "submodule-missing"),
)
_FAILURES = "cuwheel/check/explain/failures"
_AUDIT_INTRO = """\
The rules of `nox -s audit` and of a build's stage `audit`. An `error` means that the wheel can't
do what it promises, a `warning` that it only does so under conditions that it doesn't state, a
`note` is for information. Violations of a recipe's contract are always errors."""
_DIAGNOSE_INTRO = """\
Problems that only `nox -s diagnose` finds; its other verdicts name the causes above.
[docs/how-to/diagnose.md](docs/how-to/diagnose.md) has reports of broken environments."""
_INTRO = """\
`nox -s explain -- LOG` finds the decisive line in a log of any tool and prints the fix for that
case; a failed build of cuwheel does so automatically. `nox -s explain -- NAME` prints one entry of
this page in full, offline: `nox -s explain -- cuda-home-not-set`."""
_TOOLS_INTRO = f"""\
Errors of compilers, installers, loaders and frameworks, for packages built by anyone. Their
samples, causes and fixes are data in [{_FAILURES}]({_FAILURES});
[how to add one](docs/how-to/failure-catalogue.md)."""


@dataclass(frozen=True, kw_only=True)
class OwnEntry:
    """An entry on something that cuwheel itself says; `names` are its anchors."""

    names: tuple[str, ...]
    title: str
    summary: str
    text: str


def troubleshooting() -> str:
    """Return the page."""
    commonest = []
    for cause in map(causes().__getitem__, COMMONEST):
        why, fix = (" ".join(texts[-1].split()) for texts in (cause.why, cause.fix))
        commonest.append((f"[{cause.title}](#{cause.slug})", why, fix))
    parts = [
        "# Troubleshooting",
        MARK.format(source="errors.py, explain/failures/ and audit/findings.py"),
        _INTRO,
        "## The commonest failures",
        table(("what goes wrong", "cause", "fix"), commonest),
        '<a id="tools"></a>\n\n## All causes',
        _TOOLS_INTRO,
    ]
    for group in groups():
        rows = [(f"{_anchored(cause.slug)} ({cause.stage})", cause.title) for cause in group.causes]
        parts += [f"### {group.title}", listed(rows)]
    errors_table = _errors_table(lambda entry: " ".join(map(_anchored, entry.names)))
    parts += ["## What cuwheel says", _errors_intro(), errors_table]
    for heading, intro, entries in _findings():
        found = [(_anchored(*entry.names), entry.summary) for entry in entries]
        parts += [heading, intro, listed(found)]
    return page(parts)


def entry_of(name: str) -> str | None:
    """Return the entry that an error, a report or TROUBLESHOOTING.md names, as Markdown.

    Args:
        name: `cuda-home-not-set`, `#cuda-home-not-set` or `TROUBLESHOOTING.md#cuda-home-not-set`.

    Returns:
        None where there is none of this name.
    """
    anchor = name.rpartition("#")[2]
    if cause := causes().get(anchor):
        return f"# {cause.title}\n\n{cause_text(cause, Explainer())}"
    own = (entry for entry in _own_entries() if anchor in entry.names)
    return next((f"# {entry.title}\n\n{entry.text}" for entry in own), None)


def entry_names() -> list[str]:
    """Return the name of every entry, without `#`."""
    return [*causes(), *(name for entry in _own_entries() for name in entry.names)]


def _own_entries() -> Iterator[OwnEntry]:
    yield from error_entries()
    for _, _, entries in _findings():
        yield from entries


def error_entries() -> tuple[OwnEntry, ...]:
    """Return the entry of every error of cuwheel, by exit code."""
    entries = []
    for kind in error_classes():
        name, docstring = kind.__name__.removesuffix("Error"), read_docstring(kind)
        words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
        entry = OwnEntry(
            names=kind.anchors,
            title=words.strip().capitalize(),
            summary=docstring.summary,
            text=f"Exit code {_codes(kind)}. {docstring.text}",
        )
        entries.append(entry)
    return tuple(entries)


def error_classes() -> tuple[type[CuwheelError], ...]:
    """Return every error that has an entry, by exit code."""
    classes = [
        kind
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, CuwheelError) and kind.anchor
    ]
    return tuple(sorted(classes, key=lambda kind: kind.exit_code))


def _codes(kind: type[CuwheelError]) -> str:
    """Return `20`, or `20 (toolchain), 21 (damaged-packages)` of an error with several."""
    if len(kind.anchors) == 1:
        return str(kind.exit_code)
    return ", ".join(f"{EXIT_CODES[anchor]} ({anchor})" for anchor in kind.anchors)


def _findings() -> Iterator[tuple[str, str, list[OwnEntry]]]:
    """Yield heading, introduction and entries of what audit and diagnose find."""
    rules = [
        OwnEntry(
            names=(rule.anchor,),
            title=f"{rule.name[0].upper()}{rule.name[1:]}",
            summary=rule.summary,
            text=f"{rule.summary} {rule.text}",
        )
        for rule in findings.RULES
    ]
    yield "## What the audit finds", _AUDIT_INTRO, rules
    own = [
        OwnEntry(names=(anchor,), title=entry.title, summary=entry.title, text=entry.text)
        for anchor, entry in verdict.OWN_ENTRIES.items()
    ]
    yield "## What diagnose finds", _DIAGNOSE_INTRO, own


def cause_text(cause: FailureCause, explainer: Explainer) -> str:
    """Return the entry of a cause, without its title.

    Its sample is explained as a log would be, so that the entry has what `explain` prints.
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


def errors_page() -> str:
    """Return the site's page of errors, with their entries."""
    links = _errors_table(lambda entry: f"[{entry.title}](#{entry.names[0]})")
    entries = [_section(entry, "##") for entry in error_entries()]
    return page(["# Errors of cuwheel", _errors_intro(), links, *entries])


def findings_page() -> str:
    """Return the site's page of what audit and diagnose find, with the entries."""
    parts = ["# Findings of audit and diagnose"]
    for heading, intro, entries in _findings():
        parts += [heading, intro, *(_section(entry, "###") for entry in entries)]
    return page(parts)


def _section(entry: OwnEntry, level: str) -> str:
    anchors = "\n\n".join(f'<a id="{name}"></a>' for name in entry.names)
    return f"{anchors}\n\n{level} {entry.title}\n\n{entry.text}"


def _anchored(anchor: str) -> str:
    return f'<a id="{anchor}"></a>{code(anchor)}'


def _errors_table(name: Callable[[OwnEntry], str]) -> str:
    codes = (
        ", ".join(str(EXIT_CODES[anchor]) for anchor in kind.anchors) for kind in error_classes()
    )
    rows = [
        (number, name(entry), entry.summary)
        for number, entry in zip(codes, error_entries(), strict=True)
    ]
    return table(("exit code", "error", "what happened"), rows)


def _errors_intro() -> str:
    try:
        toolkits.check_archs("causal-conv1d", toolkits.TOOLKITS[-1], ("70",))
        raise ValueError("the table of toolkits now knows sm_70: take another sample")
    except CuwheelError as error:
        sample = str(error)
    return f"""\
An error is printed once, at the end:

```
{sample}
```

The last line names an entry: `nox -s explain -- recipe` prints it. nox itself always
exits with status 1 on failure; the exit codes are those of the engine (`python -m cuwheel`), and
nox prints them. 130 means that Ctrl-C was pressed, 143 that cuwheel received SIGTERM or SIGHUP: no
partial files are left, and the next run continues from there."""
