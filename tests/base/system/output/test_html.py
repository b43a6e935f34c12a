from __future__ import annotations

from cuwheel.base.system.output import html


def test_page_escapes_its_title_and_loads_nothing() -> None:
    page = html.page("a < b", "<p>body</p>", style="p { color: red; }")

    assert "<title>a &lt; b</title>" in page
    assert "p { color: red; }</style>\n<main>\n<p>body</p>\n</main>" in page
    assert "url(" not in page
    assert "//" not in page


def test_table_has_a_head_only_with_titles() -> None:
    rows = [html.row(("1", html.label("built", "good")), ' id="x"')]

    assert '<thead><tr><th scope="col">a &amp; b</th></tr></thead>' in html.table(("a & b",), rows)
    assert html.table((), rows) == (
        '<table><tbody>\n<tr id="x"><td>1</td><td><span class="state good">built</span></td></tr>\n'
        "</tbody></table>"
    )
