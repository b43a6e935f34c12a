"""What releases of Python 3 added to the standard library, and removed from it.

Modules and names: its documentation, "What's New in Python" of each release and the notes "New in
version"; compared with the interpreters 3.7 to 3.13, not with one of 3.14.
"""

from __future__ import annotations

import sys


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
# Numbers at the start of byte code, by minor release (Include/internal/pycore_magic_number.h).
MAGIC = {8: 3413, 9: 3425, 10: 3439, 11: 3495, 12: 3531, 13: 3571, 14: 3627}
WINDOWS_MODULES = frozenset({"_winapi", "_winreg", "msvcrt", "nt", "winreg", "winsound"})
STANDARD_MODULES = sys.stdlib_module_names | {
    name.partition(".")[0] for name in (*ADDED_MODULES, *REMOVED_MODULES)
}
"""Top-level modules of any release, whichever runs cuwheel."""
ADDED_NAMES = _by_name(
    {
        8: "typing.Final typing.Literal typing.Protocol typing.SupportsIndex typing.TypedDict "
        "typing.final typing.get_args typing.get_origin typing.runtime_checkable math.dist "
        "math.isqrt math.prod math.perm math.comb functools.cached_property "
        "functools.singledispatchmethod",
        9: "typing.Annotated functools.cache math.lcm math.nextafter math.ulp random.randbytes "
        "importlib.resources.files importlib.resources.as_file asyncio.to_thread",
        10: "typing.Concatenate typing.ParamSpec typing.ParamSpecArgs typing.ParamSpecKwargs "
        "typing.TypeAlias typing.TypeGuard typing.is_typeddict itertools.pairwise "
        "types.EllipsisType types.NoneType types.NotImplementedType types.UnionType "
        "contextlib.aclosing dataclasses.KW_ONLY inspect.get_annotations",
        11: "typing.LiteralString typing.Never typing.NotRequired typing.Required typing.Self "
        "typing.TypeVarTuple typing.Unpack typing.assert_never typing.assert_type "
        "typing.clear_overloads typing.dataclass_transform typing.get_overloads "
        "typing.reveal_type enum.EnumCheck enum.EnumType enum.FlagBoundary enum.ReprEnum "
        "enum.StrEnum enum.member enum.nonmember enum.verify enum.property enum.global_enum "
        "asyncio.Runner asyncio.TaskGroup asyncio.timeout asyncio.timeout_at asyncio.Barrier "
        "contextlib.chdir datetime.UTC hashlib.file_digest math.cbrt math.exp2 operator.call "
        "inspect.getmembers_static logging.getLevelNamesMapping",
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
        9: "base64.encodestring base64.decodestring fractions.gcd",
        10: "collections.Callable collections.Container collections.Hashable collections.Iterable "
        "collections.Iterator collections.Mapping collections.MutableMapping "
        "collections.MutableSequence collections.MutableSet collections.Sequence "
        "collections.Set collections.Sized",
        11: "asyncio.coroutine inspect.formatargspec inspect.getargspec binascii.b2a_hqx "
        "binascii.a2b_hqx",
        12: "pkgutil.ImpImporter pkgutil.ImpLoader configparser.SafeConfigParser "
        "ssl.match_hostname ssl.wrap_socket sqlite3.OptimizedUnicode",
        13: "typing.io typing.re locale.resetlocale unittest.findTestCases unittest.makeSuite "
        "unittest.getTestCaseNames",
        14: "ast.Bytes ast.Ellipsis ast.NameConstant ast.Num ast.Str pkgutil.find_loader "
        "pkgutil.get_loader importlib.abc.ResourceReader importlib.abc.Traversable "
        "importlib.abc.TraversableResources asyncio.AbstractChildWatcher "
        "asyncio.get_child_watcher",
    }
)
