"""Folders of wheels, and releases of them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cuwheel.fetch.retry import RetryPolicy
from cuwheel.release.plan import ReleaseRequest
from cuwheel.release.session import plan_release, publish_release
from cuwheel.release.upload import make_upload
from cuwheel.system.console import Console
from cuwheel.system.files import sha256_of_file
from cuwheel.system.output.documents import as_file
from cuwheel.wheel.publication import statement_of
from tests.index.test_entries import STATEMENT
from tests.support.measured import make_run
from tests.support.toy_wheel import add_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.perf.records import CaseResult
    from cuwheel.release.session import Outcome
    from cuwheel.release.upload import UploadRequest


@dataclass(frozen=True, kw_only=True)
class Project:
    """A checkout with wheels, as far as a release looks at it."""

    folder: Path

    @property
    def dist(self) -> Path:
        return self.folder / "dist"

    @property
    def site(self) -> Path:
        return self.folder / "public"

    def add(self, version: str = "1.0+cu130", **options: Any) -> Path:
        """A wheel with its statement."""
        wheel = add_wheel(self.dist, version, **options)
        statement_of(wheel).write_text(json.dumps(STATEMENT))
        return wheel

    def request(self, **changes: Any) -> ReleaseRequest:
        """What is to be released."""
        usual = ReleaseRequest(
            folders=(self.dist,),
            to=self.site,
            work=self.folder / "work",
            reports=(self.folder / "reports",),
            required=(),
            cache=self.folder / "cache",
            checkout=self.folder,
        )
        return replace(usual, **changes)

    def plan(self, **changes: Any) -> Outcome:
        """A dry run."""
        return plan_release(self.request(**changes), None, Console())

    def publish(
        self, destination: UploadRequest | None = None, *, tag: str = "", **changes: Any
    ) -> Outcome:
        """A release."""
        return publish_release(self.request(**changes), destination, Console(), tag=tag)

    def measure(self, wheel: Path, *cases: CaseResult, **changes: Any) -> Path:
        """Leave the record of a measurement."""
        run = make_run(*cases, wheel=wheel.name, sha256=sha256_of_file(wheel), **changes)
        path = self.folder / "reports" / "perf" / "toy" / f"{run.date[:10]}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(as_file(run))
        return path

    def to_server(self, address: str) -> UploadRequest:
        """An index that wheels are uploaded to, by the twine of the tests' environment."""
        made = make_upload(address, "", self.folder / "upload.log")
        quick = RetryPolicy(pause=0.01, attempts=2)
        return replace(made, twine=(sys.executable, "-m", "twine"), retry_policy=quick)
