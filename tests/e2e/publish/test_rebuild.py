"""One builds and publishes a wheel; another one builds it again, in a clone, and signs the result.

The package is tiny, nvcc, servers, clones and keys are real.
"""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from cuwheel.base.errors import (
    CuwheelError,
    NotReproducibleError,
    PolicyError,
    RecipeError,
    UsageError,
)
from cuwheel.base.formats.binaries.device_code import elements_of, find_fatbins
from cuwheel.base.formats.signing_keys import make_signing_key, read_signing_key
from cuwheel.base.formats.wheel.archive import pack, unpack_wheel
from cuwheel.base.formats.wheel.publication import statement_of
from cuwheel.base.system.files import sha256_of_file
from cuwheel.publish.index.site import SiteRequest, write_site
from cuwheel.publish.rebuild.attest.policy import line_of
from cuwheel.publish.rebuild.attest.sigstore import Identity
from cuwheel.publish.rebuild.builds import _cache_with_downloads
from cuwheel.publish.rebuild.published import read_published
from tests.support.engine import PACKAGES, Outcome
from tests.support.factories import EPOCH
from tests.support.machines.clones import PROJECT, Clone, first_clone, git
from tests.support.servers.http import Site, serving
from tests.support.servers.sigstore import sigstore_serving

pytestmark = pytest.mark.e2e

_SOURCE = "/tiny_capi-1.0.0.tar.gz"
_RECIPE = f"{PROJECT}/recipes/tiny_capi.py"


@dataclass(frozen=True, kw_only=True)
class Published:
    """A wheel on a server, and the two people.

    Attributes:
        first: the clone that built it.
        commit: from which.
        wheel: it, in that one's folder.
        address: of it on the server.
        second: a clone with a cache of its own, in which nothing is but downloads.
        keys: folder of keys: `bob.pem` is the second one's.
    """

    first: Clone
    commit: str
    wheel: Path
    address: str
    second: Clone
    keys: Path

    def rebuild(self, named: str | Path, *options: str | Path) -> Outcome:
        """Build it again in the second clone."""
        return self.second.run("rebuild", named, "--key", self.keys / "bob.pem", *options)


