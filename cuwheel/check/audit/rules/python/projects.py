"""Rules for other projects: names of their releases, Pythons with wheels, queries.

NumPy: `dir(numpy)` and its modules in 1.22 to 2.4, and its release notes of 1.24 for the types of
Python. PyTorch: its documentation and release notes. JAX and CuPy: the public modules in 25 wheels
of 0.4.20 to 0.12, in 6 of 11.6 to 14.2. Wheels: the index, November 2026.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from cuwheel.base.formats.wheel.metadata import parse_requirement
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding, worst_severity
from cuwheel.check.audit.installed_projects import installed_by, package_of
from cuwheel.check.audit.python_code import imported_names, parents_of
from cuwheel.check.audit.rules.python.imports import evaluated_by
from cuwheel.check.audit.tags import minor_of
from cuwheel.check.cuda.frameworks import extras_of, has_common_release

_RULE = "Python code"
_SHOWN = 3  # files in one finding
_CHOICES = (ast.If, ast.Try, ast.For, ast.While)
_REMOVED = {
    "numpy": {
        "1.24": "int float complex object str typeDict unicode bool<2.0 long<2.0",
        "2.0": "AxisError ComplexWarning DataSource Inf Infinity NAN NINF NZERO NaN PINF PZERO "
        "RankWarning TooHardError VisibleDeprecationWarning add_docstring add_newdoc "
        "add_newdoc_ufunc alltrue asfarray byte_bounds cast cfloat clongfloat compat complex_ "
        "cumproduct deprecate deprecate_with_doc disp fastCopyAndTranspose find_common_type float_ "
        "bool8 bytes0 int0 object0 str0 uint0 void0 get_array_wrap geterrobj infty "
        "issctype issubclass_ issubsctype longcomplex longfloat "
        "lookfor mat math maximum_sctype msort nbytes obj2sctype product recfromcsv recfromtxt "
        "round_ safe_eval sctype2char sctypes set_numeric_ops seterrobj singlecomplex sometrue "
        "source string_ tracemalloc_domain unicode_ who lib.arraysetops lib.function_base "
        "lib.index_tricks lib.nanfunctions lib.polynomial lib.shape_base lib.twodim_base "
        "lib.type_check lib.ufunclike lib.utils",
        "2.4": "in1d trapz linalg.linalg",
    },
    "torch": {"2.0": "_six eig lstsq symeig onnx.symbolic_registry"},
    "cuda-bindings": {"13.0": "cuda.cuda cuda.cudart cuda.nvrtc"},
    "cuda-python": {"13.0": "cuda.cuda cuda.cudart cuda.nvrtc"},
    "flax": {"0.6": "optim"},
    "huggingface-hub": {"0.26": "cached_download"},
    "jinja2": {"3.1": "Markup contextfilter contextfunction environmentfilter escape"},
    "keras": {"3.0": "utils.np_utils"},
    "librosa": {"0.8": "output"},
    "markupsafe": {"2.1": "soft_unicode"},
    "matplotlib": {"3.9": "cm.get_cmap cm.register_cmap"},
    "networkx": {"3.0": "from_numpy_matrix to_numpy_matrix"},
    "numba": {"0.59": "generated_jit jitclass"},
    "pandas": {"1.0": "Panel", "2.0": "Float64Index Int64Index UInt64Index util.testing"},
    "pillow": {"10.0": "Image.ANTIALIAS Image.CUBIC Image.LINEAR"},
    "pydantic": {"2.0": "BaseSettings"},
    "pytorch-lightning": {"1.5": "metrics"},
    "scikit-image": {"0.18": "measure.compare_mse measure.compare_psnr measure.compare_ssim"},
    "scikit-learn": {
        "0.20": "cross_validation grid_search",
        "0.23": "externals.joblib externals.six",
        "1.2": "datasets.load_boston",
    },
    "scipy": {
        "1.3": "misc.bytescale misc.fromimage misc.imread misc.imresize misc.imrotate misc.imsave "
        "misc.imshow misc.toimage",
        "1.13": "linalg.tri linalg.tril linalg.triu signal.bartlett signal.blackman "
        "signal.gaussian "
        "signal.hamming signal.hann signal.kaiser",
        "1.14": "integrate.cumtrapz integrate.simps integrate.trapz",
    },
    "setuptools": {"72": "command.test", "82": "pkg_resources"},
    "tensorflow": {
        "2.0": "ConfigProto Session app contrib flags get_default_graph get_variable "
        "global_variables_initializer placeholder variable_scope"
    },
    "torchaudio": {"2.9": "backend io kaldi_io sox_effects"},
    "torchvision": {"0.13": "models.utils", "0.17": "transforms.functional_tensor"},
    "triton": {"3.0": "language.libdevice", "3.2": "ops"},
    "cupy": {
        "13.0": "cuda.compile_with_cache",
        "14.0": "array_api cuda.cudnn cudnn cusolver cusparse cutensor prof sparse",
    },
    "jax": {
        "0.4.24": "core.TracerArrayConversionError linear_util numpy.in1d numpy.row_stack "
        "numpy.trapz prng random.KeyArray",
        # `jax.config` itself isn't a module any more, but a name.
        "0.4.29": "config.config core.DimSize core.Shape lax.tie_in nn.normalize "
        "interpreters.xla.backend_specific_translations interpreters.xla.register_translation "
        "interpreters.xla.translations interpreters.xla.xla_destructure",
        "0.4.31": "core.NamedShape experimental.maps lax.xeinsum random.shuffle",
        "0.4.34": "sharding.XLACompatibleSharding xla_computation",
        "0.4.36": "clear_backends core.thread_local_state experimental.export interpreters.xla.xb "
        "interpreters.xla.xc interpreters.xla.xe",
        "0.4.38": "numpy.round_",
        "0.5.0": "experimental.array_api lib.xla_client.Device lib.xla_client.XlaRuntimeError",
        "0.6.0": "core.ClosedJaxpr core.Jaxpr core.JaxprEqn core.Literal core.Primitive core.Token "
        "core.Var core.full_lower core.jaxpr_as_fun core.raise_to_shaped lib.xla_client.ArrayImpl "
        "lib.xla_client.PrimitiveType lib.xla_client.Shape lib.xla_client.XlaBuilder "
        "lib.xla_client.XlaComputation lib.xla_client.ops "
        "lib.xla_client.register_custom_call_target tree_flatten tree_leaves tree_map "
        "tree_structure tree_transpose tree_unflatten treedef_is_leaf",
        "0.7.0": "core.ConcretizationTypeError core.axis_frame core.call_p core.trace_state_clean "
        "dlpack.to_dlpack interpreters.xla.pytype_aval_mappings lax.infeed lax.outfeed "
        "sharding.PositionalSharding tree_util.build_tree",
        "0.8.0": "experimental.host_callback extend.ffi interpreters.xla.canonicalize_dtype util",
        "0.9.0": "lax.zeros_like_array lib.xla_bridge lib.xla_client lib.xla_extension",
        "0.10.0": "core.get_aval core.mapped_aval core.unmapped_aval device_put_replicated "
        "device_put_sharded experimental.custom_dce experimental.x64_context numpy.fix "
        "sharding.PmapSharding",
    },
}
_ADDED = {
    "numpy": {
        "1.25": "exceptions dtypes",
        "2.0": "acos acosh asin asinh astype atan atan2 atanh bitwise_count bitwise_invert concat "
        "isdtype matrix_transpose permute_dims pow strings trapezoid ulong unique_all "
        "unique_counts unique_inverse unique_values vecdot",
        "2.1": "cumulative_prod cumulative_sum unstack",
        "2.2": "matvec vecmat",
    },
    "jax": {"0.4.30": "export", "0.5.0": "ffi", "0.6.1": "shard_map"},
    "torch": {
        "2.0": "compile func vmap _dynamo set_default_device "
        "nn.functional.scaled_dot_product_attention",
        "2.1": "compiler export float8_e4m3fn float8_e5m2",
        "2.2": "distributed.device_mesh",
        "2.3": "amp.GradScaler uint16 uint32 uint64",
        "2.4": "library.custom_op library.register_fake library.register_autograd library.opcheck "
        "amp.custom_fwd amp.custom_bwd nn.RMSNorm nn.functional.rms_norm "
        "serialization.add_safe_globals",
        "2.5": "nn.attention.flex_attention distributed.tensor.DTensor nn.Buffer",
        "2.6": "library.triton_op library.wrap_triton accelerator distributed.fsdp.fully_shard",
    },
}
# First and last release with a wheel for CPython 3.8 to 3.14; empty: there will be later ones.
_WHEELS = {
    "numpy": "1.17.3:1.24.4 1.19.3:2.0.2 1.21.2:2.2.6 1.23.2: 1.26.0: 2.1.0: 2.3.2:",
    "torch": "1.4.0:2.4.1 1.7.1:2.8.0 1.11.0: 1.13.0: 2.2.0: 2.5.0: 2.9.0:",
    "scipy": "1.3.2:1.10.1 1.5.4:1.13.1 1.7.2:1.15.3 1.9.2: 1.11.2: 1.14.1: 1.16.1:",
    "pandas": "0.25.2:2.0.3 1.1.3:2.3.3 1.3.3:2.3.3 1.5.0: 2.1.1: 2.2.3: 2.3.3:",
}
_OLDEST = 8  # of Python 3 in that table
_GUARDS = re.compile(rb"hasattr|getattr|__version__|AttributeError|ImportError|TYPE_CHECKING")
_ALIASES = {
    "cp": "cupy",
    "cupy": "cupy",
    "jax": "jax",
    "jnp": "jax.numpy",
    "nx": "networkx",
    "pd": "pandas",
    "tf": "tensorflow",
    "Image": "PIL.Image",
    "signal": "scipy.signal",
    "integrate": "scipy.integrate",
    "np": "numpy",
    "numpy": "numpy",
    "torch": "torch",
    "xla": "jax.interpreters.xla",
    "xla_client": "jax.lib.xla_client",
}


# Their packages, where these have other names than the projects.
_PACKAGES = {
    "cuda-bindings": "",
    "cuda-python": "",
    "huggingface-hub": "huggingface_hub",
    "pillow": "PIL",
    "pytorch-lightning": "pytorch_lightning",
    "scikit-image": "skimage",
    "scikit-learn": "sklearn",
}
_TOPS = frozenset({"pkg_resources"})


class _Lack(NamedTuple):
    """A name that some allowed releases lack.

    Attributes:
        severity: of a module that imports it.
        is_removed: newer releases lack it, so that a fresh installation does; else older ones.
        release: the first without it, or with it.
    """

    fact: str
    severity: Severity
    is_removed: bool
    project: str
    release: str


def project_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield names and Pythons that the allowed releases of a required project don't have."""
    allowed: dict[str, SpecifierSet] = {}
    for each in (each for each in case.requirements if "" in extras_of(each, case.markers)):
        project = canonicalize_name(each.name)
        name = "cupy" if package_of(project) == "cupy" else str(project)
        allowed[name] = allowed.get(name, SpecifierSet()) & each.specifier
        yield from _python_findings(each, case)
    faults = {
        name: fault
        for project in _REMOVED.keys() & allowed.keys()
        for name, fault in _faults(project, allowed[project], case).items()
    }
    if faults:
        used = [*_imported_findings(faults, case), *_used_findings(faults, case)]
        yield from _by_cause(used)


