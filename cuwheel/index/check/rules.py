"""What can be found in an index: the rules, from which docs/reference/index-check.md is written.

They are those of the specification "Simple repository API" (packaging.python.org), which holds PEP
503, 592, 658, 691, 700, 714 and 740; and what pip and uv do with what breaks them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# From bad to good: who installs gets an error or something else than was published; some installers
# can do less than they could; something that is good to know.
Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One thing that an index has to keep.

    Attributes:
        code: as findings show it.
        severity: of what breaks it.
        summary: what is wrong then.
        why: what comes of it.
        fix: what the index's maker can do.
    """

    code: str
    severity: Severity
    summary: str
    why: str
    fix: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A rule that is broken somewhere.

    Attributes:
        code: of the rule.
        where: the page or the file, below the address that is checked.
        fact: what is there, and what should be.
    """

    code: str
    where: str
    fact: str

    @property
    def rule(self) -> Rule:
        """The rule that is broken."""
        return BY_CODE[self.code]


RULES = (
    Rule(
        code="page",
        severity="error",
        summary="A page can't be read.",
        why="Installers report that there is no such project, or stop.",
        fix="Serve the page that the list of projects names, in the format of PEP 503 or 691.",
    ),
    Rule(
        code="entry",
        severity="error",
        summary="An entry of a page isn't in the format of PEP 691.",
        why="Installers refuse the whole page, or ignore the file.",
        fix="Write the field with the type that the specification requires.",
    ),
    Rule(
        code="project-name",
        severity="error",
        summary="A project's name or address isn't normalized, or is another project's.",
        why="Installers request the normalized name (PEP 503): lower case, `-` for each run of "
        "`-_.`. They don't find a project at another address.",
        fix="Put the page below its normalized name, and link it there.",
    ),
    Rule(
        code="file-name",
        severity="error",
        summary="A file's name isn't one that pip accepts, or names another project.",
        why="Installers read project, version and tags from the name, and ignore a file whose "
        "name they can't parse.",
        fix="Build the file again; don't rename wheels manually but with `wheel tags`.",
    ),
    Rule(
        code="file-kind",
        severity="note",
        summary="A file is neither a wheel nor a source archive.",
        why="Installers ignore eggs, Windows installers and the like.",
        fix="Nothing has to be done; the file can be removed.",
    ),
    Rule(
        code="duplicate",
        severity="error",
        summary="A page lists a file twice.",
        why="Which of the two is installed depends on the installer.",
        fix="List each file once; give a rebuilt wheel a build tag.",
    ),
    Rule(
        code="link",
        severity="error",
        summary="A link doesn't point to a file of that name.",
        why="The text of a link has to be the last part of its address (PEP 503), and the "
        "address has to be http, https or file: installers read the name from either.",
        fix="Correct the link.",
    ),
    Rule(
        code="insecure-link",
        severity="warning",
        summary="A page served over https links a file over http.",
        why="An attacker on the network can replace the file, and without a hash on the page "
        "nobody notices; pip refuses the host.",
        fix="Link over https, or with a relative address.",
    ),
    Rule(
        code="no-hash",
        severity="error",
        summary="A file has no hash that can be checked.",
        why="It can't be verified that the downloaded file is the published one, and locks "
        "can't pin it without downloading it.",
        fix="Add the SHA-256: `#sha256=...` at the end of the link, `hashes` in JSON.",
    ),
    Rule(
        code="weak-hash",
        severity="error",
        summary="A file's only hash is a weak one.",
        why="Anybody can create two files with the same MD5 or SHA-1.",
        fix="Add the SHA-256.",
    ),
    Rule(
        code="missing",
        severity="error",
        summary="A file isn't where its page says.",
        why="Installing it fails.",
        fix="Upload the file again; to withdraw a file, leave it there and yank it (PEP 592).",
    ),
    Rule(
        code="unreachable",
        severity="error",
        summary="A server doesn't answer a request for a file, or the connection breaks.",
        why="Installing it fails; its content couldn't be checked.",
        fix="Check again later; if the error remains, look at the server's log.",
    ),
    Rule(
        code="size",
        severity="error",
        summary="A file's size isn't the one that its page gives.",
        why="uv's progress and free-space checks are wrong, and the page or the file is not the "
        "published one.",
        fix="Write the page again from the published file.",
    ),
    Rule(
        code="hash",
        severity="error",
        summary="A file doesn't have the hash that its page gives.",
        why="pip and uv refuse it. It was damaged or replaced, or the page is for another file.",
        fix="First find out which of them is right; then upload the published file, or publish "
        "the other one with a build tag.",
    ),
    Rule(
        code="archive",
        severity="error",
        summary="A wheel is not a valid archive.",
        why="Installers refuse it, or unpack something other than what was built.",
        fix="Build it again: `nox -s audit -- FILE` says what is wrong with it.",
    ),
    Rule(
        code="record",
        severity="error",
        summary="RECORD doesn't match the wheel's content.",
        why="Installers that check it refuse the wheel, and the installed package can't be "
        "verified or removed completely.",
        fix="Build it again; something changed it after it was packed.",
    ),
    Rule(
        code="wheel-name",
        severity="error",
        summary="A wheel's METADATA names another project or version than its file name.",
        why="pip refuses it after the download.",
        fix="Build it again with the right name.",
    ),
    Rule(
        code="metadata-missing",
        severity="error",
        summary="The page announces a METADATA file that isn't there.",
        why="pip and uv request it first (PEP 658) and stop with 404.",
        fix="Put the wheel's METADATA beside it as `<wheel>.metadata`, or don't announce it.",
    ),
    Rule(
        code="metadata-hash",
        severity="error",
        summary="The METADATA file doesn't have the hash that the page gives.",
        why="pip refuses it.",
        fix="Write it and its hash again from the wheel.",
    ),
    Rule(
        code="metadata",
        severity="error",
        summary="The METADATA file differs from the METADATA in the wheel.",
        why="Installers resolve with the first and install the second: the dependencies differ "
        "from those that were resolved.",
        fix="Copy the bytes from the wheel; both have to be identical (PEP 658).",
    ),
    Rule(
        code="metadata-keys",
        severity="error",
        summary="The old and the new attribute that announce METADATA contradict each other.",
        why="Old installers read `data-dist-info-metadata`, new ones `data-core-metadata`: they "
        "see different values.",
        fix="Give both the same value, or only the new one (PEP 714).",
    ),
    Rule(
        code="old-metadata-key",
        severity="note",
        summary="METADATA is announced only under its old name.",
        why="Installers that follow PEP 714 strictly ignore it, and download the whole wheel to "
        "resolve.",
        fix="Announce it as `core-metadata` (HTML: `data-core-metadata`) too.",
    ),
    Rule(
        code="no-metadata",
        severity="note",
        summary="A wheel's METADATA isn't served separately.",
        why="To resolve, installers request parts of the wheel, or download all of it.",
        fix="Serve it (PEP 658), as `nox -s index` does.",
    ),
    Rule(
        code="requires-python",
        severity="error",
        summary="The page gives other Python versions than the wheel, or an invalid specifier.",
        why="Installers ignore a wheel that is compatible, or install one that isn't.",
        fix="Write the page's attribute from the wheel's METADATA.",
    ),
    Rule(
        code="forms",
        severity="error",
        summary="The HTML and the JSON form of a page disagree.",
        why="pip and uv read JSON, older installers and plain servers HTML: they see different "
        "files.",
        fix="Write both from the same list.",
    ),
    Rule(
        code="versions",
        severity="error",
        summary="`versions` of the JSON page lacks a version that has files, or is missing.",
        why="PEP 700 requires it from API version 1.1 on; tools that list versions use it.",
        fix="List the version of each file.",
    ),
    Rule(
        code="variants",
        severity="error",
        summary="The file that describes a release's variants isn't listed, or lacks one.",
        why="Installers that support variants (PEP 825) learn the meaning of a label only from "
        "`NAME-VERSION-variants.json`: without it they don't install the variant.",
        fix="List the release's `-variants.json` with each label; `nox -s index -- --to DIR "
        "--variants` writes it.",
    ),
    Rule(
        code="no-size",
        severity="error",
        summary="The JSON page doesn't give a file's size.",
        why="PEP 700 requires it from API version 1.1 on.",
        fix="Add `size` in bytes.",
    ),
    Rule(
        code="date",
        severity="error",
        summary="An upload time isn't valid, or is in the future.",
        why="`--exclude-newer` and `--uploaded-prior-to` depend on it.",
        fix="Give it in UTC: `2026-11-23T10:00:00Z`.",
    ),
    Rule(
        code="no-date",
        severity="note",
        summary="The JSON page doesn't say when a file was uploaded.",
        why="uv with `--exclude-newer` ignores such files.",
        fix="Add `upload-time` (PEP 700).",
    ),
    Rule(
        code="yank-reason",
        severity="note",
        summary="A file was yanked without a reason.",
        why="Installers show the reason to everyone who has pinned it; here there is none to show.",
        fix="Give a reason (PEP 592).",
    ),
    Rule(
        code="provenance",
        severity="error",
        summary="A link to attestations points to nothing, or isn't a full address.",
        why="Attestations can't be verified; PEP 740 requires a full address.",
        fix="Upload the file, or remove the link from the page.",
    ),
    Rule(
        code="attestation",
        severity="error",
        summary="Attestations can't be read, or are for another file.",
        why="Tools that verify them refuse the file, or can't verify it. Only name and SHA-256 "
        "in each statement are checked here (PEP 740); use `pypi-attestations verify` to "
        "check who signed it and whether the signature is valid.",
        fix="Put the attestations of this file there.",
    ),
    Rule(
        code="unread",
        severity="warning",
        summary="A file wasn't read.",
        why="Its hash, METADATA and RECORD weren't checked.",
        fix="With --quick the server has to support range requests (`Range`), otherwise leave "
        "it out; raise --max-download, or name fewer projects with --only.",
    ),
    Rule(
        code="changed",
        severity="error",
        summary="A published file name now has other bytes.",
        why="Every lock that names the file fails, and users who installed it before and after "
        "have two different files. This is what an attack on an index looks like.",
        fix="Restore the published file, and publish the other one with a build tag. If the "
        "change is intended, remove the snapshot.",
    ),
    Rule(
        code="vanished",
        severity="error",
        summary="A published file is no longer listed.",
        why="Locks and builds that name it fail.",
        fix="Restore it; yank it if nobody should install it. If it is intended, remove the "
        "snapshot.",
    ),
    Rule(
        code="redated",
        severity="warning",
        summary="A file has another upload time than before.",
        why="The result of `--exclude-newer` for a given day has changed.",
        fix="Keep the first date of each file.",
    ),
    Rule(
        code="yanked",
        severity="note",
        summary="A file was yanked, or is no longer yanked.",
        why="Installers install it only if it is pinned; or again without a pin.",
        fix="Nothing has to be done.",
    ),
    Rule(
        code="new",
        severity="note",
        summary="A file was not there before.",
        why="It was published since the snapshot.",
        fix="Nothing has to be done.",
    ),
)
BY_CODE = {rule.code: rule for rule in RULES}
