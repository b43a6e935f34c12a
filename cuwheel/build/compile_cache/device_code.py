"""What a build's cicc and ptxas have to know to share device code with builds for other platforms.

What they do with it: `standalone/launcher/device_code.py`. docs/adr/0044.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.build.compile_cache.folders import DEVICE_FOLDER

if TYPE_CHECKING:
    from cuwheel.build.compile_cache.choice import CacheChoice
    from cuwheel.build.launcher.canary import Canary
    from cuwheel.model.platform import Platform
    from cuwheel.sandbox.path_map import PathMap


def device_code_variables(
    choice: CacheChoice, path_map: PathMap, canary: Canary, platform: Platform
) -> dict[str, str]:
    """Variables of the build; none where it has no compile cache, or the toolchain can't share.

    Args:
        choice: its compile cache.
        path_map: where the build has its folders.
        canary: what its toolchain was found to do.
        platform: what the wheel is for.
    """
    if not choice.cache.name or not canary.device_tools:
        return {}
    folder = choice.inside(path_map).cache_folder / DEVICE_FOLDER
    return {
        "CUWHEEL_DEVICE_CODE": str(folder),
        "CUWHEEL_DEVICE_TOOLS": canary.device_tools,
        "CUWHEEL_PLATFORM": platform.name,
    }
