"""Print where NVIDIA's libraries came from: `python -m cutensornet_sample`."""

from __future__ import annotations

from cutensornet_sample import libraries


def main() -> None:
    """Print one line for each library."""
    rows = [(found.name, found.owner or "no wheel", str(found.file)) for found in libraries()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    if not any(name.startswith("libcuda.so") for name, *_ in rows):
        lines.append(
            "libcuda.so.1 is not loaded: it belongs to the GPU's driver, and only a call needs it"
        )
    print("\n".join(lines))  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
