"""A policy held to statements: what counts, what lies, and the reason that is given for each."""

from __future__ import annotations

import base64
import datetime
import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.vsa.v1 import vsa_pb2

from cuwheel.base import limits
from cuwheel.base.caller import Caller
from cuwheel.base.errors import PolicyError, UsageError
from cuwheel.base.formats.signing_keys import SigningKey
from cuwheel.base.system.console import Console
from cuwheel.build.workspace.workspace import bare_workspace
from cuwheel.publish.rebuild.attest import verification
from cuwheel.publish.rebuild.attest.check import (
    PolicyVerdict,
    SignedStatement,
    check_policy,
    find_statements,
    raise_if_refused,
    statement_name,
)
from cuwheel.publish.rebuild.attest.policy import Policy
from cuwheel.publish.rebuild.attest.signatures import sign_statement
from tests.support.factories import HASTY
from tests.support.golden import Golden
from tests.support.publish.statements import TODAY, make_keys, make_statement, signed, write_policy
from tests.support.servers.http import Site, serving

Keys = dict[str, "SigningKey"]


def judge(
    wheel: Path, policy: Policy, statements: Iterable[SignedStatement], today: datetime.date = TODAY
) -> PolicyVerdict:
    workspace = bare_workspace(Console(), Caller(os.environ))
    return check_policy(wheel, policy, statements, workspace, today)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("attested")


@pytest.fixture(scope="module")
def keys(folder: Path) -> Keys:
    return make_keys(folder / "keys", "alice", "bob", "carol", "mallory")


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    path = folder / "toy-1.0+cu130-py3-none-any.whl"
    path.write_bytes(b"all of the wheel's bytes")
    return path


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """Make a wheel without statements."""
    path = tmp_path / "toy-1.0+cu130-py3-none-any.whl"
    path.write_bytes(b"x")
    return path


@pytest.fixture(scope="module")
def policy(folder: Path, keys: Keys) -> Policy:
    """Two of three; mallory is unknown."""
    known = {name: key for name, key in keys.items() if name != "mallory"}
    return write_policy(folder / "rebuilders.txt", 2, known)


def test_lets_pass_what_enough_have_rebuilt(wheel: Path, policy: Policy, keys: Keys) -> None:
    statements = [signed(wheel, keys[name]) for name in ("carol", "alice")]

    verdict = judge(wheel, policy, statements)

    raise_if_refused(verdict)
    assert verdict.counted == ("alice", "carol")
    assert [one.name for one in verdict.silent] == ["bob"]


def test_counts_a_rebuilder_once(wheel: Path, policy: Policy, keys: Keys) -> None:
    one = signed(wheel, keys["alice"])
    other = signed(wheel, keys["alice"], materials=("another linker",))

    verdict = judge(wheel, policy, [one, one, other])

    assert (verdict.counted, verdict.is_met) == (("alice",), False)


def test_names_what_is_missing(wheel: Path, policy: Policy, keys: Keys, golden: Golden) -> None:
    statements = [signed(wheel, keys["mallory"]), signed(wheel, keys["alice"])]

    with pytest.raises(PolicyError) as caught:
        raise_if_refused(judge(wheel, policy, statements))

    names = {key.public.short_id: f"KEY-OF-{name}" for name, key in keys.items()}
    golden.check("attest/error.txt", str(caught.value), names)


def test_key_counts_on_its_last_day_and_not_after(wheel: Path, folder: Path, keys: Keys) -> None:
    alice = {"alice": keys["alice"]}
    policy = write_policy(folder / "ending.txt", 1, alice, alice=TODAY.isoformat())
    statement = signed(wheel, keys["alice"])

    assert judge(wheel, policy, [statement]).is_met
    verdict = judge(wheel, policy, [statement], TODAY + datetime.timedelta(days=1))
    assert not verdict.is_met
    assert [one.statement for one in verdict.refused] == [statement.name]


