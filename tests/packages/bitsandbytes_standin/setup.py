"""Run CMake, which puts the library into the package, then pack the package."""

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py


class WithLibrary(Distribution):
    """Says that the wheel isn't pure, and so gets the tag of one Python; it serves all."""

    def has_ext_modules(self) -> bool:
        """Nothing that setuptools knows of."""
        return True


class AfterCMake(build_py):
    """Collects the package's files when the library is among them."""

    def run(self) -> None:
        """Make the library first."""
        self.run_command("build_cmake")
        super().run()


setup(
    version="0.49.1",
    cmake_source_dir=".",
    cmdclass={"build_py": AfterCMake},
    distclass=WithLibrary,
)
