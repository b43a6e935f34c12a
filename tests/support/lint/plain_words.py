"""Count narration in the engine's texts; `nox -s lint` fails where there is more than a bound.

Words such as `asked` and `whose` make a docstring or a name tell a story instead of naming the
mechanism. pip has 3 of them in 1,000 lines.
"""

from __future__ import annotations

import re
import sys

from cuwheel.base.paths import PACKAGE

WORDS = re.compile(
    r"\b(asks?|asked|says?|said|tells?|told|beside|nobody|somebody|whose|whoever|whatever|stands?"
    r"|stood)\b",
    re.IGNORECASE,
)
MOST = 5.0  # in 1,000 lines; it may only fall
_SHOWN = 10  # files


def narration() -> tuple[float, list[tuple[int, str]]]:
    """Return the words in 1,000 lines, and how many each file has, the most first."""
    files = []
    lines = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("cli/starter/"):
            text = path.read_text(encoding="utf-8")
            lines += text.count("\n")
            files.append((len(WORDS.findall(text)), name))
    return 1000 * sum(count for count, _ in files) / lines, sorted(files, reverse=True)


def main() -> int:
    """Print the files with the most words where there are too many."""
    rate, files = narration()
    if rate <= MOST:
        return 0
    for count, name in files[:_SHOWN]:
        print(f"cuwheel/{name}: {count}")  # noqa: T201 - that's the answer
    print(  # noqa: T201 - likewise
        f"{rate:.1f} narration words in 1,000 lines, at most {MOST}: name the mechanism instead "
        "(tests/support/lint/plain_words.py has the words)"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
