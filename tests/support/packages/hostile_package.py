"""A hostile package, and a machine with what it is after: secrets, servers, other processes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tarfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.engine import PACKAGES
from tests.support.machines.ordinary_user import let_in

SECRET = "a-secret-of-the-home-folder"
_SAID = "ATTACK "


@dataclass(frozen=True, kw_only=True)
class Prey:
    """What a hostile package is after.

    Attributes:
        folder: of the test.
        facts: what the package is to know.
    """

    folder: Path
    facts: dict[str, Any]

    @property
    def host(self) -> Path:
        """A folder that nobody was given."""
        return self.folder / "host"

    @property
    def mark(self) -> str:
        """The argument of a daemon."""
        return str(self.facts["mark"])

    def module(self) -> str:
        """The package's module, with facts of this machine."""
        text = (PACKAGES / "hostile" / "attack.py").read_text()
        # Not readable as it is: the audit finds paths of this machine.
        facts = json.dumps(self.facts).encode().hex()
        return text.replace("FACTS = {}", f'FACTS = json.loads(bytes.fromhex("{facts}"))')

    def sdist(self) -> Path:
        """tiny-capi, whose setup.py and whose import attack."""
        tree = self.folder / "tiny_capi-1.0.0"
        shutil.copytree(PACKAGES / "tiny_capi", tree)
        setup, package = tree / "setup.py", tree / "src" / "tiny_capi" / "__init__.py"
        setup.write_text(f"{self.module()}\nattack()\n{setup.read_text()}")
        package.write_text(f"{package.read_text()}\n{self.module()}\nattack()\n")
        archive_path = self.folder / f"{tree.name}.tar.gz"
        with tarfile.open(archive_path, "w:gz") as archive:
            archive.add(tree, tree.name)
        return archive_path


@contextlib.contextmanager
def preyed_on(folder: Path, memory: Path) -> Iterator[Prey]:
    """Prey, for as long as the block lasts; open to every user of the machine, as far as can be.

    Args:
        folder: of the test.
        memory: what builds share about memory.
    """
    home, host, name = folder / "home", folder / "host", uuid.uuid4().hex
    home.mkdir()
    host.mkdir()
    host.chmod(0o777)
    (home / "secret").write_text(SECRET)
    let_in(folder)
    with contextlib.ExitStack() as stack:
        ipv4 = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        ipv6 = stack.enter_context(socket.socket(socket.AF_INET6))
        with contextlib.suppress(OSError):  # a machine without IPv6
            ipv6.bind(("::1", 0))
            ipv6.listen()
        listening = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        listening[0].bind(f"\0{name}")
        at = os.open(folder, os.O_PATH)  # the path of a socket is short
        listening[1].bind(f"/proc/self/fd/{at}/x.sock")
        os.close(at)
        for server in listening:
            server.listen()
        (folder / "x.sock").chmod(0o777)
        victim = stack.enter_context(
            subprocess.Popen(["sleep", "1000"], env={"PATH": os.defpath, "AWS_SECRET": name})
        )
        stack.callback(victim.kill)
        facts = {
            "secret": str(home / "secret"),
            "home": str(home),
            "host": str(host),
            "word": name,
            "pid": victim.pid,
            "ipv4": ipv4.getsockname()[1],
            "ipv6": ipv6.getsockname()[1],
            "abstract": name,
            "socket": str(folder / "x.sock"),
            "mark": f"3000.{victim.pid}",
            "memory": str(memory),
            "temporary": "/tmp",  # of the sandbox
        }
        yield Prey(folder=folder, facts=facts)


def results(output: str) -> list[dict[str, Any]]:
    """How each attack of a log went, one entry for each time that the package ran."""
    return [json.loads(line.partition(_SAID)[2]) for line in output.splitlines() if _SAID in line]
