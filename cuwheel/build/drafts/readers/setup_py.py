"""A reader of setup.py, and of the tree's own modules that it imports, as syntax trees."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from cuwheel.base.system.regular_files import read_module
from cuwheel.build.drafts.readers.facts import Kind, SourceFact, place_of, read_flags

_MOST_FILES = 40  # of the tree, that a setup.py imports
_GETTERS = re.compile(r"(?:os\.)?(?:getenv|environ\.(?:get|pop|setdefault))")
_ENVIRON = re.compile(r"(?:os\.)?environ")
_DOWNLOADS = re.compile(
    r"(?:urllib\.request\.)?(?:urlopen|urlretrieve)|requests\.\w+|wget\.\w+"
    r"|torch\.hub\.download_url_to_file|(?:git\.)?Repo\.clone_from"
)
_RUNNERS = re.compile(r"(?:subprocess\.(?:run|call|check_\w+|Popen)|os\.(?:system|popen))")
_PATH_CHANGES = re.compile(r"sys\.path\.(?:append|insert|extend)")
_FETCHERS = re.compile(r"(?:^|/)(?:git|wget|curl|aria2c)$")
_COMPILING = ("cmake", "ninja")  # programs that a build starts, and the index has
# A line of a script for a shell, up to where an f-string goes on.
_SCRIPT = re.compile(r"^[ \t]*(cmake|ninja)[ \t]+(?=[-./$\"]|$)", re.MULTILINE)
_EXTENSIONS = re.compile(r"(?:\w+\.)*(?!Build)\w*Extension(?:Using\w+)?")
_SOURCE = re.compile(r"[\w./-]+\.(?:cu|cpp|cc|cxx|c)")
_MISSING = ("ImportError", "ModuleNotFoundError", "Exception")
_TRUTHS = ("int", "bool", "strtobool", "str2bool")


def read_setup(
    tree: Path, files: Iterable[Path] = (), packages: Collection[str] = ()
) -> tuple[SourceFact, ...]:
    """Return the facts of setup.py, further files such as a build backend, and what they import.

    Args:
        packages: the wheel's own, which a setup.py imports only for their version.
    """
    queue = [path for path in (tree / "setup.py", *files) if path.is_file()]
    roots = [tree]
    facts: list[SourceFact] = []
    for path in queue:
        try:
            module = read_module(path)
        except (OSError, ValueError) as problem:
            name = str(problem).splitlines()[0]
            facts.append(SourceFact(kind="unread", name=name, where=place_of(tree, path, 1)))
            continue
        roots += [root for root in _added_roots(tree, module) if root not in roots]
        names = {name for node in ast.walk(module) for name in _imported(node)}
        local = [file for name in sorted(names) for file in _files_of(roots, name)]
        if packages:
            local += [tree / name / "__init__.py" for name in sorted(names - {*packages})]
            local += _neighbours(path, module)
        if path != tree / "setup.py":  # a helper's way into the package is none of the build's
            local = [file for file in local if file.relative_to(tree).parts[0] not in packages]
        local = [file for file in local if file.is_file()]
        queue += [file for file in local if file not in queue][: max(_MOST_FILES - len(queue), 0)]
        facts += _Reader(roots, path, module).read()
    return tuple(dict.fromkeys(facts))


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)  # may be a module


def _neighbours(path: Path, module: ast.Module) -> Iterator[Path]:
    """Yield the files of `from .name import …`."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            yield path.parent.joinpath(*node.module.split(".")).with_suffix(".py")


