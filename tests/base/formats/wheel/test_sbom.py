"""The bill of materials, parsed by CycloneDX's own library."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest
from cyclonedx.model.bom import Bom

from cuwheel.base.formats.wheel.sbom import Contents, SbomComponent, wheel_sbom
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from tests.support.golden import Golden

CONTENTS = Contents(
    wheel=SbomComponent(name="toy", version="1.0+cu130", license="BSD-3-Clause"),
    source=SbomComponent(name="toy", version="1.0", sha256="b" * 64),
    contained=(SbomComponent(name="cudart_static", version="13.0.96", purl_type="generic"),),
    required=(
        SbomComponent(name="torch", description="torch==2.11.*"),
        SbomComponent(name="nvidia-cuda-runtime", description="nvidia-cuda-runtime>=13.0,<14"),
    ),
    tools=(
        SbomComponent(name="nvcc", version="13.0.88"),
        SbomComponent(name="cuwheel", version="0.1.0"),
    ),
    epoch=1_700_000_000,
)


def test_lists_what_is_in_a_wheel(golden: Golden) -> None:
    """Another serial number changes the bytes of every published wheel."""
    golden.check("formats/sbom.json", wheel_sbom(CONTENTS).decode())


@pytest.mark.parametrize("seed", ["1", "2"])
def test_gives_same_sbom_in_another_process(seed: str) -> None:
    script = (
        "from tests.base.formats.wheel.test_sbom import *; "
        "print(wheel_sbom(CONTENTS).decode(), end='')"
    )
    env = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}

    finished = process.run([sys.executable, "-W", "error", "-c", script], env=env)

    assert finished.output.encode() == wheel_sbom(CONTENTS)


def test_does_not_depend_on_order_of_parts() -> None:
    reversed_contents = replace(
        CONTENTS, required=CONTENTS.required[::-1], tools=CONTENTS.tools[::-1]
    )

    assert wheel_sbom(reversed_contents) == wheel_sbom(CONTENTS)


def test_numbers_other_contents_otherwise() -> None:
    bills = [json.loads(wheel_sbom(replace(CONTENTS, epoch=epoch))) for epoch in (0, 1)]

    assert bills[0]["serialNumber"] != bills[1]["serialNumber"]


def test_parses_back_as_cyclonedx() -> None:
    bom: Bom = Bom.from_json(json.loads(wheel_sbom(CONTENTS)))  # type: ignore[attr-defined]

    assert bom.validate()
    assert bom.metadata.component
    assert str(bom.metadata.component.purl) == "pkg:pypi/toy@1.0%2Bcu130"
