"""What releases of Python 3 added to the standard library, and removed from it: rules and tables.

Modules and names: its documentation, "What's New in Python" of each release and the notes "New in
version"; compared with the interpreters 3.7 to 3.13, not with one of 3.14.
"""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

from cuwheel.base.formats.wheel.metadata import header
from cuwheel.base.system.regular_files import read_bytes
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.installed_projects import is_brought
from cuwheel.check.audit.python_code import PythonCode, names_of
from cuwheel.check.audit.rules.python.imports import evaluated_by


def _by_name(table: dict[int, str]) -> dict[str, int]:
    return {name: minor for minor, names in table.items() for name in names.split()}


ADDED_MODULES = _by_name(
    {
        8: "importlib.metadata multiprocessing.shared_memory",
        9: "graphlib zoneinfo",
        11: "tomllib wsgiref.types importlib.resources.abc",
        14: "annotationlib compression string.templatelib concurrent.interpreters",
    }
)
REMOVED_MODULES = _by_name(
    {
        9: "dummy_threading _dummy_threading",
        10: "formatter parser symbol",
        11: "binhex",
        12: "asynchat asyncore distutils imp smtpd",
        13: "aifc audioop cgi cgitb chunk crypt imghdr lib2to3 mailcap nis nntplib ossaudiodev "
        "pipes sndhdr spwd sunau telnetlib uu xdrlib",
    }
)
_RULE = "Python code"
# Numbers at the start of byte code, by minor release (Include/internal/pycore_magic_number.h).
MAGIC = {8: 3413, 9: 3425, 10: 3439, 11: 3495, 12: 3531, 13: 3571, 14: 3627}
_WINDOWS_MODULES = frozenset({"_winapi", "_winreg", "msvcrt", "nt", "winreg", "winsound"})
_WINDOWS_NAMES = frozenset(
    f"{module}.{name}"
    for module, names in {
        "asyncio": "ProactorEventLoop WindowsProactorEventLoopPolicy "
        "WindowsSelectorEventLoopPolicy",
        "ctypes": "FormatError GetLastError OleDLL WINFUNCTYPE WinDLL WinError oledll windll",
        "os": "O_BINARY add_dll_directory startfile",
        "signal": "CTRL_BREAK_EVENT CTRL_C_EVENT",
        "subprocess": "CREATE_NEW_CONSOLE CREATE_NEW_PROCESS_GROUP CREATE_NO_WINDOW "
        "DETACHED_PROCESS STARTF_USESHOWWINDOW STARTUPINFO SW_HIDE",
        "sys": "dllhandle getwindowsversion winver",
    }.items()
    for name in names.split()
)
STANDARD_MODULES = sys.stdlib_module_names | {
    name.partition(".")[0] for name in (*ADDED_MODULES, *REMOVED_MODULES)
}
"""Top-level modules of any release, whichever runs cuwheel."""
ADDED_NAMES = _by_name(
    {
        8: "shlex.join statistics.fmean statistics.geometric_mean statistics.quantiles "
        "threading.excepthook threading.get_native_id sys.unraisablehook "
        "unittest.IsolatedAsyncioTestCase "
        "typing.Final typing.Literal typing.Protocol typing.SupportsIndex typing.TypedDict "
        "typing.final typing.get_args typing.get_origin typing.runtime_checkable math.dist "
        "math.isqrt math.prod math.perm math.comb functools.cached_property "
        "functools.singledispatchmethod",
        9: "typing.Annotated functools.cache math.lcm math.nextafter math.ulp random.randbytes "
        "importlib.resources.files importlib.resources.as_file asyncio.to_thread ast.unparse "
        "argparse.BooleanOptionalAction os.waitstatus_to_exitcode sys.platlibdir "
        "tracemalloc.reset_peak",
        10: "typing.Concatenate typing.ParamSpec typing.ParamSpecArgs typing.ParamSpecKwargs "
        "typing.TypeAlias typing.TypeGuard typing.is_typeddict itertools.pairwise "
        "types.EllipsisType types.NoneType types.NotImplementedType types.UnionType "
        "contextlib.aclosing dataclasses.KW_ONLY "
        "inspect.get_annotations statistics.correlation statistics.covariance "
        "statistics.linear_regression sys.orig_argv sys.stdlib_module_names",
        11: "typing.LiteralString typing.Never typing.NotRequired typing.Required typing.Self "
        "typing.TypeVarTuple typing.Unpack typing.assert_never typing.assert_type "
        "typing.clear_overloads typing.dataclass_transform typing.get_overloads "
        "typing.reveal_type enum.EnumCheck enum.EnumType enum.FlagBoundary enum.ReprEnum "
        "enum.StrEnum enum.member enum.nonmember enum.verify enum.property enum.global_enum "
        "asyncio.Runner asyncio.TaskGroup asyncio.timeout asyncio.timeout_at asyncio.Barrier "
        "contextlib.chdir datetime.UTC hashlib.file_digest math.cbrt math.exp2 operator.call "
        "inspect.getmembers_static logging.getLevelNamesMapping sys.exception re.NOFLAG",
        12: "typing.TypeAliasType typing.override itertools.batched math.sumprod "
        "types.get_original_bases collections.abc.Buffer inspect.BufferFlags calendar.Month "
        "calendar.Day",
        13: "typing.NoDefault typing.ReadOnly typing.TypeIs typing.get_protocol_members "
        "typing.is_protocol warnings.deprecated copy.replace queue.ShutDown math.fma "
        "types.CapsuleType os.process_cpu_count",
        14: "annotationlib.get_annotations functools.Placeholder",
    }
)
REMOVED_NAMES = _by_name(
    {
        # Of Python 2, which no release of 3 has.
        1: "itertools.ifilter itertools.imap itertools.izip itertools.izip_longest os.getcwdu "
        "os.popen2 os.popen3 string.join string.letters string.lowercase string.maketrans "
        "string.uppercase sys.maxint sys.setdefaultencoding types.ClassType types.DictType "
        "types.IntType types.ListType types.StringType types.StringTypes "
        "types.UnicodeType urllib.quote urllib.unquote urllib.urlencode urllib.urlopen "
        "urllib.urlretrieve",
        8: "cgi.escape cgi.parse_qs platform.dist platform.linux_distribution time.clock",
        9: "base64.encodestring base64.decodestring fractions.gcd plistlib.readPlist "
        "plistlib.writePlist sys.getcheckinterval sys.setcheckinterval",
        10: "collections.Callable collections.Container collections.Hashable collections.Iterable "
        "collections.Iterator collections.Mapping collections.MutableMapping "
        "collections.MutableSequence collections.MutableSet collections.Sequence "
        "collections.Set collections.Sized",
        11: "asyncio.coroutine inspect.ArgSpec inspect.formatargspec inspect.getargspec "
        "binascii.b2a_hqx binascii.a2b_hqx gettext.bind_textdomain_codeset gettext.ldgettext "
        "gettext.ldngettext gettext.lgettext gettext.lngettext",
        12: "pkgutil.ImpImporter pkgutil.ImpLoader configparser.SafeConfigParser "
        "importlib.find_loader importlib.abc.Finder importlib.util.module_for_loader "
        "importlib.util.set_loader importlib.util.set_package locale.format "
        "ssl.match_hostname ssl.wrap_socket sqlite3.OptimizedUnicode",
        13: "typing.io typing.re locale.resetlocale re.template unittest.findTestCases "
        "unittest.makeSuite unittest.getTestCaseNames",
        14: "ast.Bytes ast.Ellipsis ast.NameConstant ast.Num ast.Str pkgutil.find_loader "
        "pkgutil.get_loader importlib.abc.ResourceReader importlib.abc.Traversable "
        "importlib.abc.TraversableResources asyncio.AbstractChildWatcher "
        "asyncio.get_child_watcher",
    }
)
# Arguments by name, and the Python 3 that takes each ("Changed in version").
_KEYWORDS = _by_name(
    {
        8: "builtins.sum.start itertools.accumulate.initial logging.basicConfig.force "
        "shutil.copytree.dirs_exist_ok",
        9: "argparse.ArgumentParser.exit_on_error hashlib.md5.usedforsecurity "
        "hashlib.sha1.usedforsecurity logging.basicConfig.encoding random.sample.counts "
        "typing.get_type_hints.include_extras",
        10: "bisect.bisect.key bisect.bisect_left.key bisect.bisect_right.key bisect.insort.key "
        "builtins.zip.strict dataclasses.dataclass.kw_only dataclasses.dataclass.match_args "
        "dataclasses.dataclass.slots dataclasses.field.kw_only inspect.signature.eval_str",
        11: "dataclasses.dataclass.weakref_slot subprocess.Popen.process_group "
        "subprocess.run.process_group",
        12: "asyncio.run.loop_factory shutil.rmtree.onexc warnings.warn.skip_file_prefixes",
        14: "builtins.map.strict",
    }
)
_BUILTIN = frozenset({"map", "sum", "zip"})
_OF_TEXT = {"removeprefix": 9, "removesuffix": 9}  # methods of str and bytes
_TEXTS = frozenset({"__name__", "__file__", "__package__"})
_MERGE = 9  # of Python 3, in which dictionaries have `|`
_DICT = re.compile(rb"\}\s*\||\|\s*\{")
_SELECTS = re.compile(rb"version_info|hexversion|hasattr|AttributeError|TypeError|ImportError")
_OF_STANDARD = re.compile(rb"^\w.*\b(collections|json|math|os|re|sys|time|typing)\.", re.MULTILINE)
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_CHOICE = (ast.If, ast.IfExp, ast.BoolOp, ast.Try, ast.While, ast.With)
_NEVER = 99
_THIS = sys.version_info.minor
# Modules of which not all names are in the source, or that start something when they are imported.
_UNREAD = re.compile(rb"import \*|def __getattr__|globals\(\)|locals\(\)|\bexec\(|_convert_\(")
_POSIX = re.compile(r"OS Independent|POSIX|Unix|MacOS|Linux")


