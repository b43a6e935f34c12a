"""Statements by identities: real certificates and logs of a Sigstore that the test makes."""

from __future__ import annotations

import base64
import datetime
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.errors import PolicyError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.locks.tool_environment import tool_python
from cuwheel.build.workspace.workspace import bare_workspace
from cuwheel.publish.rebuild.attest.check import (
    PolicyVerdict,
    SignedStatement,
    check_policy,
    find_statements,
    statement_name,
)
from cuwheel.publish.rebuild.attest.policy import read_policy
from cuwheel.publish.rebuild.attest.signatures import sign_statement
from cuwheel.publish.rebuild.attest.sigstore import VERIFIER, Identity, Sigstore
from cuwheel.publish.rebuild.attest.verification import Verification, statement_of
from tests.support.golden import Golden
from tests.support.publish.statements import TODAY, WHEN, make_keys, make_statement, signed
from tests.support.servers.local_sigstore import SIGNED, LocalSigstore
from tests.support.servers.sigstore import SigstoreServer, sigstore_serving

# The publish attestation (PEP 740) of pypi-attestations 0.0.19, of 2024-12-04, out of the tests of
# its release 0.0.30 (Apache-2.0), written as a bundle.
_PUBLIC_BUNDLE = ROOT / "tests" / "recorded" / "public_sigstore_bundle.json"
_PUBLIC = Identity(
    identity="https://github.com/trailofbits/pypi-attestations/.github/workflows/release.yml"
    "@refs/tags/v0.0.19",
    issuer="https://token.actions.githubusercontent.com",
)

pytestmark = pytest.mark.usefixtures("sigstore_environment")

Bundle = dict[str, Any]

ISSUER = "https://issuer.test"
ALICE = Identity(identity="https://forge.test/alice/.workflows/rebuild@main", issuer=ISSUER)
BOB = Identity(identity="https://forge.test/bob/.workflows/rebuild@main", issuer=ISSUER)


@pytest.fixture(scope="module")
def sigstore() -> LocalSigstore:
    return LocalSigstore()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sigstore: LocalSigstore) -> Path:
    """A wheel's, with the roots next to it."""
    built = tmp_path_factory.mktemp("sigstore")
    (built / "trusted_root.json").write_text(json.dumps(sigstore.trusted_root()))
    (built / "toy-1.0+cu130-py3-none-any.whl").write_bytes(b"all of the wheel's bytes")
    return built


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    return folder / "toy-1.0+cu130-py3-none-any.whl"


def _line(name: str, who: Identity) -> str:
    return f"{name} identity={who.identity} issuer={who.issuer}"


def _statement(wheel: Path, **changes: Any) -> str:
    sha256 = sha256_of_file(wheel)
    built = {"wheel": wheel.name, "sha256": sha256, "rebuilt_sha256": sha256, "when": WHEN}
    return statement_of(Verification(**{**built, **changes}), VERIFIER)


def _bundle(
    wheel: Path, sigstore: LocalSigstore, who: Identity, when: datetime.datetime = SIGNED
) -> SignedStatement:
    content = sigstore.sign(_statement(wheel), who.identity, who.issuer, when)
    return SignedStatement(name=statement_name(wheel.name, who), content=content.encode())


def _check(
    wheel: Path, statements: list[SignedStatement], *lines: str, root: str = "trusted_root.json"
) -> PolicyVerdict:
    """Both of alice and bob, unless lines replace them."""
    known = lines or (_line("alice", ALICE), _line("bob", BOB))
    path = wheel.parent / "rebuilders.txt"
    roots = (f"trusted-root {root}",) if root else ()
    path.write_text("\n".join((f"threshold {len(known)}", *known, *roots)))
    return check_policy(
        wheel, read_policy(path), statements, bare_workspace(Console(), Caller(os.environ)), TODAY
    )


@pytest.mark.e2e
def test_counts_an_identity_once(wheel: Path, sigstore: LocalSigstore) -> None:
    verdict = _check(wheel, [_bundle(wheel, sigstore, ALICE) for _ in "ab"])

    assert (verdict.counted, verdict.is_met) == (("alice",), False)
    assert [one.name for one in verdict.silent] == ["bob"]


def test_counts_identities_next_to_keys(
    wheel: Path, sigstore: LocalSigstore, tmp_path: Path
) -> None:
    key = make_keys(tmp_path, "carol")["carol"]

    verdict = _check(
        wheel,
        [_bundle(wheel, sigstore, ALICE), signed(wheel, key)],
        *(f"{_line('alice', ALICE)} until={TODAY}", f"carol {key.public.word}"),
    )

    assert (verdict.counted, verdict.refused) == (("alice", "carol"), ())
    assert verdict.is_met


def test_refuses_bundle_where_the_policy_has_keys_alone(
    wheel: Path, sigstore: LocalSigstore, tmp_path: Path
) -> None:
    key = make_keys(tmp_path, "carol")["carol"]

    verdict = _check(wheel, [_bundle(wheel, sigstore, ALICE)], f"carol {key.public.word}")

    assert (verdict.counted, len(verdict.refused)) == ((), 1)


