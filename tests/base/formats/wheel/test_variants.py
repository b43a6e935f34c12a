from __future__ import annotations

import json
from pathlib import Path

import pytest
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from variantlib.variant_dist_info import VariantDistInfo
from variantlib.variants_json import VariantsJson

from cuwheel.base.formats.wheel.archive import open_wheel
from cuwheel.base.formats.wheel.variants import (
    VARIANT_JSON,
    cuda_variant,
    split_variant,
    variant_document,
    variant_name,
    variants_document,
    variants_name,
    write_variant,
)
from cuwheel.base.system.files import sha256_of_file
from tests.support.factories import write_wheel

PLAIN = "toy-1.0+cu130-cp312-cp312-manylinux_2_34_x86_64.whl"


@pytest.mark.parametrize(
    ("majors", "archs", "label"),
    [
        ((13,), ("90",), "cu13_sm90"),
        ((12,), ("80", "90", "90a"), "cu12_sm80_sm90"),
        ((13,), ("90a", "100f"), ""),
        ((12, 13), ("90",), ""),
        ((), ("90",), ""),
        ((13,), (), ""),
    ],
)
def test_labels_requirements_of_machine_code(
    majors: tuple[int, ...], archs: tuple[str, ...], label: str
) -> None:
    variant = cuda_variant(majors, archs)

    assert (variant.label if variant else "") == label


@pytest.mark.parametrize(
    ("name", "plain", "label"),
    [
        (PLAIN, PLAIN, ""),
        (f"{PLAIN[:-4]}-cu13_sm90.whl", PLAIN, "cu13_sm90"),
        ("toy-1.0-1-py3-none-any.whl", "toy-1.0-1-py3-none-any.whl", ""),
        ("toy-1.0-1-py3-none-any-x86_64_v3.whl", "toy-1.0-1-py3-none-any.whl", "x86_64_v3"),
        ("toy-1.0.tar.gz", "toy-1.0.tar.gz", ""),
    ],
)
def test_splits_names(name: str, plain: str, label: str) -> None:
    assert split_variant(name) == (plain, label)


def test_installers_of_today_know_no_such_name() -> None:
    variant = cuda_variant((13,), ("90",))
    assert variant

    with pytest.raises(InvalidWheelFilename):
        parse_wheel_filename(variant_name(PLAIN, variant))


def test_variantlib_reads_what_is_written(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {"toy.py": b"A = 1\n"}, name="toy", version="1.0")
    variants = [cuda_variant((13,), archs) for archs in (("90",), ("100", "120"))]
    documents = []
    for variant in variants:
        assert variant
        path = tmp_path / "out" / variant_name(wheel.name, variant)
        write_variant(wheel, path, variant, tmp_path)
        with open_wheel(path) as opened:
            text = opened.read_text(VARIANT_JSON)
        documents.append(json.loads(text))
        described = VariantDistInfo(text.encode(), variant.label).variant_desc
        assert {fact.to_str() for fact in described.properties} == {
            "nvidia :: cuda_version_lower_bound :: 13.0",
            *(f"nvidia :: sm_arch :: {value}" for value in variant.properties["sm_arch"]),
        }

    together = VariantsJson(json.loads(variants_document(documents)))

    assert set(together.variants) == {"cu13_sm90", "cu13_sm100_sm120"}
    assert variants_name(wheel.name) == "toy-1.0-variants.json"


def test_is_the_plain_wheel_and_one_file_more(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {"toy.py": b"A = 1\n"}, name="toy", version="1.0", year=2024)
    variant = cuda_variant((13,), ("90",))
    assert variant
    paths = [tmp_path / folder / variant_name(wheel.name, variant) for folder in "ab"]

    for path in paths:
        write_variant(wheel, path, variant, tmp_path)

    with open_wheel(wheel) as plain, open_wheel(paths[0]) as written:
        more = set(written.names) - set(plain.names)
        assert more == {f"{plain.dist_info}/{VARIANT_JSON}"}
        same = [name for name in plain.names if not name.endswith("RECORD")]
        assert all(written.archive.read(name) == plain.archive.read(name) for name in same)
        assert {entry.date_time[0] for entry in written.archive.infolist()} == {2024}
        assert f"{plain.dist_info}/{VARIANT_JSON}" in written.read_text("RECORD")
    assert sha256_of_file(paths[0]) == sha256_of_file(paths[1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", wheel.name]
    assert json.loads(variants_document([variant_document(variant)]))["variants"]
