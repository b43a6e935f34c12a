"""The rules of an index check, from which docs/reference/index-check.md is generated.

Sources: the specification "Simple repository API" (packaging.python.org), which holds PEP 503, 592,
658, 691, 700 and 714, and the behaviour of pip and uv where it is broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from cuwheel.base import limits
from cuwheel.check.audit.findings import Severity

# The worst first: installers fail or install other files than were published; some installers lack
# a capability.
SEVERITIES: tuple[Severity, ...] = ("error", "warning")


@dataclass(frozen=True, kw_only=True)
class IndexRule:
    """A rule for indexes."""

    code: str
    severity: Severity = "error"
    summary: str
    why: str
    fix: str


RULES = (
    IndexRule(
        code="page",
        summary="A page can't be read.",
        why="Installers report that there is no such project, or stop.",
        fix="Serve the page that the list of projects names, in the format of PEP 503 or 691.",
    ),
    IndexRule(
        code="entry",
        summary="An entry of a page isn't in the format of PEP 691.",
        why="Installers refuse the whole page, or ignore the file.",
        fix="Write the field with the type that the specification requires.",
    ),
    IndexRule(
        code="project-name",
        summary="A project's name or address isn't normalized, or is another project's.",
        why="Installers request the normalized name (PEP 503): lower case, `-` for each run of "
        "`-_.`. They don't find a project at another address.",
        fix="Put the page below its normalized name, and link it there.",
    ),
    IndexRule(
        code="file-name",
        summary="A file's name isn't one that pip accepts, or names another project.",
        why="Installers read project, version and tags from the name, and ignore a file whose "
        "name they can't parse.",
        fix="Build the file again; don't rename wheels manually but with `wheel tags`.",
    ),
    IndexRule(
        code="duplicate",
        summary="A page lists a file twice.",
        why="Which of the two is installed depends on the installer.",
        fix="List each file once; give a rebuilt wheel a build tag.",
    ),
    IndexRule(
        code="link",
        summary="A link doesn't point to a file of that name.",
        why="The text of a link has to be the last part of its address (PEP 503), and the "
        "address has to be http, https or file: installers read the name from either.",
        fix="Correct the link.",
    ),
    IndexRule(
        code="insecure-link",
        severity="warning",
        summary="A page served over https links a file over http.",
        why="An attacker on the network can replace the file, and without a hash on the page "
        "nobody notices; pip refuses the host.",
        fix="Link over https, or with a relative address.",
    ),
    IndexRule(
        code="no-hash",
        summary="A file has no hash that can be checked, or only a weak one.",
        why="It can't be verified that the downloaded file is the published one: anybody can "
        "create two files with the same MD5 or SHA-1.",
        fix="Add the SHA-256: `#sha256=...` at the end of the link, `hashes` in JSON.",
    ),
    IndexRule(
        code="missing",
        summary="A file isn't where its page says.",
        why="Installing it fails.",
        fix="Upload the file again; to withdraw a file, leave it there and yank it (PEP 592).",
    ),
    IndexRule(
        code="unreachable",
        summary="A server doesn't answer a request for a file, or the connection breaks.",
        why="Installing it fails; its content couldn't be checked.",
        fix="Check again later; if the error remains, look at the server's log.",
    ),
    IndexRule(
        code="size",
        summary="A file's size isn't the one that its page gives.",
        why="uv's progress and free-space checks are wrong, and the page or the file is not the "
        "published one.",
        fix="Write the page again from the published file.",
    ),
    IndexRule(
        code="hash",
        summary="A file doesn't have the hash that its page gives.",
        why="pip and uv refuse it. It was damaged or replaced, or the page is for another file.",
        fix="First find out which of them is right; then upload the published file, or publish "
        "the other one with a build tag.",
    ),
    IndexRule(
        code="archive",
        summary="A wheel is not a valid archive.",
        why="Installers refuse it, or unpack something other than what was built.",
        fix="Build it again: `nox -s audit -- FILE` says what is wrong with it.",
    ),
    IndexRule(
        code="record",
        summary="RECORD doesn't match the wheel's content.",
        why="Installers that check it refuse the wheel, and the installed package can't be "
        "verified or removed completely.",
        fix="Build it again; something changed it after it was packed.",
    ),
    IndexRule(
        code="wheel-name",
        summary="A wheel's METADATA names another project or version than its file name.",
        why="pip refuses it after the download.",
        fix="Build it again with the right name.",
    ),
    IndexRule(
        code="metadata-missing",
        summary="The page announces a METADATA file that isn't there.",
        why="pip and uv request it first (PEP 658) and stop with 404.",
        fix="Put the wheel's METADATA beside it as `<wheel>.metadata`, or don't announce it.",
    ),
    IndexRule(
        code="metadata",
        summary="The METADATA file isn't the wheel's, or hasn't the hash that the page gives.",
        why="Installers resolve with the first and install the second: the dependencies differ "
        "from those that were resolved.",
        fix="Copy the bytes from the wheel; both have to be identical (PEP 658).",
    ),
    IndexRule(
        code="requires-python",
        summary="The page gives other Python versions than the wheel, or an invalid specifier.",
        why="Installers ignore a wheel that is compatible, or install one that isn't.",
        fix="Write the page's attribute from the wheel's METADATA.",
    ),
    IndexRule(
        code="forms",
        summary="The HTML and the JSON form of a page disagree.",
        why="pip and uv read JSON, older installers and plain servers HTML: they see different "
        "files.",
        fix="Write both from the same list.",
    ),
    IndexRule(
        code="unread",
        severity="warning",
        summary="A file wasn't read.",
        why="Its hash, METADATA and RECORD weren't checked.",
        fix="With --quick the server has to support range requests (`Range`), otherwise leave "
        "it out; raise --max-download, or name fewer projects with --only.",
    ),
    IndexRule(
        code="requirements",
        severity="warning",
        summary="Wheels of one release have different requirements.",
        why="uv reads the METADATA of one wheel and locks its requirements for all of them (its "
        "documentation, Resolution).",
        fix="Write all requirements into each wheel, with environment markers where they "
        "differ; or publish the wheels under different versions.",
    ),
    IndexRule(
        code="changed",
        summary="A published file name now has other bytes.",
        why="Every lock that names the file fails, and users who installed it before and after "
        "have two different files. This is what an attack on an index looks like.",
        fix="Restore the published file, and publish the other one with a build tag. If the "
        "change is intended, remove the snapshot.",
    ),
    IndexRule(
        code="vanished",
        summary="A published file is no longer listed.",
        why="Locks and builds that name it fail.",
        fix="Restore it; yank it if nobody should install it. If it is intended, remove the "
        "snapshot.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A violation of a rule, with its place."""

    code: str
    where: str
    fact: str


@dataclass(kw_only=True)
class CheckResult:
    """Violations and counts.

    Attributes:
        downloaded: bytes of files.
        unhashed: files that a quick check didn't compare with their hashes.
    """

    indexes: tuple[str, ...] = ()
    pages: int = 0
    files: int = 0
    downloaded: int = 0
    unhashed: int = 0
    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, violations: Iterable[Violation]) -> None:
        """Add violations, each once; beyond a limit those of one rule are only counted."""
        for violation in dict.fromkeys(violations):
            self.counts[violation.code] += 1
            if self.counts[violation.code] <= limits.FAULTS:
                self.violations.append(violation)

    def count(self, severity: Severity) -> int:
        """Return the number of violations of a severity."""
        return sum(self.counts[rule.code] for rule in RULES if rule.severity == severity)

    def broken_rules(self) -> tuple[IndexRule, ...]:
        """Return the violated rules, the worst first."""
        broken = [rule for rule in RULES if self.counts[rule.code]]
        return tuple(sorted(broken, key=lambda rule: SEVERITIES.index(rule.severity)))