def _entries(bundle: Bundle) -> Any:
    return bundle["verificationMaterial"]["tlogEntries"]


def _other_payload(bundle: Bundle, _: Bundle) -> None:
    envelope = bundle["dsseEnvelope"]
    envelope["payload"] = envelope["payload"].replace("e", "f", 1)


def _entry_of_another(bundle: Bundle, other: Bundle) -> None:
    _entries(bundle)[:] = _entries(other)


def _other_entry(bundle: Bundle, _: Bundle) -> None:
    [entry] = _entries(bundle)
    entry["integratedTime"] = str(int(entry["integratedTime"]) + 1)


def _other_body(bundle: Bundle, _: Bundle) -> None:
    [entry] = _entries(bundle)
    body = bytearray(base64.b64decode(entry["canonicalizedBody"]))
    body[-1:] = b" }"
    entry["canonicalizedBody"] = base64.b64encode(body).decode()


_CHANGES: dict[str, Callable[[Bundle, Bundle], object]] = {
    "payload": _other_payload,
    "kind of payload": lambda one, _: one["dsseEnvelope"].update(payloadType="text/plain"),
    "time in the entry": _other_entry,
    "body of the entry": _other_body,
    "entry of another": _entry_of_another,
    "no entry": lambda one, _: _entries(one).clear(),
    "no promise": lambda one, _: _entries(one)[0].pop("inclusionPromise"),
    "no proof": lambda one, _: _entries(one)[0].pop("inclusionProof"),
    "no envelope": lambda one, _: one.pop("dsseEnvelope"),
    "no material": lambda one, _: one.update(verificationMaterial=None),
}


def _reasons(verdict: PolicyVerdict) -> str:
    """Return our reasons, with the first words of the library's."""
    return "\n".join(f"{one.statement}: {one.why[:130]}" for one in verdict.refused)


def test_refuses_changed_bundles(wheel: Path, sigstore: LocalSigstore, golden: Golden) -> None:
    changed = []
    for name, change in _CHANGES.items():
        bundle, other = (json.loads(_bundle(wheel, sigstore, ALICE).content) for _ in "ab")
        change(bundle, other)
        changed.append(SignedStatement(name=name, content=json.dumps(bundle).encode()))

    verdict = _check(wheel, [*changed, _bundle(wheel, sigstore, BOB)])

    assert verdict.counted == ("bob",)
    assert [one.statement for one in verdict.refused] == [one.name for one in changed]
    golden.check("attest/changed-bundles.txt", _reasons(verdict))


def test_refuses_others(wheel: Path, sigstore: LocalSigstore, golden: Golden) -> None:
    late = SIGNED + datetime.timedelta(hours=1)  # the certificate is valid for ten minutes
    statements = [
        _bundle(wheel, sigstore, Identity(identity=f"{ALICE.identity}2", issuer=ISSUER)),
        _bundle(wheel, sigstore, Identity(identity=ALICE.identity, issuer="https://other.test")),
        _bundle(wheel, LocalSigstore(), ALICE),
        _bundle(wheel, sigstore, ALICE, late),
    ]

    verdict = _check(wheel, statements)

    assert verdict.counted == ()
    golden.check("attest/bundles-of-others.txt", _reasons(verdict))


@pytest.mark.parametrize(
    ("log", "means"),
    [
        ("rekor", "its log entry is not signed by a log of these roots"),
        ("ct", "no certificate log"),
    ],
)
def test_refuses_what_another_log_has_signed(
    log: str, means: str, wheel: Path, sigstore: LocalSigstore
) -> None:
    roots = sigstore.trusted_root(**{log: LocalSigstore()})
    (wheel.parent / "other.json").write_text(json.dumps(roots))

    verdict = _check(wheel, [_bundle(wheel, sigstore, ALICE)], root="other.json")

    assert means in verdict.refused[0].why
    assert verdict.counted == ()


def test_identity_does_not_count_after_its_last_day(wheel: Path, sigstore: LocalSigstore) -> None:
    end = TODAY - datetime.timedelta(days=1)

    verdict = _check(
        wheel, [_bundle(wheel, sigstore, ALICE)], f"{_line('alice', ALICE)} until={end}"
    )

    assert (verdict.counted, len(verdict.refused)) == ((), 1)


def test_refuses_what_is_signed_properly_and_of_something_else(
    wheel: Path, sigstore: LocalSigstore, tmp_path: Path
) -> None:
    """Another wheel's bytes; and alice as carol, who has a key."""
    key = make_keys(tmp_path, "carol")["carol"]
    output = _statement(wheel, sha256="0" * 64, rebuilt_sha256="0" * 64), make_statement(wheel, key)
    statements = [
        SignedStatement(
            name=str(number), content=sigstore.sign(one, ALICE.identity, ISSUER).encode()
        )
        for number, one in enumerate(output)
    ]
    lines = (_line("alice", ALICE), f"carol {key.public.word}")

    verdict = _check(wheel, statements, *lines)

    assert (verdict.counted, len(verdict.refused)) == ((), 2)


