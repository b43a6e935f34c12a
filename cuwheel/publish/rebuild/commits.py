"""Commits of this clone: only code of its user's own may be run, in a checkout for one build.

Anyone who proposes a change to a repository puts objects and refs into it, and a fetch brings them
here. A commit counts if a branch or a tag of the clone, or a branch of a remote that the caller
names, contains it; refs that a fetch wrote for other reasons don't count.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import CommandFailedError, UsageError, suggest
from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.process import inherited, run
from cuwheel.base.system.quantities import first_of

_HEADS, _TAGS, _REMOTES = "refs/heads/", "refs/tags/", "refs/remotes/"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHOWN = 3  # refs that a message names
_SHALLOW = ("rev-parse", "--is-shallow-repository")
# What git writes into reflogs: builtin/fetch.c, branch.c.
_FETCHED = re.compile(r"fetch\b|branch: Created from (FETCH_HEAD|refs/(?!heads/|tags/|remotes/))")
# No program that a configuration or a clone names is started, and no history but the true one is
# read: gitattributes(5), git-replace(1), gitrepository-layout(5) on grafts, git-config(1).
_SAFE_OPTIONS = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"),
    *("-c", "core.commitGraph=false", "-c", "protocol.allow=never"),
)
_SAFE_VARIABLES = {
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": f"{os.devnull}/none",  # for an empty one git warns about grafts
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": os.devnull,
    "XDG_CONFIG_HOME": os.devnull,
}


def run_git(folder: Path, *arguments: str | Path) -> str:
    """Return the output of git, which runs no program and reads no settings but the folder's.

    Raises:
        CommandFailedError: it fails, or isn't there.
    """
    options = (*_SAFE_OPTIONS, "-c", f"safe.directory={folder}", "-C", folder)
    env = {**inherited(), "LC_ALL": "C", **_SAFE_VARIABLES}
    return run(["git", *options, *arguments], env=env).output


def is_at_hand(commit: str, remotes: Collection[str] = ()) -> bool:
    """Return True if a branch or tag of the clone, or a branch of these remotes, contains a commit.

    Args:
        commit: 40 hexadecimal digits; anything else is no commit.

    Raises:
        UsageError: the clone has no remote of such a name.
    """
    if not (ROOT / ".git").exists():
        return False
    rule = _read_rule(remotes)
    return any(rule.counts(ref) for ref in _refs_with(commit))


def why_not_at_hand(commit: str) -> str:
    """Return the reason, as a sentence, why a commit isn't at hand."""
    others = [ref for ref, _ in _refs_with(commit)] if (ROOT / ".git").exists() else []
    if not others:
        why = f"no branch or tag of this clone contains commit {commit or '(none is stated)'}"
        if (ROOT / ".git").exists() and "true" in run_git(ROOT, *_SHALLOW):
            why += "; it is shallow: `git fetch --unshallow` fetches the rest"
        return why
    return (
        f"only {first_of(others, _SHOWN)} of this clone contain commit {commit}: others "
        "than you write there, so its code isn't run"
    )


def _refs_with(commit: str) -> tuple[tuple[str, str], ...]:
    """Return refs that contain a commit, each with the target of a symbolic one."""
    if not _COMMIT.fullmatch(commit):
        return ()
    try:
        if run_git(ROOT, "cat-file", "-t", commit).strip() != "commit":
            return ()
        argv = ("for-each-ref", f"--contains={commit}", "--format=%(refname)%00%(symref)")
        lines = run_git(ROOT, *argv).splitlines()
    except CommandFailedError:
        return ()
    parts = (line.partition("\0") for line in lines if line.startswith("refs/"))  # no warnings
    return tuple((name, target) for name, _, target in parts)


@dataclass(frozen=True, kw_only=True)
class _Refspec:
    """A line `remote.NAME.fetch`: the refs that a fetch writes, and what it writes there."""

    remote: str
    source: str
    target: str

    def source_of(self, ref: str) -> str:
        """Return the remote's ref that a fetch writes into a ref of the clone; else empty.

        The longest `*` is taken, as git does.
        """
        start, star, end = self.target.partition("*")
        if not star:
            return self.source if ref == self.target else ""
        fits = ref.startswith(start) and ref.endswith(end) and len(ref) > len(start + end)
        inner = ref[len(start) : len(ref) - len(end)]
        return self.source.replace("*", inner) if fits else ""


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """The rule for refs of the clone that count.

    Attributes:
        merges: `branch.NAME.remote` and `branch.NAME.merge`, by branch: where `git pull` goes.
    """

    named: frozenset[str]
    remotes: frozenset[str]
    refspecs: tuple[_Refspec, ...]
    merges: dict[str, dict[str, str]]

    def counts(self, ref: tuple[str, str]) -> bool:
        """Return True if the content of a ref is the user's own; a symbolic one has none."""
        name, target = ref
        written = [(refspec.remote, refspec.source_of(name)) for refspec in self.refspecs]
        sources = [(remote, source) for remote, source in written if source]
        are_trusted = all(
            remote in self.named and source.startswith((_HEADS, _TAGS))
            for remote, source in sources
        )
        if target or not are_trusted:
            return False
        if name.startswith(_REMOTES):
            return bool(sources)
        if name.startswith(_TAGS):  # a fetch brings tags of any remote
            return len(self.remotes) <= 1 or self.remotes <= self.named
        return name.startswith(_HEADS) and self._is_own(name.removeprefix(_HEADS))

    def _is_own(self, branch: str) -> bool:
        """Return True if a branch isn't one for a proposed change, as `gh pr checkout` makes them.

        Nor may its reflog show a fetch, as after `git fetch origin pull/7/head:x`.
        """
        merge = self.merges.get(branch, {})
        argv = ("log", "--walk-reflogs", "--format=%gs", f"{_HEADS}{branch}", "--")
        with contextlib.suppress(CommandFailedError):
            if any(map(_FETCHED.match, run_git(ROOT, *argv).splitlines())):
                return False
        is_address = re.search(r"[:/]", merge.get("remote", "")) is not None
        return merge.get("merge", _HEADS).startswith(_HEADS) and not is_address


