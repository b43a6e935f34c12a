"""Exceptions whose cause is known from the message and what is installed."""

from __future__ import annotations

import configparser
import re
import resource
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cuwheel.base.formats.wheel.metadata import project_of
from cuwheel.base.system.regular_files import read_text
from cuwheel.check.cuda.suppliers import components_of
from cuwheel.check.diagnose.facts.builds import elf_at, other_machine
from cuwheel.check.diagnose.facts.environment import LACKING_MODULES, Distribution
from cuwheel.check.diagnose.facts.installed_files import modules_of, named_files
from cuwheel.check.diagnose.facts.machine import OF_SYSTEM, mount_without_programs
from cuwheel.check.diagnose.facts.startup import removal_of, startup_file_with
from cuwheel.check.diagnose.rules.caches import command_for
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.rules.import_failures import exception_in
from cuwheel.check.diagnose.rules.requirements import cuda_of, extra_fix, extras_of, required_by
from cuwheel.check.diagnose.verdict import Diagnosis, broken
from cuwheel.check.linkage.installed_loader import LIBRARY_FOLDERS
from cuwheel.check.linkage.search_path import resolve_entry

# New environments come without it since Python 3.12; the last has no `pkg_resources`.
_OF_SETUPTOOLS = {
    "distutils": "setuptools",
    "pkg_resources": "setuptools<81",
    "setuptools": "setuptools",
}


# The entry about a library of CUDA that isn't there, by a part of its name; else of the others.
_ABSENT = {"cudnn": "libcudnn-not-found", "nvrtc": "libnvrtc-missing"}
_OF_CUDA = "cuda-math-lib-not-found"


# The release without a name, by NumPy's release notes, "Expired deprecations" of each.
_GONE_FROM_NUMPY = {
    **dict.fromkeys(("bool8", "int0", "object0", "str0"), "2"),
    **dict.fromkeys(("Inf", "NaN", "complex_", "float_", "product", "unicode_"), "2"),
    **dict.fromkeys(("in1d", "trapz"), "2.4"),
    "row_stack": "2.5",
}
BACKENDS = ("torch", "jax")  # of Keras, besides TensorFlow
_OF_MACHINE = ("apt-get ", "ulimit ")
_WITH_DISPLAY = re.compile(r"opencv-(contrib-)?python")  # each has a twin without


class KnownCause(NamedTuple):
    """Why something fails, beside its exception, and what helps."""

    anchor: str
    fix: str
    command: str = ""
    why: str = ""


def judge_known(
    what: str, failure: str, owner: Distribution, context: RuleContext, remedy: str | None
) -> Diagnosis | None:
    """Return the verdict on a failure whose message shows the cause; None: it doesn't.

    Args:
        what: fails, `jax 0.5.3 can't be imported`.
        failure: the end of a traceback; empty: none.
        remedy: of what else is wrong, and is to be mended first; None: nothing is.
    """
    exception = exception_in(failure)
    known = find_known_cause(exception, owner, context)
    # Nothing that an environment lacks is why the system lacks a library, or memory.
    if known is None or (remedy is not None and not known.command.startswith(_OF_MACHINE)):
        return None
    return broken(known.anchor, what, f"{exception}; {known.why}", known.fix, known.command)


def find_known_cause(
    exception: str, owner: Distribution, context: RuleContext
) -> KnownCause | None:
    """Return the cause of an exception of a package; None if its message alone doesn't show it."""
    causes = (
        rule(match, owner, context)
        for pattern, rule in _RULES
        for match in re.finditer(pattern, exception)
    )
    return next(filter(None, causes), None)


def _blocked(match: re.Match[str], _: Distribution, context: RuleContext) -> KnownCause | None:
    """Return the startup file that keeps a module from being imported."""
    file = startup_file_with(context.environment.sites, match[1])
    installed = context.environment.distributions.values()
    if file is None or any(file in named_files(own) for own in installed):  # as a redirector
        return None
    return KnownCause(
        "diagnose-startup-file",
        f"remove what is about {match[1]} from {file}",
        removal_of(file, match[1], installed),
        f"{file}, which each start runs, blocks it",
    )


def _stale(match: re.Match[str], _: Distribution, __: RuleContext) -> KnownCause:
    return KnownCause(
        "diagnose-damaged-installation",
        "delete it, Python makes it again",
        f"rm {shlex.quote(match[1])}",
        "it has an unchecked hash (PEP 552), so Python takes it for that of another release",
    )


