from __future__ import annotations

import pytest

from cuwheel.binaries.symbol_names import gnu_hash, has_old_string, plain_name


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


@pytest.mark.parametrize(
    ("mangled", "has_it"),
    [
        ("_ZN3c105ErrorC1ESsSsPKv", True),
        ("_ZN2at4viewERKSt6vectorISsSaISsEE", True),
        ("_ZN2at4fourILj4EEEvRA2_S1_Ss", True),
        ("_ZN2at5SsortEv", False),
        ("_ZN2at4viewES_s", False),
        ("_ZN3c105ErrorC1ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", False),
    ],
)
def test_finds_old_string(mangled: str, *, has_it: bool) -> None:
    assert has_old_string(mangled) is has_it


def test_hashes_as_the_loader() -> None:
    # The examples of "GNU Hash ELF Sections" (Ali Bahrami).
    assert [gnu_hash(name) for name in ("", "printf", "exit")] == [0x1505, 0x156B2BB8, 0x7C967E3F]