class _Use(NamedTuple):
    """A part of the standard library, or of the language, that code uses.

    Attributes:
        name: with its module; of an argument, the function's before.
        added: the minor release of Python 3 that has it first.
        removed: the one that has it no more.
        is_name: an attribute, which code may have made itself.
    """

    line: int
    name: str
    added: int
    removed: int
    is_name: bool


def release_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield imports and uses of what some allowed Pythons don't have."""
    yield from _imported_findings(case)
    for member in (*case.code.run, *case.code.rest):
        source = case.code.sources[member]
        if _may_use().search(source) or (member in case.code.run and _OF_STANDARD.search(source)):
            yield from _used_findings(member, case)


def _imported_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield imports from the standard library that some allowed Pythons don't have."""
    code, oldest = case.code, case.oldest_python
    done: set[tuple[str, str]] = set()
    lost: dict[tuple[str, int, str, Severity], list[str]] = {}
    for item in (*code.imports, *code.rest_imports):
        is_run = item.importer in code.run
        for name in (item.module, *(f"{item.module}.{name}" for name in item.names)):
            top = name.partition(".")[0]
            if (item.importer, name) in done or top in code.modules:
                continue
            done.add((item.importer, name))
            added = ADDED_MODULES.get(name) or ADDED_NAMES.get(name) or 0
            removed = REMOVED_MODULES.get(top) or REMOVED_NAMES.get(name) or _NEVER
            if is_run and not added and removed == _NEVER:
                yield from _absent_findings(item.importer, f"line {item.line} imports", name, case)
            if oldest and added > oldest:
                fact = f"line {item.line} imports {name}, which Python has from 3.{added} on, but "
                fact += f"3.{oldest} is allowed"
                yield finding(item.importer, _RULE, fact, "error" if is_run else "warning")
            if is_run and (top in _WINDOWS_MODULES or name in _WINDOWS_NAMES):
                yield from _windows_findings(
                    item.importer, f"line {item.line} imports {name}", case
                )
            # setuptools has a distutils; it is in the environments of those who require it.
            is_served = top == "distutils" and is_brought("setuptools", case.required)
            if oldest and removed <= case.newest_python and not is_served:
                severity: Severity = "error" if is_run and removed <= oldest else "warning"
                key = (item.importer, item.line, _until(removed), severity)
                lost.setdefault(key, []).append(name)
    for (member, line, until, severity), names in lost.items():
        fact = f"line {line} imports {', '.join(names)}, which Python has {until}"
        yield finding(member, _RULE, fact, severity)