def test_any_change_of_the_wheel_is_refused(wheel: Path, policy: Policy, keys: Keys) -> None:
    statements = [signed(wheel, keys[name]) for name in ("alice", "bob")]
    changed = wheel.parent / "changed" / wheel.name
    changed.parent.mkdir()
    changed.write_bytes(wheel.read_bytes()[:-1] + b"S")

    verdict = judge(changed, policy, statements)

    assert [one.statement for one in verdict.refused] == [one.name for one in statements]


def test_renamed_wheel_is_refused(wheel: Path, policy: Policy, keys: Keys) -> None:
    """Installers read the version and the Python from its name."""
    renamed = wheel.with_name("toy-2.0-py3-none-any.whl")
    renamed.write_bytes(wheel.read_bytes())

    verdict = judge(renamed, policy, [signed(wheel, keys["alice"])])

    assert (verdict.counted, len(verdict.refused)) == ((), 1)


# Statements that lie, or are damaged.


def _payload(envelope: dict[str, Any]) -> dict[str, Any]:
    outcome: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return outcome


def _packed(payload: str) -> str:
    return base64.b64encode(payload.encode()).decode()


def _put(data: dict[str, Any], place: tuple[str | int, ...], value: object) -> None:
    inside: Any = data
    for part in place[:-1]:
        inside = inside[part]
    inside[place[-1]] = value


def _changed(layer: str, place: tuple[str | int, ...], value: object) -> Callable[..., str]:
    """Change a field of a statement that alice signs anew, or behind her back, or the envelope's.

    The result gets the envelope, as parsed, and the keys.
    """

    def lie(envelope: dict[str, Any], keys: Keys) -> str:
        if layer == "envelope":
            _put(envelope, place, value)
            return json.dumps(envelope)
        payload = _payload(envelope)
        _put(payload, place, value)
        if layer == "signed":
            return sign_statement(json.dumps(payload), keys["alice"])
        return json.dumps({**envelope, "payload": _packed(json.dumps(payload))})

    return lie


def _reordered(envelope: dict[str, Any], _: Keys) -> str:
    payload = dict(reversed(_payload(envelope).items()))
    return json.dumps({**envelope, "payload": _packed(json.dumps(payload))})


def _twice_in_envelope(envelope: dict[str, Any], _: Keys) -> str:
    return json.dumps(envelope).replace('"payload":', '"payload": "e30=", "payload":', 1)


def _twice_in_payload(envelope: dict[str, Any], keys: Keys) -> str:
    text = json.dumps(_payload(envelope))
    return sign_statement(text.replace('"subject":', '"subject": [], "subject":', 1), keys["alice"])


def _named(who: str) -> Callable[..., str]:
    """Let the signature name another key."""
    return lambda envelope, keys: _changed(
        "envelope", ("signatures", 0, "keyid"), keys[who].public.id
    )(envelope, keys)


_SUBJECT = {"name": "other-1.0-py3-none-any.whl", "digest": {"sha256": "0" * 64}}
_URI = ("predicate", "policy", "uri")
_FIELDS: tuple[tuple[str, tuple[str | int, ...], object], ...] = (
    ("signed", ("subject",), [_SUBJECT]),
    ("signed", ("subject",), []),
    ("signed", ("subject",), [_SUBJECT, _SUBJECT]),
    ("signed", ("_type",), "https://in-toto.io/Statement/v0.1"),
    ("signed", ("predicateType",), "https://slsa.dev/provenance/v1"),
    ("signed", _URI, "urn:x"),
    ("signed", _URI, "\x1b[2Jx"),
    ("signed", ("predicate", "verificationResult"), "FAILED"),
    ("signed", ("predicate", "verificationResult"), "passed"),
    ("signed", ("predicate", "verifiedLevels"), ["SLSA_BUILD_LEVEL_3"]),
    ("signed", ("predicate", "cuwheel_rebuild", "sha256"), "1" * 64),
    ("signed", ("predicate", "verifier", "id"), "urn:x"),
    ("signed", ("predicate",), []),
    ("payload", ("subject",), [_SUBJECT]),
    ("payload", ("predicate", "verificationResult"), "PASSED "),
    ("envelope", ("payloadType",), "text/plain"),
    ("envelope", ("signatures",), []),
    ("envelope", ("signatures",), "x"),
    ("envelope", ("payload",), "***"),
    ("envelope", ("signatures", 0, "sig"), _packed("\0" * 64)),
    ("envelope", ("signatures", 0, "sig"), "AAAA"),
    ("envelope", ("signatures", 0, "keyid"), ["x"]),
)
_LIES: dict[str, Callable[..., str]] = {
    "payload is a list": lambda _, keys: sign_statement("[]", keys["alice"]),
    "payload is no JSON": lambda _, keys: sign_statement("hm", keys["alice"]),
    "payload has a name twice": _twice_in_payload,
    "payload reordered": _reordered,
    "truncated": lambda envelope, _: json.dumps(envelope)[:-40],
    "empty": lambda *_: "",
    "no envelope": lambda envelope, _: json.dumps(_payload(envelope)),
    "null": lambda *_: "null",
    "envelope has a name twice": _twice_in_envelope,
    "one key twice": lambda one, _: json.dumps({**one, "signatures": one["signatures"] * 2}),
    "under another's name": _named("bob"),
    "under an unknown name": _named("mallory"),
    **{
        f"{layer} {'.'.join(map(str, place))} {value!r}": _changed(layer, place, value)
        for layer, place, value in _FIELDS
    },
}