def _source_archive() -> bytes:
    """The tiny package as an sdist, its device code as nvcc makes it, not packed."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path in sorted((PACKAGES / "tiny_capi").rglob("*")):
            if path.is_dir() or "__pycache__" in path.parts:
                continue
            text = path.read_bytes().replace(b'"-O2",', b'"-O2", "-compress-mode=none",')
            member = tarfile.TarInfo(f"tiny_capi-1.0.0/{path.relative_to(PACKAGES / 'tiny_capi')}")
            member.size, member.mtime = len(text), EPOCH
            archive.addfile(member, io.BytesIO(text))
    return content.getvalue()


def _pin_source(clone: Clone, url: str, content: bytes, folder: Path) -> None:
    """Have the recipe fetch the source from the server."""
    archive = folder / "source.tar.gz"
    archive.write_bytes(content)
    recipe = clone.root / _RECIPE
    text = re.sub(r'url="[^"]*"', f'url="{url}"', recipe.read_text())
    recipe.write_text(text.replace('"0" * 64', f'"{sha256_of_file(archive)}"'))


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with serving(Site(files={_SOURCE: _source_archive()})) as site:
        yield site


@pytest.fixture(scope="module")
def published(server: Site, module_path: Path, shared_cache: Path) -> Published:
    first = first_clone(module_path / "a" / "clone", shared_cache)
    _pin_source(first, server.url(_SOURCE), server.files[_SOURCE], module_path)
    commit = first.commit("All of it")
    dist = module_path / "a" / "dist"
    folders = ("--dist", dist, "--work", module_path / "a" / "work")
    # The second cache would get a pinned compiler, too.
    done = first.run("build", "tiny-capi-130", *folders, "--host-compiler", "system")
    assert done.status == 0, done.output
    [wheel] = dist.glob("*.whl")
    site = module_path / "site"
    cache = module_path / "index-cache"
    write_site(SiteRequest(folders=(dist,), site=site, cache=cache))
    for path in (site / "files").iterdir():
        server.files[f"/files/{path.name}"] = path.read_bytes()
    keys = module_path / "keys"
    keys.mkdir()
    for name in ("bob", "carol"):
        make_signing_key(keys / f"{name}.pem")
    cache = _cache_with_downloads(module_path / "b" / "cache", shared_cache)
    return Published(
        first=first,
        commit=commit,
        wheel=wheel,
        address=server.url(f"/files/{wheel.name.replace('+', '%2B')}"),
        second=first.cloned(module_path / "b" / "clone", cache),
        keys=keys,
    )


def _policy(published: Published, path: Path, threshold: int, *names: str) -> Path:
    lines = [line_of(one, read_signing_key(published.keys / f"{one}.pem").public) for one in names]
    path.write_text("\n".join([f"threshold {threshold}", *lines]))
    return path


def _statement(folder: Path) -> dict[str, Any]:
    """What the one signed statement of a folder says."""
    [path] = folder.glob("*.rebuild-*.json")
    found: dict[str, Any] = json.loads(base64.b64decode(json.loads(path.read_text())["payload"]))
    return found


def test_provenance_names_all_that_a_rebuild_needs(published: Published) -> None:
    stated = read_published(published.wheel)

    assert stated.commit == published.commit
    kinds = {name.partition(" ")[0] for name in stated.hashes}
    assert {"cuwheel", "recipe", "source", "lock", "CUDA"} <= kinds
    assert all(stated.materials[name] for name in ("C library", "linker", "host compiler"))


def test_rebuilds_from_the_address_and_the_policy_counts_it(
    published: Published, tmp_path: Path
) -> None:
    address = f"{published.address}#sha256={sha256_of_file(published.wheel)}"
    done = published.rebuild(address, "--to", tmp_path / "said")

    assert done.status == 0, done.output
    assert "the same bytes" in done.output
    assert "another input" not in done.output
    predicate = _statement(tmp_path / "said")["predicate"]
    assert predicate["verificationResult"] == "PASSED"
    assert predicate["cuwheel_rebuild"]["materials"] == []
    words = ("attestations", published.wheel, "--statements", tmp_path / "said", "--policy")
    one = _policy(published, tmp_path / "one.txt", 1, "bob")
    two = _policy(published, tmp_path / "two.txt", 2, "bob", "carol")
    assert published.second.run(*words, one).status == 0
    refused = published.second.run(*words, two)
    assert refused.status == PolicyError.exit_code, refused.output
    assert "by 1 of the 2 that the policy requires: bob" in refused.output
    assert "carol: no statement by key" in refused.output


def test_rebuilder_without_a_key_counts_by_identity(
    published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = Identity(identity="https://forge.test/dave/rebuild@main", issuer="https://issuer.test")
    config, root = tmp_path / "trust_config.json", tmp_path / "trusted_root.json"
    with sigstore_serving(who.identity, who.issuer) as served:
        config.write_text(json.dumps(served.trust_config()))
        root.write_text(json.dumps(served.sigstore.trusted_root()))
        for name, value in served.environment.items():
            monkeypatch.setenv(name, value)
        words = ("--sigstore", "--trust-config", config, "--to", tmp_path)
        done = published.second.run("rebuild", published.wheel, *words)
    for name in served.environment:
        monkeypatch.delenv(name)
    policy = _policy(published, tmp_path / "policy.txt", 1, "bob")
    line = f"dave identity={who.identity} issuer={who.issuer}"
    policy.write_text(f"{policy.read_text()}\n{line}\ntrusted-root {root.name}\n")

    asked = ("attestations", published.wheel, "--policy", policy, "--statements", tmp_path)
    counted = published.second.run(*asked)

    assert done.status == 0, done.output
    assert f".rebuild-{who.id[:16]}.sigstore.json" in done.output
    assert counted.status == 0, counted.output
    assert "by 1 of the 1 that the policy requires: dave" in counted.output


def test_builds_from_the_commit_that_the_provenance_names(
    published: Published, tmp_path: Path
) -> None:
    """The recipe has moved on in the second clone: it would give another wheel now."""
    recipe = published.second.root / _RECIPE
    old = recipe.read_text()
    recipe.write_text(old.replace('archs=("90",)', 'archs=("80",)'))
    published.second.commit("Another arch")

    done = published.rebuild(published.address, "--to", tmp_path)

    assert done.status == 0, done.output
    assert "another input: recipes/tiny_capi.py" in done.output
    assert f"built from commit {published.commit}" in done.output
    assert _statement(tmp_path)["predicate"]["verificationResult"] == "PASSED"
    assert git(published.second.root, "worktree", "list").count("\n") == 1
    git(published.second.root, "reset", "--quiet", "--hard", published.commit)


@pytest.mark.parametrize(
    ("ref", "error"),
    [("refs/pull/7/head", NotReproducibleError), ("refs/heads/own", RecipeError)],
)
def test_runs_no_recipe_of_another_commit(
    published: Published, tmp_path: Path, ref: str, error: type[CuwheelError]
) -> None:
    """Not that of a proposed change, nor one of a branch that does more than declare."""
    first, second, ran = published.first.root, published.second.root, tmp_path / "ran"
    recipe = first / _RECIPE
    git(first, "checkout", "--quiet", "-B", "evil", published.commit)
    before = sha256_of_file(recipe)
    recipe.write_text(f"{recipe.read_text()}\nopen({str(ran)!r}, 'w').close()\n")
    commit, after = published.first.commit("A proposed change"), sha256_of_file(recipe)
    git(first, "checkout", "--quiet", published.commit)
    git(second, "fetch", "--quiet", str(first), "+evil:refs/pull/7/head")
    git(second, "update-ref", ref, commit)
    wheel = _copy(published, tmp_path)
    text = statement_of(wheel).read_text()
    statement_of(wheel).write_text(text.replace(published.commit, commit).replace(before, after))

    done = published.rebuild(wheel, "--to", tmp_path)

    for name in {ref, "refs/pull/7/head"}:
        git(second, "update-ref", "-d", name)
    assert done.status == error.exit_code, done.output
    assert not ran.exists()
    assert not [*tmp_path.glob("*.rebuild-*")]


def test_refuses_with_the_difference_where_no_commit_has_the_files(
    published: Published, tmp_path: Path
) -> None:
    wheel = _copy(published, tmp_path)
    statement = statement_of(wheel)
    statement.write_text(statement.read_text().replace(published.commit, "0" * 40))
    recipe = published.second.root / _RECIPE
    text = recipe.read_text()
    recipe.write_text(f"{text}# changed\n")

    done = published.rebuild(wheel)

    recipe.write_text(text)
    assert done.status == NotReproducibleError.exit_code, done.output
    assert re.search(r"recipes/tiny_capi\.py: \w{16} there, \w{16} here", done.output)
    assert "no branch or tag of this clone" in done.output


def _copy(published: Published, folder: Path) -> Path:
    """The wheel with its statement, to be changed."""
    shutil.copy(statement_of(published.wheel), folder)
    return Path(shutil.copy(published.wheel, folder))


def _text_of(library: bytes, kernel: str) -> int:
    """Where in a library the machine code of a kernel begins, in bytes."""
    stream = io.BytesIO(library)
    for element in elements_of(stream, find_fatbins(stream)):
        cubin = library[element.offset : element.offset + element.size]
        if element.kind == "SASS":
            section = ELFFile(io.BytesIO(cubin)).get_section_by_name(f".text.{kernel}")
            assert section is not None
            return int(element.offset + section["sh_offset"])
    raise AssertionError(f"{kernel} isn't in it")


def tamper(wheel: Path, folder: Path) -> None:
    """Change one instruction of the kernel in a wheel, and mend RECORD."""
    unpack_wheel(wheel, folder)
    [library] = folder.glob("tiny_capi/_native*.so")
    content = bytearray(library.read_bytes())
    # The fourth instruction's operand: each has 16 bytes, from sm_70 on.
    content[_text_of(bytes(content), "_Z7add_onePii") + 3 * 16 + 4] ^= 1
    library.write_bytes(content)
    pack(folder, wheel, epoch=EPOCH)


def test_names_the_kernel_of_a_tampered_wheel(published: Published, tmp_path: Path) -> None:
    good = tmp_path / "good"
    assert published.rebuild(published.wheel, "--to", good).status == 0
    bad = tmp_path / "bad"
    bad.mkdir()
    wheel = _copy(published, bad)
    tamper(wheel, tmp_path / "unpacked")

    by_hash = published.rebuild(wheel)
    statement = statement_of(wheel)  # who can change the wheel can change what lies beside it
    was, now = sha256_of_file(published.wheel), sha256_of_file(wheel)
    statement.write_text(statement.read_text().replace(was, now))
    rebuilt = published.rebuild(wheel, "--to", tmp_path / "said")
    policy = _policy(published, tmp_path / "one.txt", 1, "bob")
    words = ("attestations", wheel, "--policy", policy, "--statements")
    by_policy = published.second.run(*words, good, "--statements", tmp_path / "said")

    assert by_hash.status == UsageError.exit_code, by_hash.output
    assert "is not the wheel that the provenance describes" in by_hash.output
    assert rebuilt.status == NotReproducibleError.exit_code, rebuilt.output
    [difference] = _statement(tmp_path / "said")["predicate"]["cuwheel_rebuild"]["differences"]
    assert re.search(r"_native.*\.so, .nv_fatbin, .*SASS sm_90, add_one\(int\*, int\)", difference)
    assert "1 of" in difference
    assert by_policy.status == PolicyError.exit_code, by_policy.output
    assert "it is about another file" in by_policy.output
    assert "add_one(int*, int)" in by_policy.output