def _without_source(
    match: re.Match[str], _: Distribution, context: RuleContext
) -> KnownCause | None:
    """Return the distribution of which a module is there only as another Python compiled it."""
    inside = match[1].replace(".", "/")
    for own in context.environment.distributions.values():
        for file in (own.site / f"{inside}.pyc", own.site / inside / "__init__.pyc"):
            if file.with_suffix(".py") in named_files(own) and file.exists():
                again = context.installer.reinstall(own)
                return KnownCause(
                    "diagnose-damaged-installation",
                    f"remove it and install {own.title} again",
                    f"rm {shlex.quote(str(file))} && {again}" if again else "",
                    f"{file} is compiled by another Python, and {own.title} lacks its source",
                )
    return None


def _compiled(_: re.Match[str], owner: Distribution, context: RuleContext) -> KnownCause:
    site = shlex.quote(str(owner.site))
    may_write = context.installer.obstacle is None
    return KnownCause(
        "diagnose-damaged-installation",
        "delete the compiled modules (*.pyc), Python makes them again",
        f"find {site} -name '*.pyc' -delete" if may_write else "",
        "a compiled module is damaged",
    )


def _old_protocols(_: re.Match[str], owner: Distribution, context: RuleContext) -> KnownCause:
    return KnownCause(
        "diagnose-versions",
        f"install the last protobuf that takes its files, 3.20, or a newer {owner.name}",
        context.installer.install("protobuf<3.21"),
        "files in it were made for protobuf 3.20 or older",
    )


def _new_protocols(_: re.Match[str], owner: Distribution, context: RuleContext) -> KnownCause:
    there = context.environment.distributions.get("protobuf")
    newer = f"protobuf>{there.version}" if there else "protobuf"
    return KnownCause(
        "diagnose-versions",
        "install a newer protobuf",
        context.installer.install(newer),
        f"files in {owner.name}, or in what it imports, were made for a newer protobuf",
    )


def _lacking_module(
    match: re.Match[str], _: Distribution, context: RuleContext
) -> KnownCause | None:
    if match[1] not in context.environment.lacking:
        return None
    release = context.environment.release
    return KnownCause(
        "diagnose-incomplete-python",
        f"build Python {release} again with {LACKING_MODULES[match[1]]}, or take another Python; "
        "then create the environment again",
        why=f"Python {release} was built without it",
    )


def _absent_module(
    match: re.Match[str], owner: Distribution, context: RuleContext
) -> KnownCause | None:
    """Return the cause where nothing that is installed has a module."""
    top = match[1].partition(".")[0]
    optional = {project_of(line) for line in owner.requires}
    project = _OF_SETUPTOOLS.get(top, canonicalize_name(top))
    is_known = top in _OF_SETUPTOOLS or project in optional
    there = context.environment.distributions.get(project_of(project))
    if there and not Requirement(project).specifier.contains(there.version, prereleases=True):
        why = f"{there.title} has no {top} any more, which {owner.title}, or what it imports, uses"
    elif is_known and there is None:
        why = f"{project_of(project)} isn't installed, though {owner.title} uses it"
    else:
        return _for_other_python(match[1], owner, context)
    return KnownCause(
        "diagnose-versions", f"install {project}", context.installer.install(project), why
    )


def _for_other_python(module: str, owner: Distribution, context: RuleContext) -> KnownCause | None:
    """Return the cause where a compiled module is there, but for another Python."""
    *folders, name = module.split(".")
    source = owner.editable_folder
    places = [*context.environment.sites, *(Path(source, part) for part in ("", "src") if source)]
    for place in places if folders else ():
        for file in sorted(place.joinpath(*folders).glob(f"{name}.*.so")):
            if file.name.removeprefix(name) not in context.environment.suffixes:
                again = f"build it with this Python: python -m pip install -e {shlex.quote(source)}"
                return KnownCause(
                    "python-version-unsupported",
                    again if source else "install it with this Python",
                    "" if source else context.installer.reinstall(owner),
                    f"{file} is for another Python than {context.environment.release}",
                )
    return None


def _backend_of_keras(
    _: re.Match[str], owner: Distribution, context: RuleContext
) -> KnownCause | None:
    """Return the cause where nothing names a backend, and TensorFlow isn't installed."""
    backends = [name for name in BACKENDS if name in context.environment.distributions]
    settings = Path(context.environ.get("HOME") or Path.home(), ".keras/keras.json")
    if owner.name != "keras" or not backends or settings.exists():
        return None
    return KnownCause(
        "diagnose-variable",
        f"name the backend that is installed, {backends[0]}, or install tensorflow",
        f"export KERAS_BACKEND={backends[0]}",
        "Keras takes TensorFlow where neither KERAS_BACKEND nor ~/.keras/keras.json names another",
    )


