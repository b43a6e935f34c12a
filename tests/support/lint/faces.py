"""The contract `faces` for import-linter: of a room, others import what its `__all__` names.

`__all__` in a package's `__init__.py` names its modules and packages that others may import; all
else is for the room alone. Nothing is imported for it, so a face costs no start-up time.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from importlinter import Contract, ContractCheck, fields, output

if TYPE_CHECKING:
    from grimp import ImportGraph


class FacesContract(Contract):
    """Holds the rooms below some packages to their faces.

    Options:
        wings: packages whose packages have faces, at any depth.
    """

    type_name = "faces"
    wings = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - import-linter's
        """Return the imports that go past a face, and names in faces that nobody needs."""
        wings: Any = self.wings
        links = sorted(
            (importer, imported)
            for imported in graph.modules
            if imported.startswith(tuple(f"{wing}." for wing in wings))
            for importer in graph.find_modules_that_directly_import(imported)
        )
        entered = {part for importer, imported in links for part in _entered(importer, imported)}
        rooms = {room for room, _ in entered}
        faces = {room: set(getattr(import_module(room), "__all__", ())) for room in rooms}
        hidden = [
            f"{importer} -> {imported}: {name} isn't in the face of {room}"
            for importer, imported in links
            for room, name in _entered(importer, imported)
            if name not in faces[room]
        ]
        unused = [
            f"{room}: nobody else imports {name}"
            for room, face in sorted(faces.items())
            for name in sorted(face)
            if (room, name) not in entered and f"{room}.{name}" in graph.modules
        ]
        return ContractCheck(kept=not hidden and not unused, metadata={"lines": hidden + unused})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print a line for each."""
        for line in check.metadata["lines"]:
            output.print_error(line, bold=False)


def _entered(importer: str, imported: str) -> Iterator[tuple[str, str]]:
    """Yield each package that an import enters, from a wing's room on, and the name it takes there.

    `cuwheel.cli.x -> cuwheel.build.recipe.target`: (`cuwheel.build.recipe`, `target`).
    """
    parts = imported.split(".")
    for depth in range(3, len(parts)):
        room = ".".join(parts[:depth])
        if importer != room and not importer.startswith(f"{room}."):
            yield room, parts[depth]
