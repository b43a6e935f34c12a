"""What a wheel may contain: files that the recipe leaves out, libraries that it has to name."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from cuwheel.base.errors import AuditError
from cuwheel.base.system.files import list_tree
from cuwheel.build.finish.repair.links import link_advice, read_libraries
from cuwheel.build.finish.repair.metadata import copied_in
from cuwheel.build.recipe.target import Target
from cuwheel.check.cuda.suppliers import component_of_copy, name_before_graft, stem_of


def leave_out(content: Path, target: Target) -> tuple[str, ...]:
    """Remove the files of the recipe's `leave_out`; packing writes RECORD anew.

    Raises:
        AuditError: a pattern fits no file, or one of the wheel's metadata.
    """
    names = sorted(name.as_posix() for name in list_tree(content))
    matches = {
        pattern: [name for name in names if fnmatchcase(name, pattern)]
        for pattern in target.recipe.leave_out
    }
    removed = sorted({name for files in matches.values() for name in files})
    problems = [f'"{pattern}" matches no file' for pattern, files in matches.items() if not files]
    problems += [
        f"it matches {name}, which is part of the wheel's metadata"
        for name in removed
        if name.partition("/")[0].endswith(".dist-info")
    ]
    if problems:
        raise AuditError(
            f"{target.id}: `leave_out` can't be applied",
            why="\n".join(problems),
            fix=f"correct `leave_out` in {target.recipe.module}; the wheel contains "
            f"{', '.join(dict.fromkeys(name.partition('/')[0] for name in names))}",
        )
    for name in removed:
        (content / name).unlink()
    return tuple(removed)


def check_bundles(target: Target, content: Path) -> tuple[str, ...]:
    """Check that a wheel holds no library of the machine but those that its recipe names.

    CUDA's own are there where the recipe's mode requires it.

    Returns:
        Names in the recipe that no library needed.

    Raises:
        AuditError: with each that it doesn't name, and the libraries that need it.
    """
    link, cuda = target.recipe.link, target.toolkit.major
    files = (PurePosixPath(name).name for name, _ in copied_in(content))
    copied = {file: stem_of(file) for file in files if component_of_copy(file, cuda) is None}
    if unnamed := {file: stem for file, stem in copied.items() if stem not in link.bundles}:
        elves = read_libraries(content).elves.items()
        needing = {  # auditwheel has renamed their entries
            file: ", ".join(library for library, elf in elves if file in elf.needed)
            for file in sorted(unnamed)
        }
        raise AuditError(
            f"{target.id}: the wheel would contain system libraries that its recipe doesn't name",
            why="\n".join(
                f"{name_before_graft(file)}, for {libraries or 'nothing that lists it as needed'}"
                for file, libraries in needing.items()
            ),
            fix=f"{link_advice(link, bundles=unnamed.values())}, and its licence into `license`; "
            "or keep the build from linking it, with an option of the package or a patch",
        )
    return tuple(name for name in link.bundles if name not in copied.values())