def _read_rule(named: Collection[str]) -> _Rule:
    """Read the clone's settings and the user's: they may add refspecs to every remote."""
    settings = tuple(_settings())
    remotes = {name for section, name, _, _ in settings if section == "remote"}
    for remote in named:
        if remote not in remotes:
            raise UsageError(
                f"this clone has no remote {remote}",
                why=suggest(remote, remotes) if remotes else "it has none at all",
                fix="`git remote` lists them; leave out --remote where the commit is in a branch "
                "or tag of your own",
            )
    tagless = {name for _, name, key, value in settings if (key, value) == ("tagopt", "--no-tags")}
    merges: dict[str, dict[str, str]] = {}
    for section, name, key, value in settings:
        if section == "branch":
            merges.setdefault(name, {})[key] = value
    return _Rule(
        named=frozenset(named),
        remotes=frozenset(remotes - tagless),
        refspecs=tuple(_refspecs(settings)),
        merges=merges,
    )


def _refspecs(settings: Iterable[tuple[str, str, str, str]]) -> Iterator[_Refspec]:
    for section, name, key, value in settings:
        source, colon, target = value.removeprefix("+").partition(":")
        if (section, key) == ("remote", "fetch") and colon and target:
            full = target if target.startswith("refs/") else f"{_HEADS}{target}"
            yield _Refspec(
                remote=name, source=source if "/" in source else f"{_HEADS}{source}", target=full
            )


def _settings() -> Iterator[tuple[str, str, str, str]]:
    """Yield section, name, key and value of each setting of a remote or a branch."""
    env = inherited("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")
    argv = ("-c", f"safe.directory={ROOT}", "-C", ROOT, "config", "--includes", "-z")
    done = run(["git", *argv, "--get-regexp", r"^(remote|branch)\..*\."], env=env, check=False)
    for entry in done.output.split("\0"):
        key, _, value = entry.partition("\n")
        section, _, rest = key.partition(".")
        name, _, last = rest.rpartition(".")
        if name:
            yield section, name, last, value


@contextlib.contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """Check out a commit's files in a folder of their own, until the block ends.

    It is a repository with the clone's objects and none of its settings: no filter, hook or
    submodule of the clone, of the user or of the commit is run, and the clone isn't written to.

    Raises:
        CommandFailedError: git can't check it out.
        UsageError: the clone is a partial one, and lacks some of them.
    """
    remove_tree(folder)
    folder.mkdir(parents=True)
    try:
        run_git(folder, "init", "--quiet", "--template=")
        alternates = folder / ".git" / "objects" / "info" / "alternates"
        alternates.parent.mkdir(parents=True, exist_ok=True)
        # A linked worktree has the objects of its clone.
        objects = ROOT / run_git(ROOT, "rev-parse", "--git-path", "objects").strip()
        escaped = re.sub(r'(["\\])', r"\\\1", str(objects.resolve()))
        alternates.write_text(f'"{escaped}"\n')
        _check_out(folder, commit)
        yield folder
    finally:
        remove_tree(folder)


def _check_out(folder: Path, commit: str) -> None:
    run_git(folder, "checkout", "--quiet", "--detach", commit, "--")
    missing = run_git(folder, "ls-files", "--deleted").splitlines()
    if missing:  # git only prints that, and exits with 0
        archive = shlex.join(["git", "-C", str(ROOT), "archive", "--output=/dev/null", commit])
        raise UsageError(
            f"this clone lacks files of commit {commit}",
            why=f"it is a partial clone, which has not fetched {missing[0]}, and nothing is "
            "fetched from its remotes here",
            fix=f"fetch them: `{archive}`",
        )


def projects_in(root: Path, projects: Sequence[Path]) -> tuple[Path, ...]:
    """Return the project folders of this checkout in another one; others stay as they are."""
    return tuple(
        root / project.relative_to(ROOT) if project.is_relative_to(ROOT) else project
        for project in projects
    )