def _absent_part(
    match: re.Match[str], owner: Distribution, context: RuleContext
) -> KnownCause | None:
    """Return the cause where a part of a shared namespace comes only with an extra."""
    named = match.groupdict()
    inside = f"{named['package']}.{named['name']}" if named else match[1]
    project = canonicalize_name(inside)
    offered = extras_of(owner, context.environment.markers)
    extras = [extra for extra, projects in offered.items() if project in projects]
    if not extras or project in context.environment.distributions:
        return None
    fix, command = extra_fix(context, owner)
    return KnownCause(
        "diagnose-versions",
        fix if command else f"install {project}",
        command or context.installer.install(project),
        f"{project} isn't installed, which comes with {owner.name}[{extras[-1]}] only",
    )


def _other_interface(
    match: re.Match[str], owner: Distribution, context: RuleContext
) -> KnownCause | None:
    """Return the cause where the module of another distribution lacks a name."""
    module, name = match["module"], match["name"]
    top = module.partition(".")[0]
    for other in context.environment.distributions.values():
        if other.name != owner.name and top in modules_of(other):
            bound = _GONE_FROM_NUMPY.get(name, "") if module == "numpy" else ""
            older = f"{other.name}<{bound}" if bound else f"an older {other.name} if it had {name}"
            return KnownCause(
                "diagnose-versions",
                f"install {older}, or a newer {owner.name}",
                context.installer.install(older) if bound else "",
                why=f"{module} of {other.title} has no {name}, which {owner.title}, or what it "
                "imports, uses",
            )
    return None


def _absent_library(
    match: re.Match[str], _: Distribution, context: RuleContext
) -> KnownCause | None:
    sonames = match[1].split(" or ")
    suppliers = [part for soname in sonames for part in components_of(soname)]
    major = cuda_of(context)
    fitting = [part for part in suppliers if str(part.cuda or "") in {"", major}]
    wheel = next((part.distribution for part in fitting or suppliers), "")
    installed = context.environment.distributions
    if not wheel or any(part.distribution in installed for part in suppliers):
        return None
    return KnownCause(
        next((anchor for part, anchor in _ABSENT.items() if part in match[1]), _OF_CUDA),
        f"install {wheel}",
        context.installer.install(wheel),
        f"no package with {match[1]} is installed",
    )


def _refused_library(
    match: re.Match[str], owner: Distribution, _: RuleContext
) -> KnownCause | None:
    """Return why the loader refuses a library that is there: its machine, or a mount option."""
    path = Path(match[1])
    if other := other_machine(path):
        return KnownCause(
            "diagnose-damaged-installation",
            f"install a build of {owner.name} for this machine",
            why=f"{path.name} {other}",
        )
    if mount := mount_without_programs(path):
        return KnownCause(
            "diagnose-import-failed",
            f"create the environment on another file system, or mount this one without noexec: "
            f"mount -o remount,exec {shlex.quote(str(mount))} (as root)",
            why=f"{mount} is mounted with noexec, which keeps any library there from being loaded",
        )
    return None


def _memory_limit(_: re.Match[str], __: Distribution, ___: RuleContext) -> KnownCause | None:
    """Return the cause where a limit of the shell's programs is too low; this one has it too."""
    limit, _hard = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    return KnownCause(
        "diagnose-import-failed",
        "raise the limit of the shell, or of what has started it (a batch job, a service)",
        "ulimit -v unlimited",
        f"ulimit -v limits the address space of each program to {limit >> 20} MiB",
    )


def _unwritable(match: re.Match[str], _: Distribution, context: RuleContext) -> KnownCause | None:
    """Return the cause where a folder outside the environment can't be written."""
    path = Path(match[2])
    if any(path.is_relative_to(site) for site in context.environment.sites):
        return None
    why = {"28": "its file system is full", "122": "its quota is used up"}.get(match[1])
    return KnownCause(
        "permission-denied",
        f"permit access to {path}, or name another folder",
        command_for(path, context.environ),
        why or "it may not write there, or read",
    )


def _lost_backend(match: re.Match[str], _: Distribution, context: RuleContext) -> KnownCause | None:
    """Return whose entry point PyTorch can't load at its import."""
    for own in context.environment.distributions.values():
        parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
        try:
            parser.read_string(read_text(own.metadata / "entry_points.txt"))
        except (OSError, UnicodeDecodeError, configparser.Error):
            continue
        if parser.has_option("torch.backends", match[1]):
            removal = context.installer.remove((own.name,))
            return KnownCause(
                "diagnose-import-failed",
                f"install {own.name} again, or remove it, unless PyTorch is to go on without it: "
                "TORCH_DEVICE_BACKEND_AUTOLOAD=0",
                removal,
                f"{own.title} registers it as an entry point, torch.backends",
            )
    return None


