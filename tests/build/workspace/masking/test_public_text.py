"""Published text names no folder of this machine and no password."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path

import pytest

from cuwheel.base.errors import WheelIndexError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.output.terminal import visible
from cuwheel.build.workspace.masking import public_text as module
from cuwheel.build.workspace.masking import refuse_secrets_in_wheels
from cuwheel.build.workspace.masking.public_text import _ESCAPES, PublicText
from tests.support.factories import write_wheel
from tests.support.packages.toy_wheel import add_wheel

_LOGS = sorted((ROOT / "tests" / "logs" / "raw").iterdir())
TEXT = PublicText({Path("/home/al"): "~", Path("/home/al/work"): "<work>", Path("/"): "<root>"})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cc /home/al/work/x.c -I/home/al/include", "cc <work>/x.c -I~/include"),
        ("in /home/alice and /home/al-2", "in /home/alice and /home/al-2"),
        ("look into /home/al.", "look into ~."),
        ("https://me:secret@host/x", "https://host/x"),
        ("\x1b[2J\x07", "\\x07"),
    ],
)
def test_masks_folders_and_passwords(text: str, shown: str) -> None:
    assert TEXT.of(text) == shown


def test_knows_a_folder_by_both_its_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    text = PublicText({tmp_path / "link": "<work>"})

    root = PublicText({Path("/root"): "~"}, environ={})

    assert text.of(f"{tmp_path}/real/x {tmp_path}/link/x") == "<work>/x <work>/x"
    assert root.of("-I/root/x L=/root /a/root b/root") == "-I~/x L=~ /a/root b/root"


@pytest.mark.parametrize(
    "text",
    [
        "ghp_" + "a" * 36,
        "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "export HF_TOKEN=hf_" + "a" * 34,
        "{'password': 'hunter2 x'}",
        r"{\"api_key\": \"hunter2x\"}",
        "twine upload --password hunter2",
        "Authorization: Bearer abcdef12",
        "authorization: Basic bWU6aHVudGVyMg==",
        "curl -u me:hunter2 https://x",
        "curl -d token=hunter2x9&grant=x https://x",
        "(token: hunter2x9)",
        "MY_TOKEN=hunterhunter2",
        "tool --auth-token abcdefgh --token=abcdefgh",
        "https://host/x?X-Amz-Signature=0123456789abcdef",
        "machine host login me password hunter2",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIB\nq83v\n-----END RSA PRIVATE KEY-----",
        r"-----BEGIN PRIVATE KEY-----\nMIIEpAIB\n-----END PRIVATE KEY-----\n",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbm\nninja: stopped",
    ],
)
def test_masks_known_forms(text: str) -> None:
    public = PublicText({}, environ={})

    shown = public.of(text)

    secrets = ("hunter2", "aaaa", "EXAMPLE", "abcdef", "bWU6", "MIIE", "q83v", "b3Bl")
    assert [secret for secret in secrets if secret in shown] == []
    assert public.masked.total() >= 1


@pytest.mark.parametrize(
    "text",
    [
        f"torch==2.11.0 --hash=sha256:{'0f' * 32}",
        "SecretStorage==3.3.1 detect-secrets==1.5.0",
        "docker run -u 1000:1000 image",
        "PWD=/build/x max_tokens=20480000",
        "error: expected ';' before token: int",
        "password: required",
        "-I/tmp/pip-build-env-x1/overlay _ZN2at6native17gpu_kernel_implIZZ.constprop.0",
        "nvcc -gencode=arch=compute_90,code=sm_90 -DTOKEN=1 -DUSE_AUTH=ON",
        "toy/_C.so,sha256=eyJ0Zm9vYmFyLWJhei1xdXV4LTEyMzQ1Njc4OTA,1024",
        f"commit {'0af1' * 10}",
        "const int token_idx = blockIdx.x * blockDim.x;",
        "def forward(self, token: torch.Tensor, num_tokens: int) -> None:",
        "token_id = sorted_token_ids[offset];",
        "Created wheel for google-auth: filename=google_auth-2.38.0-py2.py3-none-any.whl",
    ],
)
def test_leaves_text_of_builds_alone(text: str) -> None:
    assert PublicText({}, environ={}).of(text) == text


# A caller's variables, with names that may announce a secret and values that are none.
_USUAL = {
    "PATH": "/usr/local/cuda/bin:/usr/bin:/bin",
    "HOME": "/root",
    "USER": "root",
    "CI": "true",
    "GIT_AUTHOR_NAME": "compiler",
    "TOKENIZERS_PARALLELISM": "warnings",
    "X_TOKEN": "1",
    "USE_AUTH": "disabled",
    "API_KEY": "x86_64",
    "MAX_TOKEN": "20480000",
    "PASS": "/usr/bin",
}


@pytest.mark.parametrize("log", _LOGS)
def test_changes_nothing_in_logs_of_real_builds(log: Path) -> None:
    text = log.read_text(errors="replace")[:50_000]
    text += " in /build/root and x86_64, as root, without warnings of a disabled compiler 20480000"

    shown = PublicText({Path("/root"): "~"}, environ=_USUAL, names=False).of(text)

    assert shown == re.sub(r"(?<![\w.])/root(?!\w)", "~", visible(_ESCAPES.sub("", text)))
    assert PublicText({}, environ={}).kinds_in(log.read_text(errors="replace")[:200_000]) == ()


@pytest.mark.parametrize(
    "text",
    [
        "x correct-horse-battery y",
        "correct-horse\n    -battery",
        "correct-horse │\n│ -battery",
        "correct-\x1b[31mhorse-\x1b[0mbattery",
        "correct-horse\x1b(B\x1b[m-battery",
        "https://h/?q=Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5",
        f"x={base64.b64encode(b'u:correct-horse-battery').decode()}",
        f"x={base64.b64encode(b'me:correct-horse-battery').decode()}",
    ],
)
def test_masks_values_of_the_callers_variables(text: str) -> None:
    public = PublicText({}, environ={"MY_TOKEN": "correct-horse-battery"})

    shown = public.of(text)

    assert not any(part in shown for part in ("horse", "batter", "Y29y"))
    assert dict(public.masked) == {"value of MY_TOKEN": 1, "user or password of an address": 0}


@pytest.mark.parametrize(
    "written",
    ["it%27s%2Fa%20%26b%3C", "it%27s/a%20%26b%3C", "it%27s%2fa+%26b%3c", "it&#x27;s/a &amp;b&lt;"],
)
def test_masks_values_as_addresses_and_pages_escape_them(written: str) -> None:
    public = PublicText({}, environ={"MY_TOKEN": "it's/a &b<"})

    assert public.of(f"x={written}!") == "x=<masked: value of MY_TOKEN>!"


@pytest.mark.parametrize(
    ("name", "value"),
    [("MY_TOKEN", "short"), ("TOKEN_FILE", "/etc/hosts"), ("EDITOR", "correct-horse-battery")],
)
def test_masks_no_short_value_path_or_plain_variable(name: str, value: str) -> None:
    text = f"a shortage of {value} in /etc/hosts"

    assert PublicText({}, environ={name: value}).of(text) == text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".netrc", "machine h login me password battery-staple"),
        (".pypirc", "[pypi]\nusername = me\npassword = battery-staple\n"),
        (".git-credentials", "https://me:battery-staple@host\n"),
        (".config/pip/pip.conf", "[global]\nindex-url = https://me:battery-staple@host/simple\n"),
        (".cache/huggingface/token", "battery-staple\n"),
    ],
)
def test_masks_credentials_of_programs(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(content)

    shown = PublicText({}, environ={"HOME": str(tmp_path)}).of("got battery-staple")

    assert shown == f"got <masked: credential of {Path(name).name}>"


def test_copies_long_text_with_secret_on_border_of_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_BLOCK", 1 << 12)
    monkeypatch.setattr(module, "_OVERLAP", 1 << 8)
    secret = "ghp_" + "a" * 36
    text = ("x" * 99 + "\n" + secret + "\n") * 400
    copied = io.StringIO()

    public = PublicText({}, environ={})
    public.copy(io.StringIO(text), copied)

    assert "aaaa" not in copied.getvalue()
    assert public.masked["GitHub Token"] == 400


def test_keeps_json_of_records() -> None:
    record = json.dumps({"why": 'it said "password": "hunter2"', "token": "abcdefgh1"})

    assert "hunter2" not in json.loads(PublicText({}, environ={}).of(record))["why"]


_TOKEN = "ghp_" + "a" * 36


@pytest.mark.parametrize(
    "metadata",
    [
        "Project-URL: Source, https://me:hunter2@host/x\n",
        f"Summary: {_TOKEN}\n",
        f"\ngit clone with {_TOKEN}\n",
        "Summary: correct-horse-battery\n",
    ],
)
def test_refuses_secret_in_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata: str
) -> None:
    monkeypatch.setenv("MY_TOKEN", "correct-horse-battery")
    wheel = add_wheel(tmp_path / "dist", "1.0", requires=f"x\n{metadata}")

    with pytest.raises(WheelIndexError, match="would publish a secret"):
        refuse_secrets_in_wheels([wheel])


@pytest.mark.parametrize("name", [f"toy-1.0+{_TOKEN[4:]}-py3-none-any.whl", "toy/correct-horse"])
def test_refuses_secret_in_name_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("MY_TOKEN", "correct-horse")
    monkeypatch.setenv("OTHER_TOKEN", _TOKEN[4:])
    member = "toy.py" if name.endswith(".whl") else name
    wheel = write_wheel(tmp_path, {member: b""}, name="toy", version="1.0", tag="py3-none-any")
    wheel = wheel.rename(wheel.with_name(name)) if name.endswith(".whl") else wheel

    with pytest.raises(WheelIndexError, match="would publish a secret"):
        refuse_secrets_in_wheels([wheel])


def test_takes_examples_of_a_description(tmp_path: Path) -> None:
    text = '\nlogin(password="hunter2", token: "your-own-token") at redis://user:pass@localhost\n'

    refuse_secrets_in_wheels([add_wheel(tmp_path / "dist", "1.0", requires=f"x\n{text}")])
