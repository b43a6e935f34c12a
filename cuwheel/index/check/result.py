"""What is checked and how, and what was found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuwheel import limits
from cuwheel.fetch.retry import RETRY_POLICY
from cuwheel.index.check.rules import BY_CODE, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cuwheel.fetch.retry import RetryPolicy
    from cuwheel.index.check.rules import Finding, Severity


@dataclass(frozen=True, kw_only=True)
class CheckRequest:
    """What is checked, and how.

    Attributes:
        places: addresses of indexes, and folders: of an index or of a site.
        projects: that are checked alone; empty: all.
        is_quick: wheels are read in parts, and not hashed.
        snapshot: file of what was seen before; None: nothing is compared.
        max_download: bytes of files that are downloaded at most.
        retry_policy: how long to go on trying, for each page and file.
    """

    places: tuple[str, ...]
    projects: tuple[str, ...] = ()
    is_quick: bool = False
    snapshot: Path | None = None
    max_download: int = 64 * limits.GIB
    retry_policy: RetryPolicy = RETRY_POLICY


@dataclass(kw_only=True)
class CheckResult:
    """What was found.

    Attributes:
        indexes: the addresses that were checked, without passwords.
        pages: how many pages of projects were read.
        files: how many files were checked.
        downloaded: bytes of files.
        unhashed: how many files weren't compared with their hashes, as a quick check was asked for.
        findings: of each rule the first ones.
        counts: how many there are, by code.
    """

    indexes: tuple[str, ...] = ()
    pages: int = 0
    files: int = 0
    downloaded: int = 0
    unhashed: int = 0
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, findings: Iterable[Finding]) -> None:
        """Keep findings, each once; of one rule no more than anybody reads."""
        for one in dict.fromkeys(findings):
            self.counts[one.code] += 1
            if self.counts[one.code] <= limits.FAULTS:
                self.findings.append(one)

    def count(self, severity: Severity) -> int:
        """How many findings of a severity there are."""
        return sum(found for code, found in self.counts.items() if _severity(code) == severity)

    @property
    def verdict(self) -> Severity | None:
        """The severity of the worst finding; None where there is none."""
        return next((one for one in SEVERITIES if self.count(one)), None)


def _severity(code: str) -> Severity:
    return BY_CODE[code].severity