def test_refuses_statements_that_lie(
    wheel: Path, policy: Policy, keys: Keys, golden: Golden
) -> None:
    honest = json.loads(signed(wheel, keys["alice"]).content)
    lies = [
        SignedStatement(name=name, content=lie(json.loads(json.dumps(honest)), keys).encode())
        for name, lie in _LIES.items()
    ]

    verdict = judge(wheel, policy, [*lies, signed(wheel, keys["bob"])])

    assert (verdict.counted, verdict.is_met) == (("bob",), False)
    assert [one.statement for one in verdict.refused] == [*_LIES]
    # What Python or a library says of a fault differs between releases.
    reasons = [(one.statement, re.sub(r" \(.*\)$", "", one.why)) for one in verdict.refused]
    text = "\n".join(f"{name}: {reason}" for name, reason in reasons)
    names = {key.public.short_id: f"KEY-OF-{name}" for name, key in keys.items()}
    golden.check("attest/refusals.txt", text, names)


def test_refuses_what_is_nested_without_end(wheel: Path, policy: Policy, keys: Keys) -> None:
    deep = SignedStatement(name="deep.json", content=b"[" * 100_000)

    verdict = judge(wheel, policy, [deep, signed(wheel, keys["bob"])])

    assert [one.statement for one in verdict.refused] == ["deep.json"]


_WRONG: tuple[Any, ...] = (None, [], {}, [None], {"a": None}, 0, 1e400, True, "", "\ud800")
_DEEP = json.loads("[" * 400 + "]" * 400)
_PLACES = [
    *[("_type",), ("subject",), ("predicateType",), ("predicate",)],
    *[("subject", 0), ("subject", 0, "name"), ("subject", 0, "digest")],
    ("subject", 0, "digest", "sha256"),
    *[("predicate", name) for name in ("verifier", "policy", "verificationResult")],
    *[("predicate", name) for name in ("verifiedLevels", "cuwheel_rebuild", "timeVerified")],
    *[("predicate", name) for name in ("resourceUri", "slsaVersion", "inputAttestations")],
    *[("predicate", "verifier", "id"), ("predicate", "policy", "uri")],
    *[("predicate", "cuwheel_rebuild", one) for one in ("sha256", "differences", "materials")],
    *[("predicate", "cuwheel_rebuild", one) for one in ("result", "cuwheel")],
]
_ENVELOPE_PLACES = [
    *[("payload",), ("payloadType",), ("signatures",)],
    *[("signatures", 0), ("signatures", 0, "keyid"), ("signatures", 0, "sig")],
]
_UNREAD = {"timeVerified", "resourceUri", "slsaVersion", "inputAttestations"} | {
    *("materials", "result", "cuwheel", "differences")
}


