"""Fifteen machines and eight packages on the public index: each answer of `pick` and its file.

The answers of one day, beside uv's: docs/evidence/2026-11-30-pick.md.
"""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cuwheel.base.fetch.indexes.indexes import configured_indexes
from cuwheel.base.fetch.indexes.offers import Offer
from cuwheel.base.fetch.remote_file import open_remote
from cuwheel.check.pick.choice import choose, query_indexes
from cuwheel.check.pick.contents import WheelContents, read_contents
from cuwheel.check.pick.fit import RemoteWheelFacts, WheelJudge
from cuwheel.check.pick.machine import parse_machine

pytestmark = pytest.mark.nightly

PACKAGES = (
    *("flash-attn", "mamba-ssm", "causal-conv1d", "xformers", "bitsandbytes", "torchvision"),
    *("torchaudio", "cupy-cuda13x"),
)
MACHINES = {
    "H100, new": "python=3.12,torch=2.14,cuda=13.0,arch=90,glibc=2.39,driver=580.95.05",
    "H100, torch 2.11": "python=3.12,torch=2.11,cuda=13.0,arch=90,glibc=2.39,driver=580.95.05",
    "H100, torch 2.9": "python=3.12,torch=2.9,cuda=12.8,arch=90,glibc=2.35,driver=570.211.01",
    "A100, old driver": "python=3.11,torch=2.6,cuda=12.4,arch=80,glibc=2.31,driver=525.147.05",
    "A100, CentOS 7": "python=3.10,torch=2.5,cuda=12.4,arch=80,glibc=2.17,driver=535.261.03",
    "RTX 4090": "python=3.12,torch=2.8,cuda=12.8,arch=89,glibc=2.39,driver=570.211.01",
    "RTX 3090": "python=3.11,torch=2.7,cuda=12.6,arch=86,glibc=2.35,driver=560.35.05",
    "RTX 5090": "python=3.13,torch=2.9,cuda=13.0,arch=120,glibc=2.39,driver=580.95.05",
    "B200": "python=3.12,torch=2.11,cuda=13.0,arch=100,glibc=2.39,driver=580.95.05",
    "DGX Spark": "python=3.12,torch=2.11,cuda=13.0,arch=121,glibc=2.39,driver=580.95.05,"
    "platform=aarch64",
    "GH200": "python=3.12,torch=2.9,cuda=12.8,arch=90,glibc=2.35,driver=570.211.01,"
    "platform=aarch64",
    "V100": "python=3.11,torch=2.5,cuda=12.4,arch=70,glibc=2.28,driver=535.261.03",
    "T4": "python=3.11,torch=2.6,cuda=12.4,arch=75,glibc=2.35,driver=550.163.01",
    "L4, Python 3.14": "python=3.14,torch=2.11,cuda=13.0,arch=89,glibc=2.39,driver=580.95.05",
    "free-threaded": "python=3.14t,torch=2.11,cuda=13.0,arch=90,glibc=2.39,driver=580.95.05",
}


@pytest.mark.parametrize("package", PACKAGES)
def test_file_of_each_answer_fits(package: str, tmp_path: Path) -> None:
    wanted = Requirement(package)
    offers = query_indexes(wanted, configured_indexes(os.environ))
    assert offers.files, offers.faults

    @cache
    def contents(offer: Offer) -> WheelContents | None:
        wheel = tmp_path / offer.name
        with open_remote(offer.url) as source, wheel.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 22)
        known = read_contents(wheel)
        wheel.unlink()
        return known

    wrong = []
    for name, paper in MACHINES.items():
        machine = parse_machine(paper if "platform=" in paper else f"{paper},platform=x86_64")
        taken = choose(offers, machine, wanted).taken
        if taken:
            facts = RemoteWheelFacts(contents=contents(taken.offer))
            judged = WheelJudge(taken.offer, machine, facts, wanted).judge()
            wrong += [(name, taken.offer.name, reason.text) for reason in judged.reasons]

    assert not wrong