def _absent_findings(member: str, start: str, name: str, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a name that no release of the standard library has, as far as this Python shows."""
    module, _, attribute = name.rpartition(".")
    if name in _WINDOWS_NAMES or case.newest_python < _THIS or not _lacks(module, attribute):
        return
    fact = f"{start} {name}, which Python doesn't have"
    is_this = (case.oldest_python or 0) <= _THIS  # a newer Python may have it
    yield finding(member, _RULE, fact, "error" if is_this else "warning")


@cache
def _lacks(module: str, name: str) -> bool:
    """Return True if a module of the standard library has no attribute or submodule of a name."""
    if module.partition(".")[0] not in sys.stdlib_module_names or not name:
        return False
    if loaded := sys.modules.get(module):
        folders = getattr(loaded, "__path__", None)
        is_part = folders is not None and PathFinder.find_spec(name, list(folders)) is not None
        return not hasattr(loaded, name) and not is_part
    source = source_of(module)
    word = re.compile(rb"\b%b\b" % re.escape(name.encode()))
    is_package = b"__path__" in source or not source or source.count(b"\n") < 2  # noqa: PLR2004
    return not is_package and not _UNREAD.search(source) and not word.search(source)


def source_of(module: str) -> bytes:
    """Return the code of a module of the standard library; empty for one that isn't in Python."""
    try:
        folder = Path(sysconfig.get_path("stdlib"), *module.split(".")[:-1])
        spec = PathFinder.find_spec(module, [str(folder)])
        is_file = spec is not None and spec.origin and spec.origin.endswith(".py")
        is_module = is_file and spec is not None and not spec.submodule_search_locations
        return read_bytes(Path(spec.origin)) if is_module and spec and spec.origin else b""
    except OSError:
        return b""


def _until(removed: int) -> str:
    return f"only before 3.{removed}" if removed > 1 else "only before 3"


def _windows_findings(member: str, fact: str, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield what only Python for Windows has, unless the wheel is for Windows alone."""
    systems = [name for name in header(case.scan.metadata, "classifier") if "System ::" in name]
    is_meant = any("Microsoft" in name for name in systems) and not any(map(_POSIX.search, systems))
    is_linux = any(name == "any" or "linux" in name for name in case.platforms)
    if is_linux and not is_meant:
        severity: Severity = "warning" if "any" in case.platforms else "error"
        yield finding(member, _RULE, f"{fact}, which only Python for Windows has", severity)


@cache
def _may_use() -> re.Pattern[bytes]:
    """Return a pattern of code that may use something of the tables."""
    tables = (ADDED_NAMES, REMOVED_NAMES, _OF_TEXT, dict.fromkeys(_WINDOWS_NAMES))
    names = {name.rpartition(".")[2] for table in tables for name in table}
    words = {name.rpartition(".")[2] for name in _KEYWORDS}
    text = rf"\.({'|'.join(sorted(names))})\b|\b({'|'.join(sorted(words))})\s*=".encode()
    return re.compile(text + b"|" + _DICT.pattern)


def _used_findings(member: str, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield what an import uses, or else the first that a function uses without a choice."""
    code, module = case.code, _Uses(case.code, member)
    is_run, done = member in code.run, set[str]()
    for use in module.at_import():
        if use.name not in done and (use.name not in _WINDOWS_NAMES or is_run):
            done.add(use.name)
            yield from _use_findings(use, member, case, "error" if is_run else "warning")
    if done or _SELECTS.search(code.sources[member]):
        return
    for use in module.in_functions():
        if faults := [*_use_findings(use, member, case, "note")]:
            yield faults[0]
            return


def _use_findings(
    use: _Use, member: str, case: AuditCase, severity: Severity
) -> Iterator[AuditFinding]:
    oldest, fact = case.oldest_python, f"line {use.line} uses {use.name}"
    if use.is_name and _is_made(use.name, case.code):
        return
    if use.added == _NEVER:
        if severity == "error":
            yield from _absent_findings(member, f"line {use.line} uses", use.name, case)
        return
    if use.name in _WINDOWS_NAMES and severity != "note":
        yield from _windows_findings(member, fact, case)
    if oldest and use.added > oldest:
        fact += f", which Python has from 3.{use.added} on, but 3.{oldest} is allowed"
        # Code may give an argument to a function of its own of that name.
        level = severity if use.is_name or severity == "note" else "warning"
        yield finding(member, _RULE, fact, level)
    elif oldest and use.removed <= case.newest_python:
        fact += f", which Python has {_until(use.removed)}"
        level = "warning" if severity == "error" and use.removed > oldest else severity
        yield finding(member, _RULE, fact, level)


def _is_made(name: str, code: PythonCode) -> bool:
    """Return True if some code of the wheel may define an attribute, or look for it first."""
    last = re.escape(name.rpartition(".")[2].encode())
    pattern = re.compile(rb"\.%b\s*=[^=]|[\"']%b[\"']" % (last, last))
    return any(map(pattern.search, code.sources.values()))


class _Uses:
    """The uses of one module, whose names of modules nothing else binds."""

    def __init__(self, code: PythonCode, member: str) -> None:
        self._statements = code.statements(member)
        targets: dict[str, set[str]] = defaultdict(set)
        for node in code.nodes(member):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    targets[alias.asname or first].add(alias.name if alias.asname else first)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    module = "." if node.level else f"{node.module}."
                    targets[alias.asname or alias.name].add(f"{module}{alias.name}")
            else:
                bound = [node.arg] if isinstance(node, ast.arg) else names_of(node)
                for name in bound:
                    targets[name].add("")
        own = {name.partition(".")[0] for name in code.modules}
        self._names = {name: f"builtins.{name}" for name in _BUILTIN - targets.keys()}
        for name, (target, *others) in targets.items():
            if not others and target.partition(".")[0] not in own:
                self._names[name] = target

    def at_import(self) -> Iterator[_Use]:
        """Yield what an import surely uses."""
        queue = list(self._statements)
        for node in queue:
            if isinstance(node, ast.Raise):
                return
            if isinstance(node, ast.ClassDef):
                queue += node.body
            if not isinstance(node, _CHOICE):
                for part in evaluated_by(node):
                    yield from self._uses_of(part)

    def in_functions(self) -> Iterator[_Use]:
        """Yield what functions use where nothing decides that."""
        queue: list[ast.AST] = [
            node for node in self._statements if isinstance(node, (*_FUNCTION, ast.ClassDef))
        ]
        for node in queue:
            if not isinstance(node, _CHOICE):
                yield from self._uses_of(node)
                queue += ast.iter_child_nodes(node)

    def _uses_of(self, node: ast.AST) -> Iterator[_Use]:
        if isinstance(node, ast.Attribute):
            name = self._name(node)
            added, removed = ADDED_NAMES.get(name, 0), REMOVED_NAMES.get(name, _NEVER)
            if added or removed < _NEVER or name in _WINDOWS_NAMES:
                yield _Use(node.lineno, name, added, removed, True)
            elif name.count(".") == 1 and _lacks(*name.split(".")):
                yield _Use(node.lineno, name, _NEVER, _NEVER, True)
            elif node.attr in _OF_TEXT and _is_text(node.value):
                yield _Use(node.lineno, f"str.{node.attr}", _OF_TEXT[node.attr], _NEVER, True)
        elif isinstance(node, ast.Call):
            name = self._name(node.func)
            for word in node.keywords if name else ():
                if added := _KEYWORDS.get(f"{name}.{word.arg}", 0):
                    text = f"{name.removeprefix('builtins.')}({word.arg}=)"
                    yield _Use(node.lineno, text, added, _NEVER, False)
        elif isinstance(node, ast.BinOp) and _is_dict(node):
            yield _Use(node.lineno, "| of dictionaries", _MERGE, _NEVER, False)

    def _name(self, node: ast.expr) -> str:
        if isinstance(node, ast.Attribute):
            owner = self._name(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return self._names.get(node.id, "") if isinstance(node, ast.Name) else ""


def _is_text(node: ast.expr) -> bool:
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    is_known = isinstance(node, ast.Name) and node.id in _TEXTS
    return is_constant or is_known or isinstance(node, ast.JoinedStr)


def _is_dict(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _is_dict(node.left) and _is_dict(node.right)
    return isinstance(node, (ast.Dict, ast.DictComp))
