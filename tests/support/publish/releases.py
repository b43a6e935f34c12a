"""Folders of wheels, and releases of them."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cuwheel.base.caller import Caller
from cuwheel.base.formats.wheel.publication import statement_of
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.output.documents import as_file
from cuwheel.lab.perf.records import CaseResult
from cuwheel.publish.release.plan import ReleaseRequest
from cuwheel.publish.release.release import ReleaseDocument, plan_release, publish_release
from cuwheel.publish.release.upload import UploadRequest, make_upload
from tests.build.wheelhouse.test_entries import STATEMENT
from tests.support.lab.perf_runs import make_run
from tests.support.packages.toy_wheel import add_wheel


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

    def plan(self, **changes: Any) -> ReleaseDocument:
        """A dry run."""
        return plan_release(self.request(**changes), None, Console())

    def publish(
        self, destination: UploadRequest | None = None, *, tag: str = "", **changes: Any
    ) -> ReleaseDocument:
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
        made = make_upload(address, "", self.folder / "upload.log", Caller(os.environ))
        return replace(made, twine=(sys.executable, "-m", "twine"))