def _added_roots(tree: Path, module: ast.Module) -> Iterator[Path]:
    """Yield folders of the tree that a module adds to `sys.path`."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _PATH_CHANGES.fullmatch(_dotted(node.func)):
            parts = [text for part in ast.walk(node) if (text := _text(part))]
            folder = tree.joinpath(*parts).resolve()
            if parts and folder.is_dir() and folder.is_relative_to(tree.resolve()):
                yield tree / folder.relative_to(tree.resolve())


def _files_of(roots: list[Path], name: str) -> list[Path]:
    """Return a module's files; a package at the tree's top is only imported for its version."""
    paths = [root.joinpath(*name.split(".")) for root in roots]
    files = [path.with_suffix(".py") for path in paths]
    files += [path / "__init__.py" for path in paths[1:]]
    return [file for file in files if file.is_file()]


class _Reader:
    """A reader of one module, which knows the parent of each node."""

    def __init__(self, roots: list[Path], path: Path, module: ast.Module) -> None:
        self._roots = roots
        self._tree = roots[0]
        self._path = path
        self._module = module
        self._parents = {
            child: node for node in ast.walk(module) for child in ast.iter_child_nodes(node)
        }
        keywords = (node for node in ast.walk(module) if isinstance(node, ast.keyword))
        packages = (_text(node.value) for node in keywords if node.arg == "ext_package")
        self._package = next(packages, "")

    def read(self) -> Iterator[SourceFact]:
        """Yield every fact: imports first, then in the order of the syntax tree."""
        for node in ast.walk(self._module):
            for name in sorted({name.partition(".")[0] for name in _imported(node)}):
                if name not in sys.stdlib_module_names and not _files_of(self._roots, name):
                    yield self._fact(self._kind_of_import(node, name), name, node)
        for node in ast.walk(self._module):
            if isinstance(node, ast.Call):
                yield from self._read_call(node)
            elif isinstance(node, ast.Subscript | ast.Compare):
                yield from self._read_lookup(node)
            elif isinstance(node, ast.Dict):  # extension modules are made from it later
                for key, value in zip(node.keys, node.values, strict=True):
                    yield from self._read_libraries(value if _text(key) == "libraries" else None)
            elif (text := _text(node)) and not isinstance(self._parents.get(node), ast.Expr):
                yield from read_flags(text, self._at(node), self._guard(node))
                yield from (self._fact("program", name, node) for name in _SCRIPT.findall(text))

    def _kind_of_import(self, node: ast.AST, package: str) -> Kind:
        """Return whether it is of PyTorch's build helpers, or in a `try` that goes on without."""
        if package == "torch" and any("cpp_extension" in name for name in _imported(node)):
            return "torch extension"
        child, parent = node, self._parents.get(node)
        while parent is not None:
            if isinstance(parent, ast.Try) and child in parent.body:
                handlers = [handler for handler in parent.handlers if _takes_missing(handler)]
                if handlers and not any(_raises(handler) for handler in handlers):
                    return "optional import"
            child, parent = parent, self._parents.get(parent)
        return "import"

    def _read_call(self, node: ast.Call) -> Iterator[SourceFact]:
        name = _dotted(node.func)
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if _GETTERS.fullmatch(name):
            yield from self._read_variable(node, *node.args[:2])
        elif _DOWNLOADS.fullmatch(name):
            yield self._fact("download", ast.unparse(node), node)
        elif _RUNNERS.fullmatch(name):
            yield from self._read_process(node)
        elif name.endswith("cuda.is_available"):
            yield self._fact("only with gpu" if self._is_demanded(node) else "gpu", name, node)
        elif _EXTENSIONS.fullmatch(name) or "sources" in keywords:
            yield from self._read_extension(node, keywords)
        if "use_ninja" in keywords and self._is_false(keywords["use_ninja"]):
            yield self._fact("no ninja", "use_ninja=False", node)
        if "py_limited_api" in keywords and not self._is_false(keywords["py_limited_api"]):
            yield self._fact("stable ABI", f"py_limited_api in {name}", node)

    def _is_false(self, node: ast.expr) -> bool:
        """Return True for `False`, and for a name that is set to nothing else."""
        values = [node]
        if isinstance(node, ast.Name):
            assignments = (part for part in ast.walk(self._module) if isinstance(part, ast.Assign))
            values = [a.value for a in assignments if node.id in map(ast.unparse, a.targets)]
        constants = [part.value for part in values if isinstance(part, ast.Constant)]
        return bool(values) and constants == [False] * len(values)

    def _is_demanded(self, node: ast.expr) -> bool:
        """Return True for `if not …: raise …`."""
        negation = self._parents.get(node)
        owner = self._parents.get(negation) if negation else None
        is_negated = isinstance(negation, ast.UnaryOp) and isinstance(negation.op, ast.Not)
        return is_negated and isinstance(owner, ast.If) and any(map(_raises, owner.body))

    def _read_lookup(self, node: ast.Subscript | ast.Compare) -> Iterator[SourceFact]:
        """Read `os.environ["X"]` and `"X" in os.environ`."""
        if isinstance(node, ast.Compare):
            mapping, key = node.comparators[0], node.left
        else:
            mapping, key = node.value, node.slice
        is_assigned = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
        if _ENVIRON.fullmatch(_dotted(mapping)) and not is_assigned:
            yield from self._read_variable(node, key)

    def _read_variable(
        self, node: ast.expr, name: ast.expr | None = None, default: ast.expr | None = None
    ) -> Iterator[SourceFact]:
        if not (text := _text(name)):
            yield self._fact("computed variable", ast.unparse(node), node)
            return
        value = default.value if isinstance(default, ast.Constant) else None
        yield SourceFact(
            kind="variable",
            name=text,
            where=self._at(node),
            default="" if value is None else str(value),
            wants=self._compared_value(node),
            guard=self._guard(node),
        )

    def _compared_value(self, node: ast.AST) -> str:
        """Return what a value is compared with, or 1 if it is read as a number or a truth."""
        while (parent := self._parents.get(node)) is not None and not isinstance(parent, ast.stmt):
            if isinstance(parent, ast.Compare) and isinstance(parent.ops[0], ast.Eq | ast.In):
                other = parent.comparators[0] if parent.left is node else parent.left
                values = (
                    other.elts if isinstance(other, ast.Tuple | ast.List | ast.Set) else [other]
                )
                if values and (text := _text(values[0])):
                    return text
            if isinstance(parent, ast.Call) and node in parent.args:
                return "1" if _dotted(parent.func).split(".")[-1] in _TRUTHS else ""
            node = parent
        return ""

    def _read_process(self, node: ast.Call) -> Iterator[SourceFact]:
        """Read `subprocess.run(["git", "clone", …])` and `os.system("wget …")`."""
        parts = [part for first in node.args[:1] for part in _elements(first) or [first]]
        argv = [word for part in parts for word in (_text(part) or "…").split()]
        if not argv:
            return
        if argv[0] in _COMPILING:
            yield self._fact("program", argv[0], node)
        is_local = argv[0] == "git" and not {"clone", "submodule", "fetch"} & {*argv}
        if _FETCHERS.search(argv[0]) and not is_local:
            yield self._fact("download", " ".join(argv), node)

    def _read_extension(
        self, node: ast.Call, keywords: Mapping[str | None, ast.expr]
    ) -> Iterator[SourceFact]:
        name, sources, *_ = (*node.args, None, None)
        if text := _text(keywords.get("name") or name):
            package = f"{self._package}." if self._package else ""
            yield self._fact("extension", package + text.replace("/", "."), node)
        for part in _elements(keywords.get("sources") or sources):
            if _SOURCE.fullmatch(text := _text(part)) and not (self._tree / text).exists():
                yield self._fact("missing", text, part)
        yield from self._read_libraries(keywords.get("libraries"))

    def _read_libraries(self, node: ast.expr | None) -> Iterator[SourceFact]:
        for part in _elements(node):
            if text := _text(part):
                yield self._fact("library", text, part)

    def _fact(self, kind: Kind, name: str, node: ast.AST) -> SourceFact:
        return SourceFact(kind=kind, name=name, where=self._at(node), guard=self._guard(node))

    def _guard(self, node: ast.AST) -> str:
        """Return the `if`s around a node, inside its function, the nearest last."""
        conditions: list[str] = []
        while (parent := self._parents.get(node)) is not None:
            if isinstance(parent, ast.If) and node is not parent.test:
                text = ast.unparse(parent.test)
                conditions.append(text if node in parent.body else f"not ({text})")
            if isinstance(parent, ast.FunctionDef):
                break
            node = parent
        return " and ".join(reversed(conditions))

    def _at(self, node: ast.AST) -> str:
        return place_of(self._tree, self._path, getattr(node, "lineno", 1))


def _takes_missing(handler: ast.ExceptHandler) -> bool:
    """Return True if an `except` is for a missing module too."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or _dotted(kind) in _MISSING for kind in kinds)


def _raises(block: ast.AST) -> bool:
    return any(isinstance(node, ast.Raise) for node in ast.walk(block))


def _elements(node: ast.expr | None) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.List | ast.Tuple) else []


def _text(node: ast.AST | None) -> str:
    """Return a string literal; empty for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _dotted(node: ast.AST) -> str:
    """Return `os.environ.get`; empty for what is no plain name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else node.attr
    return ""
