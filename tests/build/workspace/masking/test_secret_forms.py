"""Searching for literals first finds what searching everywhere does."""

from __future__ import annotations

import pytest

from cuwheel.build.workspace.masking.secret_forms import Form, lowered, secret_forms

_A40 = "aB3" * 13 + "x"
_JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
SAMPLES = "\n".join(
    (
        *('key="AKC' + "a1" * 9 + '"', "AKCa1b2c3d4e5f6", "=AP1" + "a1" * 9, _JWT),
        *("0f" * 16 + "-us12", "xoxb-123-abc", "XOXP-1-1-a", "sk_live_" + "a1" * 12),
        *("rk_live_" + "a1" * 12, "AC" + "0f" * 16, "SK" + "0f" * 16, f"AWS_key = '{_A40}'"),
        *("https://hooks.slack.com/services/T1/B2/x3", f"github_pat_{_A40}", f"hf_{_A40}"),
        *(f"-nvapi-{_A40}", f"npm_{'a1' * 18}", f"AIza{'a1' * 17}b", f"sk-{_A40}", f"task-{_A40}"),
        *(f"dckr_pat_{_A40}", f"pypi-{_A40 * 2}", "PassWord: hunter2x", "contraseña=hunter2x"),
        *("myApiKey=hunter2x api_key=hunter2x --access-token hunter2x", "token=token=token=x12345"),
        *(
            "password=password: password=hunter2x",
            "Authorization: Bearer abcdef12",
            "İ token=x12345678",
        ),
        *("proxy-authorization=hunter2x", "X-My-Key: hunter2x", "Set-Cookie: a=hunter2x"),
        *("basic bWU6aHVudGVyMg==", "login me password hunter2", "-u me:hunter2 --user=me:hunter2"),
        *("https://h/?a=1&X-Amz-Signature=0123456789", "?key=0123456789&token=0123456789"),
    )
)


@pytest.mark.parametrize(
    "form",
    [pytest.param(form, id=form.pattern.pattern[:30]) for form in secret_forms() if form.begins],
)
@pytest.mark.parametrize("text", [SAMPLES, SAMPLES.replace("\n", ""), SAMPLES[::-1]])
def test_literals_miss_nothing(form: Form, text: str) -> None:
    everywhere = Form(kind="", pattern=form.pattern, is_secret=form.is_secret)

    spans = list(form.spans(text, lowered(text)))

    assert spans == list(everywhere.spans(text, ""))
    assert spans or text != SAMPLES
