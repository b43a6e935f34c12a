"""Secrets and this machine's names, masked in everything that leaves the machine.

`refuse_secrets` guards files that are published byte for byte, such as statements.
"""

from cuwheel.build.workspace.masking.public_text import (
    PublicText,
    refuse_secrets,
    refuse_secrets_in_wheels,
)

__all__ = ["PublicText", "public_text", "refuse_secrets", "refuse_secrets_in_wheels"]
