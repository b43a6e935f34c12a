from __future__ import annotations

import pytest

from cuwheel.binaries.symbol_names import gnu_hash, plain_name


@pytest.mark.parametrize(
    ("mangled", "plain"),
    [
        ("_ZNK3c105Error4whatEv", "c10::Error::what"),
        ("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", "c10::detail::torchCheckFail"),
        ("_ZTVN2at18TensorIteratorBaseE", "at::TensorIteratorBase"),
        ("aoti_torch_zeros", "aoti_torch_zeros"),
    ],
)
def test_writes_name_as_a_person(mangled: str, plain: str) -> None:
    assert plain_name(mangled) == plain


def test_hashes_as_the_loader() -> None:
    # The examples of "GNU Hash ELF Sections" (Ali Bahrami).
    assert [gnu_hash(name) for name in ("", "printf", "exit")] == [0x1505, 0x156B2BB8, 0x7C967E3F]
