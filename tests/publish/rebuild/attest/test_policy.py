from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from cuwheel.base.errors import FileAccessError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.publish.rebuild.attest.policy import read_policy
from cuwheel.publish.rebuild.attest.sigstore import Identity
from tests.support.golden import Golden
from tests.support.publish.statements import make_keys, write_policy


@pytest.fixture
def words(tmp_path: Path) -> dict[str, str]:
    """The words of two keys, by name."""
    keys = make_keys(tmp_path / "keys", "alice", "bob")
    return {name: key.public.word for name, key in keys.items()}


def test_reads_what_a_person_writes(words: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "rebuilders.txt"
    path.write_text(
        f"# who counts\n\nthreshold 1  # of two\n  alice {words['alice']}\n"
        f"bob@example.org {words['bob']} until=2027-06-30 # leaves\n"
    )

    policy = read_policy(path)

    assert policy.threshold == 1
    assert [(rebuilder.name, rebuilder.until) for rebuilder in policy.rebuilders] == [
        ("alice", None),
        ("bob@example.org", datetime.date(2027, 6, 30)),
    ]


def test_reads_an_identity_and_roots(tmp_path: Path) -> None:
    path = tmp_path / "rebuilders.txt"
    path.write_text(
        "threshold 1\ncarol identity=c@example.org issuer=https://i.test until=2027-06-30\n"
        "trusted-root roots/trusted_root.json\n"
    )

    policy = read_policy(path)

    assert policy.identities == (Identity(identity="c@example.org", issuer="https://i.test"),)
    assert policy.rebuilders[0].until == datetime.date(2027, 6, 30)
    assert policy.trusted_root == tmp_path / "roots" / "trusted_root.json"


_BAD = (
    "",
    "alice {alice}",
    "threshold 1\nthreshold 2\nalice {alice}\nbob {bob}",
    "threshold 2\nalice {alice}",
    "threshold 0\nalice {alice}",
    "threshold -1\nalice {alice}",
    "threshold ²\nalice {alice}",
    "threshold 1 2\nalice {alice}",
    "threshold\nalice {alice}",
    "threshold 1\nalice {alice}\nalice {bob}",
    "threshold 2\nalice {alice}\nbob {alice}",
    "threshold 1\nalice",
    "threshold 1\nalice AAAA",
    "threshold 1\nalice {alice} after=2027-01-01",
    "threshold 1\nalice {alice} until=tomorrow",
    "threshold 1\nalice {alice} until=2027-01-01 until=2028-01-01",
    "threshold 1\n../alice {alice}",
    "threshold 1\na identity=b",
    "threshold 1\na issuer=https://i identity=b",
    "threshold 1\na identity=b issuer=http://i",
    "threshold 1\na identity= issuer=https://i",
    "threshold 1\na identity=b issuer=https://i {alice}",
    "threshold 1\na identity=b issuer=https://i\nc identity=b issuer=https://i",
    "threshold 1\nalice {alice}\ntrusted-root",
    "threshold 1\nalice {alice}\ntrusted-root a\ntrusted-root b",
)


def test_refuses_what_is_no_policy(words: dict[str, str], tmp_path: Path, golden: Golden) -> None:
    path = tmp_path / "rebuilders.txt"
    lines = []
    for text in _BAD:
        path.write_text(text.format_map(words))
        with pytest.raises(UsageError) as caught:
            read_policy(path)
        lines += [repr(text), *(f"  {line}" for line in caught.value.why.splitlines())]

    keys = {word: f"WORD-OF-{name}" for name, word in words.items()}
    golden.check("attest/policies.txt", "\n".join(lines), keys)


def test_names_every_fault_at_once(tmp_path: Path) -> None:
    path = tmp_path / "rebuilders.txt"
    path.write_text("threshold x\nalice\nbob AAAA\n")

    with pytest.raises(UsageError) as caught:
        read_policy(path)

    assert [line.partition(":")[0] for line in caught.value.why.splitlines()][:3] == [
        *("line 1", "line 2", "line 3")
    ]


def test_refuses_files_that_are_not_text(tmp_path: Path) -> None:
    path = tmp_path / "rebuilders.txt"
    path.write_bytes(b"\xff\xfe")

    with pytest.raises(UsageError, match="is not a policy"):
        read_policy(path)


def test_names_the_option_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError) as caught:
        read_policy(tmp_path / "lost.txt")

    assert "--policy" in caught.value.why


def test_printed_line_is_one_that_policies_take(tmp_path: Path) -> None:
    keys = make_keys(tmp_path / "keys", "alice")

    policy = write_policy(tmp_path / "rebuilders.txt", 1, keys)

    assert policy.rebuilders[0].key.id == keys["alice"].public.id


def test_how_to_shows_a_policy(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "rebuild.md").read_text()
    path = tmp_path / "rebuilders.txt"
    path.write_text(page.partition("```\nthreshold")[2].partition("```")[0].join(("threshold", "")))

    policy = read_policy(path)

    assert [rebuilder.name for rebuilder in policy.rebuilders] == ["alice", "bob", "carol"]
    assert policy.keys[0].short_id in page
