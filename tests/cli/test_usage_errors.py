"""Command lines that a session refuses: the whole error of each, and that nothing is written."""

from __future__ import annotations

import io
import shlex
from pathlib import Path

import pytest

from cuwheel.base.errors import CuwheelError
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command
from tests.support.golden import Golden
from tests.support.packages.toy_wheel import add_wheel

# By golden file; each line is typed in a folder with the wheel of a project `toy` in `wheels/`.
_LINES = {
    "options": """
        build x-130 --pyton 3.12
        build x-130 --pyton=3.12
        build causal-conv1d-130 --pyton
        build x-130 --archs 90
        build x-130 --keepwork
        build x-130 --off
        build x-130 --source ''
        build x-130 --python ''
        build x-130 --python
        audit
        audit x.whl --arch 9.0
        audit x.whl --arch sm_90
        audit x.whl --arch 80,90
        explain
        lock
        lock-verify
        lock all --cooldown=-5
        lock all --cooldown=²
        outdated --days soon
        bump --cooldown soon
        cache --prune
        cache --size 20G
        cache --unused-for 3
        cache --prune --size lots
        cache --unused-for=-1
        matrix show causal-conv1d
        pick flash-attn --sources pytorhc
        pick flash-attn xformers --lock lock.toml
        cache everything
        slim x.whl
        slim x.whl --arch 90a
        slim x.whl --arch 90
        slim x.whl --arch 8.6
        slim x.whl --arch sm_80
        slim x.whl --arch 80,90
        slim wheels --arch 90
        bump gsplat --framework torch==2.15.0 --to 1.5.2
        bump gsplat --framework torch==2.15.0 --cxx-standard 99
        explain x.log --python X
        day-zero tensorflow==2.15.0
        day-zero torch
        day-zero torch==2.15.0 --arch 9.0
        new x.whl
        audit wheels --sarif wheels/toy-1.0-py3-none-any.whl
        """,
    "names": """
        diagnos
        build causal-conv1d-30
        mirror causal-conv1d-130
        toolchain 139
        lock engin
        lock dev --framework torch==2.11.0
        lock-verify 999
        outdated causal-conv2d
        bump causal-conv2d
        explain cuda-home-nit-set
        install causal-conv1d-130 cutensornet-sample-130
        install causal-conv1d-131
        install causal-conv1d-130 --index gone
        """,
    "files": """
        explain missing.log
        explain wheels/toy-1.0-py3-none-any.whl
        explain empty
        explain --jsonl -
        explain --jsonl no-log.jsonl
        explain --jsonl number.jsonl
        attestations gone.whl --policy rebuilders.txt
        index --dist nowhere
        index --dist wheels --to site --yank toy==3.0 --reason broken
        index --dist wheels --to site --yank toy==1.0 --reason old --unyank toy==1.0
        release --dist wheels --to site --require pref
        release --dist wheels --to site --upload https://me:secret@host/
        release --dist wheels --to site --tag v2026-01-01
        release --dist wheels --to site --publish --address https://me:secret@host/
        rebuild
        rebuild gone.whl
        rebuild gone.whl.provenance.json
        rebuild gone.whl --to site
        rebuild gone.whl --key nowhere/alice.pem
        rebuild gone.whl --new-key nowhere/alice.pem
        rebuild gone.whl --sigstore --trust-config gone.json
        """,
    "addresses": """
        index --dist wheels --to site --address notaurl
        index --dist wheels --to site --base-url notaurl
        index --dist wheels --to site --base-url files/toy
        index --dist wheels --to site --base-url file:///srv/wheels
        index --dist wheels --to site --base-url https://
        index --dist wheels --to site --base-url https:///path
        index --dist wheels --to site --base-url https://[x/
        index --dist wheels --to site --base-url https://host:port/
        index --dist wheels --to site --base-url 'https://host/a b'
        index --dist wheels --to site --base-url https://host/?a=b
        index --dist wheels --to site --base-url https://host/#a
        index --dist wheels --to site --base-url https://me:secret@host/
        """,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which commands are typed, with a cache of its own."""
    add_wheel(tmp_path / "wheels", "1.0")
    (tmp_path / "empty").mkdir()
    (tmp_path / "no-log.jsonl").write_text('{"id": 1}\n')
    (tmp_path / "no-log.jsonl").chmod(0o600)
    (tmp_path / "number.jsonl").write_text('{"id": 1, "log": 2}\n')
    for name, value in {"INVOKED_FROM": tmp_path, "CACHE": tmp_path / "cache"}.items():
        monkeypatch.setenv(f"CUWHEEL_{name}", str(value))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"{")))
    return tmp_path


def _error_of(line: str) -> str:
    name, *words = shlex.split(line)
    with pytest.raises(CuwheelError) as caught:
        run_command(name, words, Console())
    return f"$ {line}\n{caught.value}\n"


@pytest.mark.parametrize("name", _LINES)
def test_refuses(name: str, folder: Path, golden: Golden) -> None:
    before = {*folder.iterdir()}

    errors = [_error_of(line.strip()) for line in _LINES[name].strip().splitlines()]

    assert {path.name for path in {*folder.iterdir()} - before} <= {"cache"}
    assert "secret" not in "".join(errors).replace(":secret@", "")
    golden.check(f"errors/{name}.txt", "\n".join(errors), {folder: "DIR"})