def _by_cause(found: Iterable[tuple[str, _Lack, AuditFinding]]) -> Iterator[AuditFinding]:
    """Yield one finding for a removed name, or for the newest of the names that were added."""
    groups: dict[tuple[str, str], list[tuple[_Lack, AuditFinding]]] = {}
    for name, lack, item in found:
        kind = "note" if item.severity == "note" else ""
        groups.setdefault((kind, name if lack.is_removed else lack.project), []).append(
            (lack, item)
        )
    for items in groups.values():
        worst = worst_severity(item for _, item in items)
        same = [pair for pair in items if pair[1].severity == worst]
        first = max(same, key=lambda pair: (Version(pair[0].release), -same.index(pair)))[1]
        others = list(dict.fromkeys(i.file for _, i in items if i.file != first.file))
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        fact = f"{first.fact}; so it is in {', '.join(others[:_SHOWN])}{more}"
        yield replace(first, fact=fact) if others else first


def _python_findings(required: Requirement, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a requirement without a wheel for any Python of the tags."""
    rows = _WHEELS.get(canonicalize_name(required.name), "").split()
    minors = {minor_of(tag) for tag in case.tags}
    if not rows or not minors or any(n is None or n < _OLDEST for n in minors):
        return
    ranges = [rows[n - _OLDEST] for n in minors if n and n - _OLDEST < len(rows)]
    known = [SpecifierSet(_range(text)) for text in ranges]
    if len(known) == len(minors) and not any(
        has_common_release(releases, required.specifier) for releases in known
    ):
        names = " and ".join(f"3.{minor}" for minor in sorted(filter(None, minors)))
        fact = f"{required} allows no release with a wheel for Python {names}, which {known[0]} has"
        is_lost = canonicalize_name(required.name) == "torch"  # which has no sources there
        yield finding("METADATA", "metadata", fact, "error" if is_lost else "warning")


def oldest_wheel(project: str, case: AuditCase) -> str:
    """Return the first release with a wheel for the oldest allowed Python; empty: unknown."""
    rows, oldest = _WHEELS[project].split(), case.oldest_python or 0
    return rows[oldest - _OLDEST].partition(":")[0] if 0 <= oldest - _OLDEST < len(rows) else ""


def _range(text: str) -> str:
    first, _, last = text.partition(":")
    return f">={first}" + (f",<={last}" if last else "")


def _faults(project: str, allowed: SpecifierSet, case: AuditCase) -> dict[str, _Lack]:
    """Return the names that some allowed releases lack."""
    faults: dict[str, _Lack] = {}
    oldest = oldest_wheel(project, case) if project in _WHEELS and case.tags else ""
    served = allowed & SpecifierSet(f">={oldest}" if oldest else "")
    for table, before, has, lacks in (
        (_REMOVED, "before", "<", ">="),
        (_ADDED, "from", ">=", "<"),
    ):
        for release, names in table.get(project, {}).items():
            if not has_common_release(SpecifierSet(f"{lacks}{release}"), served):
                continue
            is_possible = has_common_release(SpecifierSet(f"{has}{release}"), served)
            fact = f"which {project} has only {before} {release}" + (" on" if has == ">=" else "")
            fact += f", and the wheel allows {project}{allowed}"
            severity: Severity = "warning" if is_possible else "error"
            if table is _ADDED and not len(allowed):
                severity = "note"  # a bare name brings the newest release
            lack = _Lack(fact, severity, table is _REMOVED, project, release)
            package = _PACKAGES.get(project, project)
            for text in names.split():
                name, _, again = text.partition("<")  # one that came back
                if again and has_common_release(SpecifierSet(f">={again}"), served):
                    continue
                faults[f"{package}.{name}" if package and name not in _TOPS else name] = lack
    return faults


def _imported_findings(
    faults: Mapping[str, _Lack], case: AuditCase
) -> Iterator[tuple[str, _Lack, AuditFinding]]:
    for item in case.code.imports:
        parents = parents_of(item.module)  # `a.b` of `import a.b.c`
        for name in (*parents, item.module, *(f"{item.module}.{each}" for each in item.names)):
            if name in faults:
                fact = f"line {item.line} imports {name}, {faults[name].fact}"
                found = finding(item.importer, _RULE, fact, faults[name].severity)
                yield name, faults[name], found


def _used_findings(
    faults: Mapping[str, _Lack], case: AuditCase
) -> Iterator[tuple[str, _Lack, AuditFinding]]:
    """Yield names that code uses, where it doesn't look for them first."""
    pattern, noted = _pattern(tuple(faults)), set[str]()
    last = frozenset(name.rpartition(".")[2] for name in faults)
    for member, source in case.scan.sources.items():
        if not pattern.search(source):
            continue
        is_user = member in case.code.run or member in case.code.rest
        statements = case.code.statements(member) if is_user else ()
        parts = chain.from_iterable(map(_evaluated, _at_import(statements)))
        names = imported_names(case.code.statements(member))
        used = [(*each, True) for each in _names_used(parts, names, last)]
        if not _GUARDS.search(source):
            used += [(*each, False) for each in _names_used(case.code.nodes(member), names, last)]
        for line, name, is_run in used:
            if name in faults:
                lack = faults[name]
                is_sure = lack.severity == "error" or lack.is_removed
                severity: Severity = "warning" if is_sure else "note"
                fact = f"line {line} uses {name}, {lack.fact}"
                if is_sure or name not in noted:
                    fails = is_run and member in case.code.run
                    severity = lack.severity if fails else severity
                    yield name, lack, finding(member, _RULE, fact, severity)
                noted.add(name)
                break


def _at_import(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that an import surely runs, those of classes too."""
    for node in statements:
        if isinstance(node, ast.Raise):
            return
        if isinstance(node, ast.ClassDef):
            yield from _at_import(node.body)
        if not isinstance(node, _CHOICES):
            yield node


def _evaluated(node: ast.stmt) -> Iterator[ast.AST]:
    """Yield the parts that a statement evaluates, if no list in it is empty."""
    for part in evaluated_by(node):
        yield part
        if isinstance(part, (ast.ListComp, ast.SetComp)) and not part.generators[0].ifs:
            yield from evaluated_by(ast.Expr(part.elt))


@cache
def _pattern(names: tuple[str, ...]) -> re.Pattern[bytes]:
    texts = sorted({re.escape(name.rpartition(".")[2]) for name in names})
    return re.compile(rf"(?:\.|\bimport )(?:{'|'.join(texts)})\b".encode())


def _names_used(
    nodes: Iterator[ast.AST], names: Mapping[str, str], last: frozenset[str]
) -> Iterator[tuple[int, str]]:
    known = {**_ALIASES, **names}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in last:
            first, dot, rest = ast.unparse(node).partition(".")
            if first in known and dot:
                yield node.lineno, f"{known[first]}.{rest}"
        elif isinstance(node, ast.ImportFrom) and node.col_offset and node.module:  # in a function
            yield node.lineno, node.module
        elif isinstance(node, ast.Import) and node.col_offset:
            yield from ((node.lineno, alias.name) for alias in node.names)


# Functions that raise PackageNotFoundError (importlib.metadata) or DistributionNotFound.
QUERIES = frozenset(
    f"{module}.{name}"
    for module in ("importlib.metadata", "importlib_metadata")
    for name in ("version", "distribution", "metadata", "requires", "files")
) | {"pkg_resources.get_distribution", "pkg_resources.require"}
"""Their names, with their modules."""


class Query(NamedTuple):
    """A call of such a function that an import always runs.

    Attributes:
        member: with the call.
        name: of a distribution, as written.
    """

    member: str
    line: int
    name: str


def query_findings(queries: Iterable[Query], case: AuditCase) -> Iterator[AuditFinding]:
    """Yield queries for distributions that aren't installed with the wheel."""
    optional = {canonicalize_name(each.name) for each in case.requirements} - case.required
    for query in queries if case.scan.metadata else ():
        required = parse_requirement(query.name)
        name = canonicalize_name(required.name) if required else ""
        if name and not _may_be_installed(name, case):
            fact = f"line {query.line} asks for the METADATA of {query.name}, "
            if name in optional:
                fact += "which only an extra or another system requires"
            else:
                fact += f"which no requirement installs: this project is {case.project}"
            severity: Severity = "warning" if name in optional else "error"
            yield finding(query.member, "Python code", fact, severity)


def _may_be_installed(name: str, case: AuditCase) -> bool:
    """Return True for the own project, for those that requirements bring, and for unknown ones.

    A project with the name of the wheel's own package would overwrite it, so nothing requires it.
    """
    eggs = (member.partition("/")[0].partition("-")[0] for member in case.scan.names)
    bundled = {egg.removesuffix(".egg-info") for egg in eggs if egg.endswith(".egg-info")}
    if name in {case.project, *case.assumed, *case.required, *map(canonicalize_name, bundled)}:
        return True
    installed = installed_by(case.required)
    if installed is not None:
        return name in installed
    return name not in {canonicalize_name(root) for root in case.code.roots}
