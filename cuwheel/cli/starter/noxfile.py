"""The sessions of this project, made from its recipes: `nox -l` lists them."""

import sys

import nox

try:
    from cuwheel.under_nox import add_sessions, tell_unknown
except ModuleNotFoundError:
    sys.exit(
        f"{sys.executable}, which runs nox, has no cuwheel: install it there "
        "from a checkout or wheel of it, as it isn't on the package index "
        "(`pip install ./cuwheel`, `pipx inject nox ./cuwheel`, or "
        "`uv tool install nox --with ./cuwheel`)"
    )

nox.options.sessions = ("matrix",)  # what plain `nox` runs: it shows what there is
add_sessions()
tell_unknown()
