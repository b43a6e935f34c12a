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
        why="Installers say that there is no such project, or stop.",
        fix="Serve the page that the list of projects names, in the form of PEP 503 or 691.",
    ),
    Rule(
        code="entry",
        severity="error",
        summary="An entry of a page isn't in the form of PEP 691.",
        why="Installers refuse the whole page, or leave the file out.",
        fix="Write the field with the type that the specification gives it.",
    ),
    Rule(
        code="project-name",
        severity="error",
        summary="A project's name or address isn't normalised, or is another's.",
        why="Installers ask for the normalised name (PEP 503): lower case, `-` for each run of "
        "`-_.`. Nobody finds a project below another address.",
        fix="Put the page below its normalised name, and link it there.",
    ),
    Rule(
        code="file-name",
        severity="error",
        summary="A file's name isn't one that pip takes, or names another project.",
        why="Installers read project, version and tags from the name, and pass over a file whose "
        "name they can't read.",
        fix="Build the file again; don't rename wheels by hand but with `wheel tags`.",
    ),
    Rule(
        code="file-kind",
        severity="note",
        summary="A file is neither a wheel nor a source archive.",
        why="Installers pass over eggs, installers for Windows and the like.",
        fix="Nothing has to be done; the file can go.",
    ),
    Rule(
        code="duplicate",
        severity="error",
        summary="A page names a file twice.",
        why="Which of the two is installed differs from one installer to the next.",
        fix="Name each file once; give a wheel that was built again a build tag.",
    ),
    Rule(
        code="link",
        severity="error",
        summary="A link leads to no file of that name.",
        why="The text of a link has to be the last part of its address (PEP 503), and that has to "
        "be one of http, https or file: installers read the name from either.",
        fix="Correct the link.",
    ),
    Rule(
        code="insecure-link",
        severity="warning",
        summary="A page that came over https links a file over http.",
        why="Whoever is on the line can send another file, and where the page gives no hash nobody "
        "notices; pip refuses the host.",
        fix="Link https, or relatively.",
    ),
    Rule(
        code="no-hash",
        severity="error",
        summary="A file has no hash that can be checked.",
        why="Nothing tells whether what comes is what was published, and locks can't pin it "
        "without downloading it.",
        fix="Give the SHA-256: `#sha256=...` behind the link, `hashes` in JSON.",
    ),
    Rule(
        code="weak-hash",
        severity="error",
        summary="A file's only hash is a weak one.",
        why="Two files with one MD5 or SHA-1 can be made by anybody.",
        fix="Give the SHA-256.",
    ),
    Rule(
        code="missing",
        severity="error",
        summary="A file isn't where its page says.",
        why="Installing it ends with an error.",
        fix="Upload the file again; to withdraw one, leave it there and yank it (PEP 592).",
    ),
    Rule(
        code="unreachable",
        severity="error",
        summary="A server gives no answer about a file, or breaks off.",
        why="Installing it ends with an error; what is in it couldn't be checked.",
        fix="Check again later; if it lasts, look at the server's log.",
    ),
    Rule(
        code="size",
        severity="error",
        summary="A file hasn't the size that its page says.",
        why="uv's progress and free-space checks go wrong, and the page or the file is not "
        "the one that was published.",
        fix="Write the page again from the file that was published.",
    ),
    Rule(
        code="hash",
        severity="error",
        summary="A file isn't the one whose hash its page gives.",
        why="pip and uv refuse it. It was damaged, replaced, or the page is of another file.",
        fix="Find out which of them is right before anything else; then upload the file that was "
        "published, or publish the other one with a build tag.",
    ),
    Rule(
        code="archive",
        severity="error",
        summary="A wheel is no valid archive.",
        why="Installers refuse it, or unpack something else than was built.",
        fix="Build it again: `nox -s audit -- FILE` says what is wrong with it.",
    ),
    Rule(
        code="record",
        severity="error",
        summary="RECORD doesn't say what the wheel holds.",
        why="Installers that check it refuse the wheel, and what was installed can't be verified "
        "or removed whole.",
        fix="Build it again; something changed it after it was packed.",
    ),
    Rule(
        code="wheel-name",
        severity="error",
        summary="A wheel's METADATA names another project or version than its file name.",
        why="pip refuses it after the download.",
        fix="Build it again under its right name.",
    ),
    Rule(
        code="metadata-missing",
        severity="error",
        summary="The page announces a METADATA file that isn't there.",
        why="pip and uv ask for it first (PEP 658) and stop with 404.",
        fix="Put the wheel's METADATA beside it as `<wheel>.metadata`, or don't announce it.",
    ),
    Rule(
        code="metadata-hash",
        severity="error",
        summary="The METADATA file isn't the one whose hash the page gives.",
        why="pip refuses it.",
        fix="Write it and its hash again from the wheel.",
    ),
    Rule(
        code="metadata",
        severity="error",
        summary="The METADATA file isn't the METADATA in the wheel.",
        why="Installers resolve by the first and install the second: other dependencies than "
        "those that were resolved.",
        fix="Take the bytes out of the wheel; the file has to be the same (PEP 658).",
    ),
    Rule(
        code="metadata-keys",
        severity="error",
        summary="The new and the old name of the METADATA announcement contradict each other.",
        why="Old installers read `data-dist-info-metadata`, new ones `data-core-metadata`: they "
        "see different things.",
        fix="Give both the same value, or the new one alone (PEP 714).",
    ),
    Rule(
        code="old-metadata-key",
        severity="note",
        summary="METADATA is announced under its old name alone.",
        why="Installers that follow PEP 714 to the letter don't look at it, and download the whole "
        "wheel to resolve.",
        fix="Announce it as `core-metadata` (HTML: `data-core-metadata`) too.",
    ),
    Rule(
        code="no-metadata",
        severity="note",
        summary="A wheel's METADATA isn't offered by itself.",
        why="To resolve, installers ask for parts of the wheel, or download all of it.",
        fix="Offer it (PEP 658), as `nox -s index` does.",
    ),
    Rule(
        code="requires-python",
        severity="error",
        summary="The page says other Pythons than the wheel, or something that can't be read.",
        why="Installers pass over a wheel that would fit, or take one that doesn't.",
        fix="Write the page's attribute from the wheel's METADATA.",
    ),
    Rule(
        code="forms",
        severity="error",
        summary="The HTML and the JSON form of a page disagree.",
        why="pip and uv read JSON, older installers and plain servers HTML: they see different "
        "things.",
        fix="Write both from one list.",
    ),
    Rule(
        code="versions",
        severity="error",
        summary="`versions` of the JSON page lacks a version that has files, or is missing.",
        why="PEP 700 asks for it from API version 1.1 on; tools that list versions go by it.",
        fix="List the version of each file.",
    ),
    Rule(
        code="variants",
        severity="error",
        summary="The file that says what variants a release has isn't listed, or lacks one.",
        why="Installers that know variants (PEP 825) learn from `NAME-VERSION-variants.json` alone "
        "what a label stands for: without it nobody takes the variant.",
        fix="List the release's `-variants.json` with each label; `nox -s index -- --to DIR "
        "--variants` writes it.",
    ),
    Rule(
        code="no-size",
        severity="error",
        summary="The JSON page doesn't say a file's size.",
        why="PEP 700 asks for it from API version 1.1 on.",
        fix="Give `size` in bytes.",
    ),
    Rule(
        code="date",
        severity="error",
        summary="An upload time isn't one, or lies ahead.",
        why="`--exclude-newer` and `--uploaded-prior-to` go by it.",
        fix="Give it in UTC: `2026-11-23T10:00:00Z`.",
    ),
    Rule(
        code="no-date",
        severity="note",
        summary="The JSON page doesn't say when a file was uploaded.",
        why="uv with `--exclude-newer` passes over such files.",
        fix="Give `upload-time` (PEP 700).",
    ),
    Rule(
        code="yank-reason",
        severity="note",
        summary="A file was withdrawn without a reason.",
        why="Installers show the reason to whoever has it pinned; here they can say nothing.",
        fix="Give one (PEP 592).",
    ),
    Rule(
        code="provenance",
        severity="error",
        summary="A link to attestations leads nowhere, or isn't a full address.",
        why="Who wants to see them proved can't; PEP 740 asks for a full address.",
        fix="Upload the file, or take the link off the page.",
    ),
    Rule(
        code="attestation",
        severity="error",
        summary="Attestations can't be read, or are about another file.",
        why="Who checks them refuses the file, or learns nothing of it. What is checked here is "
        "name and SHA-256 in each statement (PEP 740); whose signature it is, and whether it is "
        "right, is for `pypi-attestations verify`.",
        fix="Put the attestations of this very file there.",
    ),
    Rule(
        code="unread",
        severity="warning",
        summary="A file wasn't read.",
        why="Its hash, METADATA and RECORD weren't checked.",
        fix="With --quick the server has to know requests for parts (`Range`), else leave it out; "
        "raise --max-download, or name fewer projects with --only.",
    ),
    Rule(
        code="changed",
        severity="error",
        summary="Other bytes are offered under a name that was published before.",
        why="Every lock that names the file fails, and who installed it before and after has two "
        "different things. This is what an attack on an index looks like.",
        fix="Put the published file back, and publish the other with a build tag. If all of it is "
        "meant, remove the snapshot.",
    ),
    Rule(
        code="vanished",
        severity="error",
        summary="A file that was published isn't offered any more.",
        why="Locks and builds that name it fail.",
        fix="Put it back; yank it, if nobody should take it. If it is meant, remove the snapshot.",
    ),
    Rule(
        code="redated",
        severity="warning",
        summary="A file has another upload time than before.",
        why="What `--exclude-newer` gives for a day has changed.",
        fix="Keep the first date of each file.",
    ),
    Rule(
        code="yanked",
        severity="note",
        summary="A file was withdrawn, or is good again.",
        why="Installers take it only where it is pinned; or anybody again.",
        fix="Nothing has to be done.",
    ),
    Rule(
        code="new",
        severity="note",
        summary="A file wasn't there before.",
        why="It was published since the snapshot.",
        fix="Nothing has to be done.",
    ),
)
BY_CODE = {rule.code: rule for rule in RULES}