@pytest.mark.parametrize("result", ["PASSED", "FAILED"])
@pytest.mark.parametrize("place", _PLACES, ids=lambda one: ".".join(map(str, one)))
def test_field_of_another_type_spoils_one_statement(
    place: tuple[str | int, ...], result: str, wheel: Path, policy: Policy, keys: Keys
) -> None:
    """It is refused, or the field is none that anything rests on; the others count."""
    changes = {} if result == "PASSED" else {"rebuilt_sha256": "2" * 64, "differences": ("a",)}
    for value in (*_WRONG, _DEEP):
        output = json.loads(make_statement(wheel, keys["alice"], **changes))
        _put(output, place, value)
        content = sign_statement(json.dumps(output), keys["alice"]).encode()
        lying = SignedStatement(name="lie.json", content=content)

        verdict = judge(wheel, policy, [lying, signed(wheel, keys["bob"])])

        counts = result == "PASSED" and place[-1] in _UNREAD
        assert verdict.counted == (("alice", "bob") if counts else ("bob",)), value
        assert [one.statement for one in verdict.refused] == ["lie.json"] * (not counts), value


@pytest.mark.parametrize("place", _ENVELOPE_PLACES, ids=lambda one: ".".join(map(str, one)))
def test_field_of_another_type_spoils_one_envelope(
    place: tuple[str | int, ...], wheel: Path, policy: Policy, keys: Keys
) -> None:
    for value in (*_WRONG, _DEEP):
        envelope = json.loads(signed(wheel, keys["alice"]).content)
        _put(envelope, place, value)
        lying = SignedStatement(name="lie.json", content=json.dumps(envelope).encode())

        verdict = judge(wheel, policy, [lying, signed(wheel, keys["bob"])])

        assert verdict.counted == ("bob",), value
        assert [one.statement for one in verdict.refused] == ["lie.json"], value


def test_signature_of_another_statement_is_refused(wheel: Path, policy: Policy, keys: Keys) -> None:
    """Mallory puts alice's statement of her wheel next to another one."""
    hers = json.loads(signed(wheel, keys["alice"]).content)
    other = json.loads(signed(wheel, keys["alice"], materials=("x",)).content)
    mixed = {**hers, "signatures": other["signatures"]}
    lying = SignedStatement(name="x", content=json.dumps(mixed).encode())

    verdict = judge(wheel, policy, [lying])

    assert [one.statement for one in verdict.refused] == ["x"]


def test_every_changed_byte_of_a_statement_is_refused_or_means_the_same(
    wheel: Path, policy: Policy, keys: Keys
) -> None:
    """A statement counts as signed by alice, even in another envelope."""
    content = signed(wheel, keys["alice"]).content
    payload = json.loads(content)["payload"]
    for position in range(0, len(content), 7):
        changed = bytearray(content)
        changed[position] ^= 1
        statement = SignedStatement(name="x", content=bytes(changed))
        if judge(wheel, policy, [statement]).counted:
            assert json.loads(bytes(changed))["payload"] == payload


def test_shows_what_others_have_built(wheel: Path, policy: Policy, keys: Keys) -> None:
    facts = ("pkg/a.so, .nv_fatbin, SASS sm_90, scale(float*): 2 instructions differ", "more")
    statement = signed(wheel, keys["bob"], rebuilt_sha256="2" * 64, differences=facts)

    verdict = judge(wheel, policy, [statement])

    assert f"gave other bytes: {facts[0]} and 1 more" in verdict.refused[0].why