def _library_of_nobody(
    match: re.Match[str], owner: Distribution, context: RuleContext
) -> KnownCause | None:
    """Return which file needs a library, and which of its folders is gone."""
    soname, installed = match[1], context.environment.distributions
    if soname in OF_SYSTEM:
        return _of_system(soname, owner)
    required = sorted(required_by(context.environment, (owner.name,)))
    for user in (owner, *(installed[name] for name in required)):
        for path in user.libraries:
            elf = elf_at(path)
            if elf is None or soname not in elf.needed:
                continue
            entries = [(entry, resolve_entry(path, entry)) for entry in elf.search_path]
            gone = [entry for entry, folder in entries if folder and not folder.is_dir()]
            where = f"{path.name} of {user.title} needs it"
            if not gone:
                return _unsupplied(soname, where)
            kind = "RUNPATH" if elf.runpath else "RPATH"
            return KnownCause(
                "diagnose-import-failed",
                f"put that folder back, or build {user.name} again and copy its libraries into "
                "the wheel (auditwheel repair)",
                why=f"{where}, and its {kind} leads to {gone[0]}, which isn't there",
            )
    return None


def _of_system(soname: str, owner: Distribution) -> KnownCause:
    """Return the cause where the system lacks a library, with others that it lacks too."""
    elves = filter(None, map(elf_at, owner.libraries))
    others = {name for elf in elves for name in elf.needed if name in OF_SYSTEM}
    lost = [name for name in sorted(others) if not _is_of_system(name)]
    package = " ".join(dict.fromkeys(OF_SYSTEM[name] for name in (soname, *lost)))
    headless = f"{owner.name}-headless" if _WITH_DISPLAY.fullmatch(owner.name) else ""
    instead = f", or use {headless} instead of {owner.name}, which needs no display" * bool(
        headless
    )
    return KnownCause(
        "diagnose-import-failed",
        f"install it with the system's packages: {package} in Debian and Ubuntu{instead}",
        f"apt-get install {package}",
        "wheels leave this library to the system, which doesn't have it",
    )


def _is_of_system(soname: str) -> bool:
    return any(Path(folder, soname).exists() for folder in LIBRARY_FOLDERS)


def _unsupplied(soname: str, where: str) -> KnownCause:
    return KnownCause(
        "diagnose-import-failed",
        f"install what has {soname}; if it is there, add its folder to LD_LIBRARY_PATH",
        why=where,
    )


_Rule = Callable[[re.Match[str], Distribution, RuleContext], KnownCause | None]
_RULES: tuple[tuple[str, _Rule], ...] = (
    (r"(/[^;]+\.pyc) isn't of its source", _stale),
    (r"import of ([\w.]+) halted; None in sys\.modules", _blocked),
    (r"bad magic number in '([\w.]+)'", _without_source),
    (r"marshal data|bad magic number in '", _compiled),
    (r"Descriptors cannot (not )?be created directly", _old_protocols),
    (
        r"Protobuf Gencode/Runtime|(runtime_version|builder)' from 'google\.protobuf",
        _new_protocols,
    ),
    (r"No module named '(_\w+)'", _lacking_module),
    (r"No module named '(\w+\.\w+)'", _absent_part),
    (r"cannot import name '(?P<name>\w+)' from '(?P<package>\w+)' \(unknown loc", _absent_part),
    (r"No module named 'tensorflow'", _backend_of_keras),
    (r"No module named '([\w.]+)'", _absent_module),
    (r"module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'", _other_interface),
    (r"cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)' \(/", _other_interface),
    (r"(lib(?:cu|nv|nccl)[\w.+-]*\.so[\d.]*): cannot open shared object", _absent_library),
    (r'Failure finding "(lib[^"]+)"', _absent_library),  # of cuda-pathfinder
    (r"\[Errno (13|28|30|122)\] [^:]*: '(/[^']+)'", _unwritable),
    (r"MemoryError|Cannot allocate memory|failed to map segment", _memory_limit),
    (r"Failed to load the backend extension: (\w+)", _lost_backend),
    (r"(/[^:]+\.so[\w.-]*): (?:cannot open|failed to map|wrong ELF class)", _refused_library),
    (r"Error: (?!lib(?:cu|nv|nccl))([\w.+-]+\.so[\w.]*): cannot open shared", _library_of_nobody),
)