def test_refuses_key_in_the_name_of_identities(wheel: Path, tmp_path: Path) -> None:
    key = make_keys(tmp_path, "carol")["carol"]
    content = sign_statement(_statement(wheel), key).encode()
    lines = (_line("alice", ALICE), f"carol {key.public.word}")

    verdict = _check(wheel, [SignedStatement(name="x", content=content)], *lines)

    assert (verdict.counted, len(verdict.refused)) == ((), 1)


def test_knows_the_public_service_without_a_network(
    wheel: Path, sigstore: LocalSigstore, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    """The roots come with the library. Its bundle is one of GitHub's: its statement isn't ours."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # where no server listens
    public = SignedStatement(name="public", content=_PUBLIC_BUNDLE.read_bytes())
    statements = [public, _bundle(wheel, sigstore, ALICE)]

    verdict = _check(wheel, statements, _line("alice", ALICE), _line("github", _PUBLIC), root="")

    assert verdict.counted == ()
    golden.check("attest/public-roots.txt", _reasons(verdict))


@pytest.mark.e2e
def test_names_roots_that_are_none(wheel: Path, sigstore: LocalSigstore) -> None:
    with pytest.raises(PolicyError, match=r"can't be read from .*gone"):
        _check(wheel, [_bundle(wheel, sigstore, ALICE)], root="gone.json")


def test_finds_bundles_next_to_the_wheel(wheel: Path, sigstore: LocalSigstore) -> None:
    one = _bundle(wheel, sigstore, ALICE)
    (wheel.parent / one.name).write_bytes(one.content)
    policy = wheel.parent / "rebuilders.txt"
    policy.write_text(f"threshold 1\n{_line('alice', ALICE)}")

    result = find_statements(wheel, read_policy(policy), (), Console())

    assert [statement.content for statement in result] == [one.content]
    assert one.name == f"{wheel.name}.rebuild-{ALICE.id[:16]}.sigstore.json"


# Signing, on servers of a local Sigstore.


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SigstoreServer]:
    """One that this process is a job for."""
    with sigstore_serving(ALICE.identity, ALICE.issuer) as served:
        for name, value in served.environment.items():
            monkeypatch.setenv(name, value)
        yield served


@pytest.fixture
def signer(server: SigstoreServer, tmp_path: Path) -> Sigstore:
    config = tmp_path / "trust_config.json"
    config.write_text(json.dumps(server.trust_config()))
    return Sigstore(trust_config=config, workspace=bare_workspace(Console(), Caller(os.environ)))


@pytest.mark.e2e
def test_signs_by_the_identity_of_a_job(
    wheel: Path, server: SigstoreServer, signer: Sigstore
) -> None:
    (wheel.parent / "servers.json").write_text(json.dumps(server.sigstore.trusted_root()))
    signer.check()

    who, content = signer.sign(_statement(wheel))

    statement = SignedStatement(name=statement_name(wheel.name, who), content=content.encode())
    verdict = _check(wheel, [statement], _line("alice", ALICE), root="servers.json")
    assert (who, verdict.counted, verdict.refused) == (ALICE, ("alice",), ())


@pytest.mark.e2e
def test_writes_nothing_that_others_would_refuse(
    wheel: Path, server: SigstoreServer, signer: Sigstore, tmp_path: Path
) -> None:
    config = server.trust_config()
    config["trustedRoot"] = server.sigstore.trusted_root(rekor=LocalSigstore())
    (tmp_path / "trust_config.json").write_text(json.dumps(config))

    with pytest.raises(PolicyError, match="no statement is written") as caught:
        signer.sign(_statement(wheel))

    assert "invalid log entry" in caught.value.why


@pytest.mark.e2e
def test_reports_that_a_job_may_not_have_an_identity(
    signer: Sigstore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN")

    with pytest.raises(PolicyError) as caught:
        signer.check()

    assert "OIDC" in caught.value.why
    assert "`permissions: id-token: write`" in caught.value.fix


@pytest.mark.e2e
def test_reports_that_nothing_gives_an_identity(
    signer: Sigstore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(PolicyError, match="--key FILE") as caught:
        signer.check()

    assert "identity token" in caught.value.why


@pytest.mark.usefixtures("server")
def test_reports_that_the_public_service_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # where no server listens
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    with pytest.raises(PolicyError) as caught:
        Sigstore(trust_config=None, workspace=bare_workspace(Console(), Caller(os.environ))).check()

    assert "TUFError: " in caught.value.why


@pytest.mark.e2e
def test_writes_nothing_into_the_environment(signer: Sigstore) -> None:
    """Another cuwheel that looks at it meanwhile would find it changed, and make it again."""
    environment = tool_python(
        "sigstore", bare_workspace(Console(), Caller(os.environ))
    ).parent.parent

    signer.check()

    assert [*environment.rglob("*.pyc")] == []


def test_shows_how_its_program_broke_down(
    signer: Sigstore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuwheel.publish.rebuild.attest.sigstore.script", Path("/nowhere").joinpath)

    with pytest.raises(PolicyError) as caught:
        signer.check()

    assert "status 2" in caught.value.why
    assert "No such file" in caught.value.why