def test_finds_statements_next_to_the_wheel_and_elsewhere(
    folder: Path, policy: Policy, keys: Keys, toy: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    places = {"alice": tmp_path, "bob": elsewhere, "carol": folder}
    for name, place in places.items():
        path = place / statement_name(toy.name, keys[name].public)
        path.write_bytes(signed(toy, keys[name]).content)
    (tmp_path / statement_name("other-1.0-py3-none-any.whl", keys["bob"].public)).write_text("")
    named = folder / statement_name(toy.name, keys["carol"].public)

    outcome = find_statements(toy, policy, [elsewhere, named, elsewhere], Console())

    assert judge(toy, policy, outcome).counted == ("alice", "bob", "carol")
    assert len(outcome) == len(places)


def test_finds_statements_at_an_address(policy: Policy, keys: Keys, toy: Path) -> None:
    """By the names that follow from the policy's keys: a server needn't list anything."""
    files = {
        f"/files/{statement_name(toy.name, keys[name].public)}": signed(toy, keys[name]).content
        for name in ("alice", "bob", "mallory")
    }
    with serving(Site(files=files)) as site:
        outcome = find_statements(toy, policy, [site.url("/files/", "me:secret@")], Console())

    assert judge(toy, policy, outcome).counted == ("alice", "bob")
    assert "secret" not in "".join(one.name for one in outcome)


@pytest.mark.parametrize("status", [403, 500])
def test_address_that_refuses_leaves_the_others(
    status: int, policy: Policy, keys: Keys, toy: Path, tmp_path: Path
) -> None:
    """A bucket that can't be listed answers 403 for what isn't there."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    alice, carol = (signed(toy, keys[name]) for name in ("alice", "carol"))
    (elsewhere / alice.name).write_bytes(alice.content)
    tries = HASTY.attempts if status == 500 else 1
    with serving(Site(files={f"/f/{carol.name}": carol.content}, statuses=[status] * tries)) as one:
        places: list[str | Path] = [one.url("/f/", "me:secret@"), elsewhere]
        outcome = find_statements(toy, policy, places, Console())

    verdict = judge(toy, policy, outcome)

    assert verdict.counted == ("alice", "carol")
    [refused] = verdict.refused
    assert refused.statement == one.url(f"/f/{alice.name.replace('+', '%2B')}")
    assert str(status) in refused.why


def test_names_address_that_does_not_answer(policy: Policy, keys: Keys, toy: Path) -> None:
    with serving(Site()) as site:
        pass  # and it is gone

    outcome = find_statements(toy, policy, [site.url("/f/")], Console())

    with pytest.raises(PolicyError) as caught:
        raise_if_refused(judge(toy, policy, outcome))
    name = statement_name(toy.name, keys["bob"].public).replace("+", "%2B")
    assert site.url(f"/f/{name}") in caught.value.why


def test_statement_that_is_too_large_leaves_the_others(
    policy: Policy, keys: Keys, toy: Path
) -> None:
    alice, bob = (signed(toy, keys[name]) for name in ("alice", "bob"))
    large = b" " * (limits.JSON + 1)
    with serving(Site(files={f"/f/{alice.name}": large, f"/f/{bob.name}": bob.content})) as site:
        outcome = find_statements(toy, policy, [site.url("/f/")], Console())

    verdict = judge(toy, policy, outcome)

    assert verdict.counted == ("bob",)
    assert len(verdict.refused) == 1


def test_place_that_is_not_there_is_an_error(wheel: Path, policy: Policy, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        find_statements(wheel, policy, [tmp_path / "nowhere"], Console())


def test_a_link_or_pipe_among_statements_is_none(
    policy: Policy, keys: Keys, toy: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / statement_name(toy.name, keys["alice"].public))

    outcome = find_statements(toy, policy, [], Console())

    verdict = judge(toy, policy, outcome)
    assert (verdict.counted, len(verdict.refused)) == ((), 1)


def test_states_what_slsa_knows(wheel: Path, keys: Keys) -> None:
    """All but the field of ours is SLSA's verification summary, as its own message has it."""
    stated = json.loads(make_statement(wheel, keys["alice"], inputs=(("published:x", "a" * 64),)))
    own = stated["predicate"].pop("cuwheel_rebuild")
    levels = stated["predicate"].pop("verifiedLevels")  # one text in the library's message

    message = cast("Any", json_format).ParseDict(
        stated["predicate"], cast("Any", vsa_pb2).VerificationSummary()
    )

    assert stated["predicateType"] == verification.PREDICATE_TYPE
    assert message.verification_result == "PASSED"
    name = wheel.name.replace("+", "%2B")
    assert message.resource_uri == f"pkg:pypi/toy@1.0%2Bcu130?file_name={name}"
    assert (own["result"], levels) == ("same bytes", [verification.LEVEL])
